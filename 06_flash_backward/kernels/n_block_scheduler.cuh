/// @file
/// In which order blocks take blocks of keys, in rungs 10 to 16 and 18.
#pragma once

#include "06_flash_backward/kernels/hopper_backward.cuh"
#include "common/attention/tile_scheduler.cuh"

namespace fa::FA_TARGET {

/// The block of keys for a place in an order in which those with the most queries come first.
//! [most_queries_first]
template <class Tile, class T>
__device__ NBlock longest_first_n_block(const Attention<T>& a, int tile_index,
                                        const TileScheduler& scheduler) {
  const WorkTile work = work_tile(tile_index, scheduler);
  // The scheduler begins with the last block, which has the most keys where
  // blocks are of queries. Of keys the first one has the most queries.
  const int index = scheduler.heads_in_l2 == 0
                        ? work.block
                        : scheduler.blocks - 1 - work.block;
  return n_block<Tile>(a, index, work.head, work.batch);
}
//! [most_queries_first]

/// How many heads to process together so that the longest blocks of keys of the last heads do not
/// end long after all others: those with two blocks for each SM. But eight SMs at least share a
/// head, and what they read of it.
/// @param blocks of keys in a head
inline int balanced_heads(int blocks) {
  const int sm_count = device_properties().sm_count;
  return std::min(2 * sm_count / blocks, sm_count / 8);
}

/// Which heads are processed together.
enum class HeadsTogether {
  /// Under the causal mask those whose Q, dO and d_q_accum stay in the L2 cache; without it none.
  kCausal,
  /// Under the causal mask more than those, if that balances the blocks better.
  kCausalBalanced,
  /// For blocks that wait for one another: with or without a mask, those that need half of the
  /// space. More were slower.
  kOrdered
};

/// The order of blocks of keys.
/// @tparam Tile of the kernel
template <class Tile, class T>
TileScheduler n_block_scheduler(const AttentionGradient<T>& a,
                                HeadsTogether which) {
  const bool ordered = which == HeadsTogether::kOrdered;
  const int heads = a.batch * a.kv_heads, group = a.heads / a.kv_heads;
  const std::size_t row_bytes =
      2 * sizeof(T) + (a.d_q_accum != nullptr ? sizeof(float) : 0);
  const std::int64_t bytes = std::int64_t{group} * a.length_q * Tile::d *
                             static_cast<std::int64_t>(row_bytes) *
                             (ordered ? 2 : 1);
  const int blocks = ceil_div(a.length_k, Tile::block_n);
  const int least = which == HeadsTogether::kCausalBalanced
                        ? std::min(heads, balanced_heads(blocks))
                        : 0;
  return {
      blocks, a.kv_heads, heads,
      ordered || a.causal ? std::max(least, heads_in_l2(heads, bytes)) : 0};
}

/// A block for each tile of work, in one row.
inline Size grid_of_work(const TileScheduler& scheduler) {
  return {static_cast<unsigned>(scheduler.total_heads) *
          static_cast<unsigned>(scheduler.blocks)};
}

/// A block for each SM, or for each tile of work if these are fewer.
inline Size persistent_grid(const TileScheduler& scheduler) {
  return {std::min(grid_of_work(scheduler).x,
                   static_cast<unsigned>(device_properties().sm_count))};
}

}  // namespace fa::FA_TARGET
