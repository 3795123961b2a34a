// Broken: a block of 2048 threads, and nobody asks for the error.
#include <cstdio>

__global__ void fill(float *x) { x[threadIdx.x] = 1; }

int main() {
  float *x;
  cudaMalloc(&x, 2048 * sizeof(float));
  fill<<<1, 2048>>>(x);  // finding: launch
  printf("done\n");
}
