// Two paths to the same sums
//
// A backward pass adds its parts of dQ to a buffer that the kernel before has
// set to zero. For block sparse masks another function does the same for the
// tiles that a list names.
// ---
// The dense path waits for the kernel before; the sparse one was written
// later and does not. It adds to a buffer that is not zero yet, and now and
// then gradients were NaN.
// Report: https://github.com/Dao-AILab/flash-attention/pull/2643 (June 2026)
#include "museum.cuh"

__global__ void clear(int* d_q) {
  cudaTriggerProgrammaticLaunchCompletion();
  d_q[threadIdx.x] = 0;
}

__device__ void add_dense(int* d_q, int tiles) {
  cudaGridDependencySynchronize();
  for (int tile = 0; tile < tiles; ++tile) atomicAdd(&d_q[threadIdx.x], 1);
}

__device__ void add_sparse(int* d_q, const int* list, int tiles) {
#ifdef FIXED
  cudaGridDependencySynchronize();
#endif
  for (int i = 0; i < tiles; ++i) atomicAdd(&d_q[threadIdx.x], list[i]);
}

__global__ void backward(int* d_q, const int* list, int tiles) {
  list == nullptr ? add_dense(d_q, tiles) : add_sparse(d_q, list, tiles);
}

int main() {
  int *d_q = numbers<int>(64, 9), *list = numbers<int>(4, 1);
  clear<<<1, 64>>>(d_q);
  launch_early(backward, 2, 64, d_q, list, 4);
  return result(d_q, 64, [](int) { return 8; });
}
