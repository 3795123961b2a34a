/// @file
/// The order in which blocks take tiles of work, shared by lessons 05 and 06. Under the causal mask the longest tiles
/// come first (LPT), and only so many heads at a time that their K and V stay in the L2 cache.
#pragma once

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// A block of queries of a head.
struct WorkTile {
  int block;  ///< of queries; negative: there is none
  int head;   ///< of a sequence
  int batch;  ///< the sequence
};

/// The order of work.
struct TileScheduler {
  int blocks;       ///< of queries in a head
  int heads;        ///< of a sequence
  int total_heads;  ///< of all sequences
  int heads_in_l2;  ///< heads that are processed together, longest tiles first; 0: one head after the other
};

/// Which work a ticket is for.
//! [order]
__device__ inline WorkTile work_tile(int tile_index,
                                     const TileScheduler& scheduler) {
  int block, head;
  if (scheduler.heads_in_l2 == 0) {
    block = tile_index % scheduler.blocks;
    head = tile_index / scheduler.blocks;
  } else {
    const int tiles_in_l2 = scheduler.heads_in_l2 * scheduler.blocks;
    const int first = tile_index / tiles_in_l2 * scheduler.heads_in_l2;
    const int left = scheduler.total_heads - first;
    const int heads =
        left < scheduler.heads_in_l2 ? left : scheduler.heads_in_l2;
    const int rest = tile_index % tiles_in_l2;
    block = scheduler.blocks - 1 - rest / heads;
    head = first + rest % heads;
  }
  return {block, head % scheduler.heads, head / scheduler.heads};
}
//! [order]

}  // namespace fa::FA_TARGET
