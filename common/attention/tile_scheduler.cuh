/// @file
/// The tile scheduler of persistent kernels, shared by lessons 05 and 06. It says in which order
/// blocks process tiles of queries. Under the causal mask the tiles with the most keys come first
/// (LPT, longest processing time first), and only as many heads at a time as have their K and V in
/// the L2 cache.
#pragma once

#include <algorithm>

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// A tile of queries.
struct WorkTile {
  int block;  ///< m_block of its head (backward: n_block); negative: no tile is left
  int head;
  int batch;
};

/// The order of tiles.
struct TileScheduler {
  int blocks;       ///< of queries in a head
  int heads;        ///< of a sequence
  int total_heads;  ///< of all sequences
  /// Heads that are processed together, longest tiles first; 0: one head after the other.
  int heads_in_l2;
};

/// The tile with an index: 0 to total_heads * blocks - 1.
// clang-format off
//! [order]
__device__ inline WorkTile work_tile(int tile_index,
                                     const TileScheduler& scheduler) {
  int block, head;
  if (scheduler.heads_in_l2 == 0) {
    block = tile_index % scheduler.blocks;
    head = tile_index / scheduler.blocks;
  } else {
    // The heads that are left over form the first group.
    const int fewer = scheduler.total_heads % scheduler.heads_in_l2;
    const int tile = tile_index - fewer * scheduler.blocks;
    const int heads = tile < 0 ? fewer : scheduler.heads_in_l2;
    const int tiles_in_l2 = heads * scheduler.blocks;
    const int first = tile < 0 ? 0 : fewer + tile / tiles_in_l2 * heads;
    const int rest = tile < 0 ? tile_index : tile % tiles_in_l2;
    block = scheduler.blocks - 1 - rest / heads;
    head = first + rest % heads;
  }
  return {block, head % scheduler.heads, head / scheduler.heads};
}
//! [order]
// clang-format on

/// How many heads to process together so that what blocks read repeatedly stays in the L2 cache of
/// 50 MB: 32 MiB at most. If not all, then a power of two, which often divides their number: a last
/// group of few heads would leave SMs idle while its longest tiles are computed.
/// @param heads of all sequences
/// @param bytes of one of them
inline int heads_in_l2(int heads, std::int64_t bytes) {
  constexpr std::int64_t l2_bytes = std::int64_t{32} << 20;
  if (heads * bytes <= l2_bytes) return heads;
  int together = 1;
  while (2 * together * bytes <= l2_bytes) together *= 2;
  return together;
}

/// The scheduler of a problem. Under the causal mask heads are processed together whose K and V
/// stay in the L2 cache. With more than 128 columns 16 at least: fewer are slower, although 16 long
/// heads do not fit.
/// @param block_m queries of a tile
template <class T>
TileScheduler tile_scheduler(const Attention<T>& a, int block_m) {
  const int least = a.head_dim > 128 ? 16 : 1;
  const int all = a.batch * a.heads, group = group_size(a);
  const std::int64_t bytes = 2 * std::int64_t{a.length_k} * a.head_dim * std::int64_t{sizeof(T)};
  const int heads = heads_in_l2(all / group, bytes) * group;
  return {ceil_div(a.length_q, block_m), a.heads, all,
          a.causal ? std::min(all, std::max(heads, least)) : 0};
}

/// Gives each persistent block the indices of its tiles: the first is blockIdx.x, the others come
/// from a counter in global memory that all blocks share.
struct TileCounter {
  unsigned* counter;  ///< null: blocks take every gridDim.x-th tile
  int tiles;          ///< of all blocks

  /// Whether it is used: not if each block has one tile.
  __device__ bool is_used() const {
    return counter != nullptr && tiles > static_cast<int>(gridDim.x);
  }
  /// The block's tile after this one; no tile when it is not less than `tiles`.
  __device__ int next(int tile_index) const {
    const int grid = gridDim.x;
    return is_used() ? grid + static_cast<int>(atomicAdd(counter, 1u)) : tile_index + grid;
  }
  /// A block calls this with its last index. All blocks together call next() once for each tile and
  /// once for each block; the last of these calls leads to the reset for the next launch.
  __device__ void finish(int last) const {
    const int grid = gridDim.x;
    if (is_used() && last == tiles + 2 * grid - 1) *counter = 0;
  }
};

}  // namespace fa::FA_TARGET
