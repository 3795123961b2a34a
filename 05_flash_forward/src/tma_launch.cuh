/// @file
/// The host's part of rungs 09 and later: maps of the tensors for TMA, the order of work, and launches.
#pragma once

#include <limits>

#include "05_flash_forward/kernels/15_warpgroup_tiles.cuh"
#include "common/attention/grid.cuh"
#include "common/gpu/tensor_map.cuh"

namespace fa::FA_TARGET {

/// Whether rungs 09 and later take a problem: no dropout, strides above 0 that TMA takes, and not more work than the
/// tile counter can count.
template <class T>
bool can_use_tma(const Attention<T>& a) {
  const auto apart = [&](const RowStrides& strides, int heads, int rows) {
    const auto takes = [](int count, std::int64_t stride) {
      return count == 1 || (stride > 0 && is_tensor_map_stride(stride));
    };
    return takes(a.batch, strides.batch) && takes(heads, strides.head) &&
           takes(rows, strides.row);
  };
  const std::int64_t work = std::int64_t{a.batch} * a.heads *
                            ceil_div<std::int64_t>(a.length_q, kQueries);
  return sizeof(T) == 2 && a.dropout.threshold == 0 &&
         apart(a.q_strides, a.heads, a.length_q) &&
         apart(a.o_strides, a.heads, a.length_q) &&
         apart(a.k_strides, a.kv_heads, a.length_k) &&
         apart(a.v_strides, a.kv_heads, a.length_k) &&
         work < std::numeric_limits<int>::max() / 2;
}

/// Attention with maps for a kernel.
/// @tparam Tile HopperTile of the kernel
/// @throws as tensor_map()
template <class Tile, class T>
TmaAttention<T> tma_attention(const Attention<T>& a) {
  const auto map_of = [&](const T* data, int heads, int rows,
                          const RowStrides& strides, int box_rows) {
    return tensor_map(data, {a.batch, heads, rows, a.head_dim},
                      {strides.batch, strides.head, strides.row}, box_rows);
  };
  return {map_of(a.q, a.heads, a.length_q, a.q_strides, kQueries),
          map_of(a.k, a.kv_heads, a.length_k, a.k_strides, Tile::block_n),
          map_of(a.v, a.kv_heads, a.length_k, a.v_strides, Tile::block_n),
          map_of(a.o, a.heads, a.length_q, a.o_strides, kQueries),
          a,
          nullptr};
}

/// The order of work for a problem. Under the causal mask heads go together whose K and V fill at most 32 MiB, so that
/// they stay in the L2 cache of 50 MB.
/// @tparam Tile HopperTile of the kernel
template <class Tile, class T>
TileScheduler tile_scheduler_of(const Attention<T>& a) {
  constexpr std::int64_t l2_bytes = std::int64_t{32} << 20;
  const int all = a.batch * a.heads, group = a.heads / a.kv_heads;
  const std::int64_t bytes =
      2 * std::int64_t{a.length_k} * a.head_dim * std::int64_t{sizeof(T)};
  const std::int64_t heads = std::min<std::int64_t>(
      all, std::max<std::int64_t>(1, l2_bytes / bytes) * group);
  return {ceil_div(a.length_q, Tile::block_m), a.heads, all,
          a.causal ? static_cast<int>(heads) : 0};
}

/// Prepares a launch of rungs 09 to 12.
/// @tparam Tile HopperTile of the kernel
/// @param a      what is computed
/// @param kernel takes the maps
/// @param threads of a block
/// @param bytes  of shared memory
/// @return what launches it on a stream
template <class Tile, class T>
std::function<void(const Stream&)> tma_launch(const Attention<T>& a,
                                              void (*kernel)(TmaAttention<T>),
                                              int threads,
                                              std::size_t bytes) {
  return [=, maps = tma_attention<Tile>(a)](const Stream& stream) {
    launch(stream, kernel,
           {grid_of(a, Tile::block_m),
            {static_cast<unsigned>(threads)},
            bytes,
            Tile::stages},
           maps);
  };
}

/// Launches a kernel of rungs 13 and later on a stream. The second argument is the counter of its dynamic tile
/// scheduler, in memory of the device: 0 before the launch and after it, and used by no other launch in between. Null:
/// blocks take tiles in a fixed order.
using PersistentLaunch = std::function<void(const Stream&, unsigned*)>;

/// Prepares a launch of rungs 13 and later.
/// @tparam Tile HopperTile of the kernel
/// @param a      what is computed
/// @param kernel takes the maps and the order of work
template <class Tile, class T>
PersistentLaunch persistent_launch(const Attention<T>& a,
                                   void (*kernel)(TmaAttention<T>,
                                                  TileScheduler)) {
  const TileScheduler scheduler = tile_scheduler_of<Tile>(a);
  const std::int64_t work =
      std::int64_t{scheduler.total_heads} * scheduler.blocks;
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>(work, device_properties().sm_count));
  return [=, maps = tma_attention<Tile>(a)](const Stream& stream,
                                            unsigned* tile_counter) {
    TmaAttention<T> with_counter = maps;
    with_counter.tile_counter = tile_counter;
    launch(stream, kernel,
           {{blocks},
            {kWarpgroup * (Tile::consumers + 1)},
            sizeof(PersistentShared<Tile>),
            Tile::stages},
           with_counter, scheduler);
  };
}

/// The tile of rungs 09 to 14.
template <class T>
using LadderTile = HopperTile<T, 128, 128, 2, 2>;
/// The tile of the last rung for a head dimension: 64, 128 or 256.
template <class T, int d>
using WarpgroupTilesTile =
    HopperTile<T, d, d == 256 ? 80 : 128, d == 64 ? 3 : 2, d == 64 ? 3 : 2,
               d == 256 ? 1 : 2>;

}  // namespace fa::FA_TARGET
