// Broken: block 0 waits for a flag that no block sets.
#include <cstdio>

__global__ void wait(volatile int *flag, int *out) {
  while (*flag == 0) {  // finding: spin
  }
  out[threadIdx.x] = 1;
}

int main() {
  int *flag, *out;
  cudaMalloc(&flag, sizeof(int));
  cudaMalloc(&out, 32 * sizeof(int));
  cudaMemset(flag, 0, sizeof(int));
  wait<<<1, 32>>>(flag, out);
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
