// Broken: half of the warp never comes to the shuffle.
#include <cstdio>

__global__ void half_warp(int *out) {
  int v = threadIdx.x;
  if (threadIdx.x < 16) {
    v += __shfl_xor_sync(0xffffffff, v, 1);
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = v;
}

int main() {
  int *out;
  cudaMalloc(&out, 32 * sizeof(int));
  half_warp<<<1, 32>>>(out);
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
