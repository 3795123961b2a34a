/// @file
/// The tile scheduler of persistent kernels: in which order blocks process tiles of queries. Under
/// the causal mask the tiles with the most keys come first (LPT), a group of heads at a time.
#pragma once

#include <algorithm>
#include <cstdint>

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
  int heads_together;
};

/// The tile with an index: 0 to total_heads * blocks - 1.
// clang-format off
//! [order]
__device__ inline WorkTile work_tile(int tile_index,
                                     const TileScheduler& scheduler) {
  int block, head;
  if (scheduler.heads_together == 0) {
    block = tile_index % scheduler.blocks;
    head = tile_index / scheduler.blocks;
  } else {
    // The heads that are left over form the first group.
    const int left_over = scheduler.total_heads % scheduler.heads_together;
    const int after_first = tile_index - left_over * scheduler.blocks;
    const int heads = after_first < 0 ? left_over : scheduler.heads_together;
    const int tiles = heads * scheduler.blocks;  // of this group
    const int first =
        after_first < 0 ? 0 : left_over + after_first / tiles * heads;
    const int place = after_first < 0 ? tile_index : after_first % tiles;
    block = scheduler.blocks - 1 - place / heads;  // the longest first
    head = first + place % heads;
  }
  return {block, head % scheduler.heads, head / scheduler.heads};
}
//! [order]
// clang-format on

/// Whether global memory limits attention under the causal mask, not the tensor cores: whether
/// reading Q, K and V and writing O once takes longer than the matmuls at their peak rate. With as
/// many keys as queries that holds up to about 1280 of them on an H100, 870 on an H200.
template <class T>
bool limited_by_memory(const Attention<T>& a, const DeviceProperties& gpu) {
  constexpr double flops_per_clock = 4096;  // of an SM: dense, operands of 16 bits
  const double queries = a.length_q, keys = a.length_k;
  const double least = std::min(queries, keys);
  // 4 head_dim FLOPs for each visible score; 4 head_dim bytes for a row of Q and O, or of K and V
  const double scores = least * (keys - least / 2);
  const double rows = queries + keys / group_size(a);
  return scores * gpu.memory_bandwidth < rows * flops_per_clock * gpu.clock_hz * gpu.sm_count;
}

/// How many heads are processed together: so many that a group has enough blocks to balance the
/// SMs, but no more than fit; in groups of about the same size.
/// @param heads  of all sequences, with so many blocks each
/// @param enough blocks of a group
inline int heads_of_group(int heads, std::int64_t blocks, std::int64_t enough, std::int64_t fit) {
  const std::int64_t balanced = ceil_div(enough, blocks);
  const std::int64_t together = std::max<std::int64_t>(std::min(balanced, fit), 1);
  const std::int64_t groups = std::max<std::int64_t>((heads + together / 2) / together, 1);
  return static_cast<int>(ceil_div<std::int64_t>(heads, groups));
}

/// The scheduler of a problem. Under the causal mask heads are processed together: as many as give
/// each SM four tiles, since smaller groups were slower; but where memory limits no more than have
/// their K and V in a quarter of the L2 cache, so that these are read from global memory once. (A
/// line that both halves of the chip read stands in both halves of the cache.) With more than 128
/// columns 16 at least: fewer were slower. Query heads that share K and V stay together.
template <class T>
TileScheduler tile_scheduler(const Attention<T>& a, int block_m,
                             const DeviceProperties& gpu = device_properties()) {
  const int blocks = ceil_div(a.length_q, block_m), all = a.batch * a.heads;
  if (!a.causal) return {blocks, a.heads, all, 0};
  const int group = group_size(a);
  // clang-format off
  //! [rule]
  const std::int64_t bytes_of_head =  // K and V
      std::int64_t{2} * a.length_k * a.head_dim * sizeof(T);
  const std::int64_t fit =
      limited_by_memory(a, gpu)
          ? static_cast<std::int64_t>(gpu.l2_bytes) / 4 / bytes_of_head
          : all;
  const std::int64_t four_waves = std::int64_t{4} * gpu.sm_count;
  const int together =
      group * heads_of_group(all / group, std::int64_t{blocks} * group,
                             four_waves, fit);
  //! [rule]
  // clang-format on
  return {blocks, a.heads, all, std::max(together, std::min(all, a.head_dim > 128 ? 16 : 1))};
}

}  // namespace fa::FA_TARGET
