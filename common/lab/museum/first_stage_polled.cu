// A ring of stages
//
// A warp copies tiles into a ring of two stages; another one waits for each
// stage and uses it.
// ---
// The consumer looks at the barrier of the stage with which it began,
// whatever stage it uses. That barrier's phase has ended already, so the wait
// does not block, and the tile may not have arrived. While the copies are
// ahead, results are right; beside copies over the bus they were wrong.
// FlashInfer has the same kernel, and had the same bug:
// https://github.com/flashinfer-ai/flashinfer/pull/3630.
// Report: https://github.com/NVIDIA/TensorRT-LLM/pull/15338 (June 2026)
#include "hopper.cuh"
#include "museum.cuh"

__global__ void twice(const int* x, int* y, int tiles) {
  __shared__ __align__(128) int stages[2][32];
  __shared__ std::uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      MBARRIER_INIT(&full[i], 1);
      MBARRIER_INIT(&empty[i], 32);
    }
    FENCE_MBARRIER_INIT();
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    for (int tile = 0; tile < tiles; ++tile) {
      MBARRIER_WAIT(&empty[tile % 2], tile / 2 % 2 ^ 1);
      MBARRIER_EXPECT(&full[tile % 2], sizeof stages[0]);
      BULK_LOAD(stages[tile % 2], x + tile * 32, sizeof stages[0],
                &full[tile % 2]);
    }
  }
  if (threadIdx.x < 32) {
    std::uint64_t* ready = &full[0];
    for (int tile = 0; tile < tiles; ++tile) {
#ifdef FIXED
      ready = &full[tile % 2];
#endif
      MBARRIER_WAIT(ready, tile / 2 % 2);
      y[tile * 32 + threadIdx.x] = 2 * stages[tile % 2][threadIdx.x];
      FENCE_PROXY_ASYNC();
      MBARRIER_ARRIVE(&empty[tile % 2]);
    }
  }
}

int main() {
  int *x = numbers<int>(192, 0, 1), *y = numbers<int>(192);
  twice<<<1, 64>>>(x, y, 6);
  return result(y, 192, [](int i) { return 2 * i; });
}
