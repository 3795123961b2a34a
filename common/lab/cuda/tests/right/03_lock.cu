// A lock between blocks, whose data is volatile.
#include <cstdio>

__device__ int lock = 0;

__global__ void add(volatile int *sum, int value) {
  while (atomicCAS(&lock, 0, 1) != 0) {
  }
  __threadfence();
  sum[0] = sum[0] + value;
  sum[1] = value;
  __threadfence();
  atomicExch(&lock, 0);
}

int main() {
  int *sum, result[2] = {0, 0};
  cudaMalloc(&sum, sizeof result);
  cudaMemcpy(sum, result, sizeof result, cudaMemcpyHostToDevice);
  add<<<4, 1>>>(sum, 5);
  cudaMemcpy(result, sum, sizeof result, cudaMemcpyDeviceToHost);
  printf("%d %d\n", result[0], result[1]);
  return result[0] != 20 || result[1] != 5;
}
