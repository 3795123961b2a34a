// The first test of mbarriers
//
// One thread makes an mbarrier for 64 threads; all arrive and wait.
// ---
// A fast warp arrives at a barrier that does not exist yet; the init then
// erases its arrivals, and the block waits forever. A test of a compiler
// hung on an H100; two months later its author named the missing barrier.
// Report: https://github.com/NVIDIA/Fuser/issues/1552 (February 2024)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void meet(const int* x, int* y) {
  __shared__ int tile[64];
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 63) MBARRIER_INIT(&barrier, 64);
#ifdef FIXED
  __syncthreads();
#endif
  tile[threadIdx.x] = x[threadIdx.x];
  MBARRIER_ARRIVE(&barrier);
  MBARRIER_WAIT(&barrier, 0);
  y[threadIdx.x] = tile[63 - threadIdx.x];
}

int main() {
  int *x = numbers<int>(64, 0, 1), *y = numbers<int>(64);
  meet<<<1, 64>>>(x, y);
  return result(y, 64, [](int i) { return 63 - i; });
}
