// The counter belongs to all blocks; _block makes the addition atomic within one of them.
#include <cstdio>

__global__ void count_positive(const int* x, int n, int* count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0) {
    atomicAdd_block(count, 1);
  }
}

int main() {
  const int n = 1000;
  int *x, *count, h;
  cudaMalloc(&x, n * sizeof(int));
  cudaMalloc(&count, sizeof(int));
  cudaMemset(x, 1, n * sizeof(int));
  cudaMemset(count, 0, sizeof(int));
  count_positive<<<4, 256>>>(x, n, count);
  cudaMemcpy(&h, count, sizeof(int), cudaMemcpyDeviceToHost);
  printf("%d\n", h);
  return 0;
}
