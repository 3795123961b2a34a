// Skip a masked tile
//
// A block counts, tile by tile, how often each thread's element is visible,
// and skips tiles in which all are masked. All warps look at the whole tile,
// so all decide the same.
// ---
// They decide the same, but not at the same time. A warp that has seen enough
// continues with the next tile and overwrites the mask that a slower warp
// still looks at, which may then decide otherwise and leave the loop's
// barriers out of step. It came in with an optimisation of the same kernel,
// #13584.
// Report: https://github.com/ggml-org/llama.cpp/pull/13742 (May 2025)
#include "museum.cuh"

__global__ void count_visible(const int* mask, int* counts, int tiles) {
  __shared__ int mask_smem[128];
  int count = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    mask_smem[threadIdx.x] = mask[tile * 128 + threadIdx.x];
    __syncthreads();
    bool masked = true;
    for (int i = threadIdx.x % 32; i < 128; i += 32)
      masked = masked && mask_smem[i] == 0;
    const bool skips = __all_sync(~0u, masked);
#ifdef FIXED
    __syncthreads();
#endif
    if (skips) continue;
    count += mask_smem[threadIdx.x];
    __syncthreads();
  }
  counts[threadIdx.x] = count;
}

int main() {
  const int tiles = 6;
  int *mask = numbers<int>(tiles * 128), *counts = numbers<int>(128);
  for (int i = 0; i < tiles * 128; ++i) mask[i] = i / 128 % 3 == 2;
  count_visible<<<1, 128>>>(mask, counts, tiles);
  return result(counts, 128, [](int) { return 2; });
}
