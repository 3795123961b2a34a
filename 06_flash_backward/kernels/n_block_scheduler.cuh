/// @file
/// In which order blocks take blocks of keys, in rungs 10 to 16.
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

/// The order of blocks of keys.
/// @tparam Tile    of the kernel
/// @param a        what is computed
/// @param together whether heads are processed together whose Q, dO and d_q_accum stay in the L2
///                 cache
/// @param balanced whether they are more, if that balances the blocks better; where blocks wait for
///                 one another that does not help
template <class Tile, class T>
TileScheduler n_block_scheduler(const AttentionGradient<T>& a, bool together,
                                bool balanced = false) {
  const int heads = a.batch * a.kv_heads, group = a.heads / a.kv_heads;
  const std::size_t row_bytes =
      2 * sizeof(T) + (a.d_q_accum != nullptr ? sizeof(float) : 0);
  // Twice: with all of heads_in_l2() ordered blocks were slower by up to a tenth.
  const std::int64_t bytes = 2 * std::int64_t{group} * a.length_q * Tile::d *
                             static_cast<std::int64_t>(row_bytes);
  const int blocks = ceil_div(a.length_k, Tile::block_n);
  const int least = balanced ? std::min(heads, balanced_heads(blocks)) : 0;
  return {blocks, a.kv_heads, heads,
          together ? std::max(least, heads_in_l2(heads, bytes)) : 0};
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
