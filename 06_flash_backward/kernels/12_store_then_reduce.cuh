/// @file
/// No zeros for sums. The first block that comes to a tile of dQ stores its part, and the others add to it: zeros need
/// neither be written nor read. Without a mask all blocks of a head would come to its first tile at once; each begins
/// with another one.
///
/// Source: the idea is ours.
#pragma once

#include "06_flash_backward/kernels/11_ordered_dq.cuh"

namespace fa::FA_TARGET {

/// What is added to a counter of turns when the first part is there. Below it are the blocks that have come.
constexpr unsigned kStored = 1u << 31;

/// What a thread that adds does.
/// @param shared    the block's
/// @param a         what is computed
/// @param block     of keys
/// @param warpgroup whose parts of dQ it adds
//! [store_or_reduce]
template <class Tile, class T>
__device__ void store_or_reduce(BackwardShared<Tile>& shared,
                                const AttentionGradient<T>& a,
                                const KeyBlock& block, int warpgroup) {
  constexpr int bytes = Tile::d_q_part * int{sizeof(float)};
  PipelineState<1> at;
  for_each_tile<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = row_of_tile(a, block, head, query0);
    float* const to = d_q_part<Tile>(a, row, warpgroup);
    unsigned* const semaphore =
        a.d_q_semaphores + row / kSemaphoreRows * 2 + warpgroup;
    shared.d_q_full[warpgroup].wait(at.parity);
    unsigned before = atomic_add_acquire(semaphore, 1);
    const bool first = before == 0;
    if (first) {
      bulk_store(to, shared.d_q[warpgroup], bytes);
    } else {
      while (before < kStored) before = load_acquire(semaphore);
      fence_async_proxy_global();  // so TMA knows of it
      bulk_add(to, shared.d_q[warpgroup], bytes);
    }
    bulk_commit();
    bulk_wait_read<0>();
    shared.d_q_empty[warpgroup].arrive();
    if (first) {
      bulk_wait<0>();  // it is in memory
      __threadfence();
      atomicAdd(semaphore, kStored);
    }
    at.advance();
  });
}
//! [store_or_reduce]

/// Launch: as flash_backward_delayed_dq(); a.turns are 0.
/// @tparam Tile HopperBackwardTile
/// @param maps  what is computed
/// @param scheduler of blocks of keys
//! [first_stores]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_store_then_reduce(
        const __grid_constant__ TmaGradient<T> maps,
        const TileScheduler scheduler) {
  KeyBlock block = ordered_key_block<Tile>(maps.a, blockIdx.x, scheduler);
  if (!maps.a.causal) {
    block.tiles.start = static_cast<int>(std::int64_t{block.key0} *
                                         block.tiles.end / maps.a.length_k);
  }
  delayed_block<Tile>(maps, block, [&](auto& shared, int warpgroup) {
    store_or_reduce(shared, maps.a, block, warpgroup);
  });
}
//! [first_stores]

}  // namespace fa::FA_TARGET
