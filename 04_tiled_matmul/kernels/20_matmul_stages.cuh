/// @file
/// As matmul_wgmma(), with several tiles on their way and products that go on while the next ones begin: the tensor
/// cores need not wait for memory, nor for the threads. Two barriers for each stage replace __syncthreads(): its tiles
/// are there; all warps are done with them.
#pragma once

#include "04_tiled_matmul/kernels/19_matmul_wgmma.cuh"

namespace fa::FA_TARGET {

/// What a block of rungs 20 and later keeps in shared memory.
template <class Tile>
struct StagesShared {
  WgmmaStage<Tile> ring[Tile::stages];  ///< the tiles
  Pipeline<Tile::stages> pipe;          ///< of the ring
};

/// Initialises a block's barriers; all threads call it.
template <class Tile>
__device__ void init_stages(StagesShared<Tile>& shared) {
  if (threadIdx.x == 0) {
    // Each warp frees for itself: it knows of its own products only.
    shared.pipe.init(4 * Tile::consumers);
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are ready
}

/// The product p of 16-bit matrices by wgmma, with several stages of tiles.
/// Launch: blocks of 128 x consumers; grid of ceil(n / cols) x ceil(m / rows); sizeof(StagesShared<Tile>).
/// @tparam Tile WgmmaTile
//! [stages]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* Tile::consumers)
    matmul_stages(const __grid_constant__ TmaMatmul<T> maps) {
  auto& shared = *dynamic_shared<StagesShared<Tile>>();
  const MatmulParams<T>& p = maps.p;
  const int warpgroup = warpgroup_index();
  const int row0 = blockIdx.y * Tile::rows, col0 = blockIdx.x * Tile::cols;
  const int steps = ceil_div(p.k, Tile::depth);
  PipelineState<Tile::stages> filled, at, before;
  const auto fetch = [&](int step) {
    if (step >= steps) return;
    Mbarrier& full =
        shared.pipe.producer_acquire(filled, WgmmaStage<Tile>::bytes);
    fetch_tiles(shared.ring[filled.stage], maps, full, row0, col0,
                step * Tile::depth);
    filled.advance();
  };
  init_stages(shared);
  if (threadIdx.x == 0) {
    for (int step = 0; step < Tile::stages; ++step) fetch(step);
  }
  WgmmaAccumulators<Tile> sums = {};
  for (int step = 0; step < steps; ++step, at.advance()) {
    shared.pipe.consumer_wait(at);
    wgmma_fence_accumulators<Tile>(sums);
    issue_matmul<Tile>(sums, shared.ring[at.stage], warpgroup);
    if (step == 0) continue;
    wgmma_wait<1>();  // the products of the step before have ended
    if (threadIdx.x % kWarp == 0) shared.pipe.consumer_release(before);
    if (threadIdx.x == 0) fetch(step - 1 + Tile::stages);
    before.advance();
  }
  wgmma_wait<0>(sums);
  store_accumulators<Tile>(p, sums, row0, col0, warpgroup);
}
//! [stages]

}  // namespace fa::FA_TARGET
