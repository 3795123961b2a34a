// A stage is free
//
// Two warps use each stage of a ring. When they have, one of them tells the
// producer that the stage may be filled again.
// ---
// The warp that tells it has used the stage; the other one may still wait for
// it. It then waits for a phase that the producer has already begun again:
// wrong data, or a deadlock. A compiler emitted it whenever the leading warp
// of a group signalled for all.
// Report: https://github.com/triton-lang/triton/pull/10035 (April 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void twice(const int* x, int* y, int tiles) {
  __shared__ int stage[64];
  __shared__ std::uint64_t full, empty;
  if (threadIdx.x == 0) {
    MBARRIER_INIT(&full, 64);
    MBARRIER_INIT(&empty, 1);
  }
  __syncthreads();
  for (int tile = 0; tile < tiles; ++tile) {
    if (threadIdx.x < 64) {
      MBARRIER_WAIT(&empty, tile % 2 ^ 1);
      stage[threadIdx.x] = x[tile * 64 + threadIdx.x];
      MBARRIER_ARRIVE(&full);
    } else {
      MBARRIER_WAIT(&full, tile % 2);
      y[tile * 64 + threadIdx.x - 64] = 2 * stage[127 - threadIdx.x];
#ifdef FIXED
      NAMED_SYNC(1, 64);
#else
      __syncwarp();
#endif
      if (threadIdx.x == 64) MBARRIER_ARRIVE(&empty);
    }
  }
}

int main() {
  int *x = numbers<int>(256, 5), *y = numbers<int>(256);
  twice<<<1, 128>>>(x, y, 4);
  return result(y, 256, [](int) { return 10; });
}
