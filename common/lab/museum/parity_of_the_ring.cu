// The parity of a phase
//
// A pipeline of three stages signals the end of each tile's arithmetic by one
// mbarrier.
// ---
// The parity is computed as for a ring, where a barrier is used every third
// tile; this one is used in every tile. It waits for phases that have already
// ended, so the next copy overwrites a stage in use. A compiler generated it
// for pipelines of three stages and more.
// Report: https://github.com/tile-ai/tilelang/pull/3087 (August 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void add_up(const int* x, int* y, int tiles) {
  __shared__ int tile_smem[32];
  __shared__ std::uint64_t full, done;
  if (threadIdx.x == 0) {
    MBARRIER_INIT(&full, 32);
    MBARRIER_INIT(&done, 32);
  }
  __syncthreads();
  int sum = 0;
  for (int tile = 0; tile < tiles; ++tile) {
#ifdef FIXED
    const int parity = tile % 2;
#else
    const int parity = tile / 3 % 2;
#endif
    if (threadIdx.x < 32) {
      tile_smem[threadIdx.x] = x[tile * 32 + threadIdx.x];
      MBARRIER_ARRIVE(&full);
      MBARRIER_WAIT(&done, parity);
    } else {
      MBARRIER_WAIT(&full, tile % 2);
      sum += tile_smem[63 - threadIdx.x];
      MBARRIER_ARRIVE(&done);
    }
  }
  if (threadIdx.x >= 32) y[threadIdx.x - 32] = sum;
}

int main() {
  int *x = numbers<int>(288, 1), *y = numbers<int>(32);
  add_up<<<1, 64>>>(x, y, 9);
  return result(y, 32, [](int) { return 9; });
}
