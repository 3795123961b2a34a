// Broken: the loop never ends, and touches no memory.
#include <cstdio>

__global__ void spin(int *out, int n) {
  int x = threadIdx.x;
  while (n != 0) x = x * 5 + n;
  out[threadIdx.x] = x;
}

int main(int argc, char **) {
  int *out;
  cudaMalloc(&out, 32 * sizeof(int));
  spin<<<1, 32>>>(out, argc);  // finding: time limit
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
