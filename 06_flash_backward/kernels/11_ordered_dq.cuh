/// @file
/// The same bits in every run, for some more time than rung 10 takes: blocks add to a tile of dQ one after the
/// other, always in the same order. Blocks of the last keys begin: under the causal mask they have the fewest queries,
/// and each finds its turn at hand, since the block behind it is one tile ahead. The head changes from block to block,
/// so that those that wait for one another are few. The block whose turn is the first one stores: the sums need no
/// zeros.
///
/// Source of the order: NVIDIA and FlashAttention's authors, deterministic backward pass of FlashAttention-3.
#pragma once

#include "06_flash_backward/kernels/10_delayed_dq.cuh"

namespace fa::FA_TARGET {

/// How many blocks add to a tile of queries before this one.
/// @param a      what is computed
/// @param block  of keys
/// @param query0 the tile's first query
//! [turn]
template <class Tile, class T>
__device__ int accumulation_rank(const Attention<T>& a, const KeyBlock& block,
                                 int query0) {
  const int seen = visible_keys(a, query0 + Tile::block_m - 1);
  return (seen - 1) / Tile::block_n - block.key0 / Tile::block_n;
}
//! [turn]

/// What a thread that adds does.
/// @param shared    the block's
/// @param a         what is computed
/// @param block     of keys
/// @param warpgroup whose parts of dQ it adds
//! [add_in_order]
template <class Tile, class T>
__device__ void add_in_order(BackwardShared<Tile>& shared,
                             const AttentionGradient<T>& a,
                             const KeyBlock& block, int warpgroup) {
  constexpr int bytes = Tile::d_q_part * int{sizeof(float)};
  PipelineState<1> at;
  for_each_tile<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = row_of_tile(a, block, head, query0);
    unsigned* const semaphore =
        a.d_q_semaphores + row / kSemaphoreRows * 2 + warpgroup;
    const auto own =
        static_cast<unsigned>(accumulation_rank<Tile>(a, block, query0));
    shared.d_q_full[warpgroup].wait(at.parity);
    while (load_acquire(semaphore) != own) {  // others add before
    }
    fence_async_proxy_global();  // so TMA knows what others added
    float* const to = d_q_part<Tile>(a, row, warpgroup);
    if (own == 0) {
      bulk_store(to, shared.d_q[warpgroup], bytes);
    } else {
      bulk_add(to, shared.d_q[warpgroup], bytes);
    }
    bulk_commit();
    bulk_wait_read<0>();
    shared.d_q_empty[warpgroup].arrive();
    bulk_wait<0>();  // the sums are in memory
    __threadfence();
    atomicAdd(semaphore, 1u);
    at.advance();
  });
}
//! [add_in_order]

/// Launch: as flash_backward_delayed_dq(); order.section is not 0, and a.turns are 0.
/// @tparam Tile HopperBackwardTile
/// @param maps  what is computed
/// @param scheduler of blocks of keys
//! [in_turn]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_ordered_dq(const __grid_constant__ TmaGradient<T> maps,
                              const TileScheduler scheduler) {
  const WorkTile work = work_tile(blockIdx.x, scheduler);
  const KeyBlock block =
      key_block<Tile>(maps.a, work.block, work.head, work.batch);
  delayed_block<Tile>(maps, block, [&](auto& shared, int warpgroup) {
    add_in_order(shared, maps.a, block, warpgroup);
  });
}
//! [in_turn]

}  // namespace fa::FA_TARGET
