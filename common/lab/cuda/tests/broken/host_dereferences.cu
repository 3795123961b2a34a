// Broken: the host reads device memory without a copy.
#include <cstdio>

__global__ void fill(float *x) { x[threadIdx.x] = threadIdx.x; }

int main() {
  float *x;
  cudaMalloc(&x, 32 * sizeof(float));
  fill<<<1, 32>>>(x);
  cudaDeviceSynchronize();
  float sum = 0;
  for (int i = 0; i < 32; ++i) sum += x[i];  // finding: host access
  printf("%f\n", sum);
}
