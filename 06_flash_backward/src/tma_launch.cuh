/// @file
/// The host's part of rungs 08 to 13: maps of the tensors for TMA, the order of blocks, and launches.
#pragma once

#include "06_flash_backward/kernels/08_wgmma.cuh"
#include "06_flash_backward/kernels/12_store_then_reduce.cuh"
#include "06_flash_backward/kernels/13_wide_heads.cuh"
#include "06_flash_backward/src/workspace.cuh"
#include "common/attention/grid.cuh"
#include "common/attention/tma.cuh"

namespace fa::FA_TARGET {

/// The tile of rungs 08 to 12 for a head dimension, 64 or 128: as many scores as a thread has registers for.
/// @tparam stages of Q and of dO in shared memory
template <class T, int d, int stages = 2>
using TmaBackwardTile = HopperBackwardTile<T, d, d == 64 ? 128 : 64, stages>;

/// The head dimension from which on rung 13 takes over.
constexpr int kWideHeads = 129;

/// Columns of the tiles of rungs 08 and later; 0 for a problem that they do not take, whatever its strides.
template <class T>
int tma_columns(const Attention<T>& a) {
  if (sizeof(T) != 2 || a.dropout.threshold != 0) return 0;
  return a.head_dim <= 64 ? 64 : a.head_dim < kWideHeads ? 128 : 256;
}

/// Whether rungs 08 and later take a problem: see can_use_tma(). Their blocks of keys are counted like those of queries.
template <class T>
bool can_use_tma_backward(const AttentionGradient<T>& a) {
  Attention<T> gradients = a;  // those of the tensors, in their place
  gradients.q_strides = a.d_o_strides;
  gradients.o_strides = a.d_q_strides;
  gradients.k_strides = a.d_k_strides;
  gradients.v_strides = a.d_v_strides;
  const std::int64_t blocks_of_keys =
      std::int64_t{a.batch} * a.kv_heads *
      ceil_div<std::int64_t>(a.length_k, kKeys);
  return tma_columns(a) > 0 && can_use_tma<T>(a) &&
         can_use_tma<T>(gradients) &&
         blocks_of_keys < std::numeric_limits<int>::max() / 2;
}

/// Gradients with maps for a kernel.
/// @tparam Tile HopperBackwardTile of the kernel
/// @throws as tensor_map()
template <class Tile, class T>
TmaGradient<T> tma_gradient(const AttentionGradient<T>& a) {
  const auto of_queries = [&](const T* data, const RowStrides& strides,
                              int rows) {
    return tensor_map(data, {a.batch, a.heads, a.length_q, a.head_dim},
                      {strides.batch, strides.head, strides.row}, rows);
  };
  const auto of_keys = [&](const T* data, const RowStrides& strides) {
    return tensor_map(data, {a.batch, a.kv_heads, a.length_k, a.head_dim},
                      {strides.batch, strides.head, strides.row}, kKeys);
  };
  return {of_queries(a.q, a.q_strides, Tile::block_m),
          of_queries(a.d_o, a.d_o_strides, Tile::block_m),
          of_keys(a.k, a.k_strides),
          of_keys(a.v, a.v_strides),
          of_keys(a.d_k, a.d_k_strides),
          of_keys(a.d_v, a.d_v_strides),
          of_queries(a.d_q, a.d_q_strides, kQueries),
          a};
}

/// How many heads go together so that what blocks read again and again stays in the L2 cache of 50 MB: 32 MiB at most.
/// @param all   heads of all sequences
/// @param bytes of one of them
inline int heads_together(int all, std::int64_t bytes) {
  constexpr std::int64_t l2_bytes = std::int64_t{32} << 20;
  return static_cast<int>(std::min<std::int64_t>(
      all, std::max<std::int64_t>(1, l2_bytes / bytes)));
}

/// The order of blocks of keys. Where heads go together, their Q, dO and sums of dQ stay in the L2 cache.
/// @tparam Tile     HopperBackwardTile or WideTile of the kernel
/// @param a         what is computed
/// @param together  whether several heads go together
template <class Tile, class T>
TileScheduler order_of_keys(const AttentionGradient<T>& a, bool together) {
  const int all = a.batch * a.kv_heads, group = a.heads / a.kv_heads;
  const std::size_t of_row =
      2 * sizeof(T) + (a.d_q_sum != nullptr ? sizeof(float) : 0);
  const std::int64_t bytes = std::int64_t{group} * a.length_q * Tile::d *
                             static_cast<std::int64_t>(of_row);
  return {ceil_div(a.length_k, Tile::block_n), a.kv_heads, all,
          together ? heads_together(all, bytes) : 0};
}

/// The order of blocks of rung 13. Under the causal mask heads go together whose K and V, or Q and dO, stay in the L2
/// cache. Blocks that take longer come first, so that the short ones fill up the end: those of keys where several heads
/// share them.
/// @tparam Tile WideTile of the kernel
template <class Tile, class T>
WideOrder wide_order(const AttentionGradient<T>& a) {
  const int all = a.batch * a.heads, group = a.heads / a.kv_heads;
  const std::int64_t bytes = std::int64_t{a.length_k} * Tile::d *
                             static_cast<std::int64_t>(2 * sizeof(T)) / group;
  const TileScheduler queries{ceil_div(a.length_q, kWideQueries), a.heads,
                              all, a.causal ? heads_together(all, bytes) : 0};
  // Products for 64 queries and keys: 4 in a block of keys, 3 for each of two warpgroups in a block of queries.
  const bool keys_first =
      std::int64_t{4} * group * a.length_q > std::int64_t{2 * 3} * a.length_k;
  return {queries, order_of_keys<Tile>(a, a.causal), keys_first};
}

/// Launches preprocess(), a kernel of rungs 08 to 12, and write_tma_d_q().
/// @tparam Tile  HopperBackwardTile of the kernel
/// @param a      what is computed
/// @param stream where
/// @param middle launches the kernel: middle(maps)
template <class Tile, class T, class Middle>
void launch_tma(const AttentionGradient<T>& a, const Stream& stream,
                Middle middle) {
  launch_preprocess<Tile::d>(a, stream);
  const auto maps = tma_gradient<Tile>(a);
  middle(maps);
  launch(stream, write_tma_d_q<Tile, T>,
         {grid_of(a, Tile::block_m),
          {kWarpgroup * kKeyWarpgroups},
          kKeyWarpgroups * sizeof(QueryGradientPart<Tile>)},
         maps);
}

/// Launches rung 08 or 09, whose grids have three dimensions, with what comes before and after.
/// @tparam Tile   HopperBackwardTile of the kernel
/// @param a       what is computed, with a workspace
/// @param kernel  takes the maps
/// @param threads of a block
/// @param bytes   of shared memory
/// @param stream  where
template <class Tile, class T>
void launch_tma_keys(const AttentionGradient<T>& a,
                     void (*kernel)(TmaGradient<T>), int threads,
                     std::size_t bytes, const Stream& stream) {
  launch_tma<Tile>(a, stream, [&](const TmaGradient<T>& maps) {
    launch(stream, kernel,
           {grid_of_keys(a, Tile::block_n),
            {static_cast<unsigned>(threads)},
            bytes,
            Tile::stages},
           maps);
  });
}

/// Launches a kernel of rungs 10 to 12, with what comes before and after.
/// @tparam Tile    HopperBackwardTile of the kernel
/// @param a        what is computed, with a workspace
/// @param kernel   takes the maps and the order of blocks
/// @param together whether several heads go together
/// @param stream   where
template <class Tile, class T>
void launch_ordered(const AttentionGradient<T>& a,
                    void (*kernel)(TmaGradient<T>, TileScheduler),
                    bool together, const Stream& stream) {
  launch_tma<Tile>(a, stream, [&](const TmaGradient<T>& maps) {
    const TileScheduler scheduler = order_of_keys<Tile>(a, together);
    launch(stream, kernel,
           {{static_cast<unsigned>(scheduler.total_heads) *
             static_cast<unsigned>(scheduler.blocks)},
            {kWarpgroup * (kKeyWarpgroups + 1)},
            sizeof(BackwardShared<Tile>),
            Tile::stages},
           maps, scheduler);
  });
}

/// Launches rung 12, or 11 where the bits must be the same in every run.
/// @tparam d            columns of the tile: 64 or 128
/// @param a             what is computed, with a workspace that has turns
/// @param deterministic whether blocks add to dQ in turn
/// @param stream        where
template <int d, class T>
void launch_store_then_reduce(const AttentionGradient<T>& a,
                              bool deterministic, const Stream& stream) {
  using Tile = TmaBackwardTile<T, d>;
  launch_ordered<Tile>(a,
                       deterministic
                           ? flash_backward_ordered_dq<Tile, T>
                           : flash_backward_store_then_reduce<Tile, T>,
                       a.causal || deterministic, stream);
}

/// Launches preprocess() and rung 13.
/// @param a      what is computed, with a workspace without sums of dQ
/// @param stream where
template <class T>
void launch_wide(const AttentionGradient<T>& a, const Stream& stream) {
  using Tile = WideTile<T>;
  launch_preprocess<Tile::d>(a, stream);
  const WideOrder order = wide_order<Tile>(a);
  const auto blocks_of = [](const TileScheduler& kind) {
    return static_cast<unsigned>(kind.total_heads) *
           static_cast<unsigned>(kind.blocks);
  };
  launch(stream, flash_backward_wide<Tile, T>,
         {{blocks_of(order.queries) + blocks_of(order.keys)},
          {kWarpgroup * (kKeyWarpgroups + 1)},
          kWideBytes<Tile>,
          Tile::stages},
         tma_gradient<Tile>(a), order);
}

}  // namespace fa::FA_TARGET
