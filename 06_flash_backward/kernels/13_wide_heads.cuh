/// @file
/// Head dimensions from 129 to 256. Sums of dK and of dV for 64 keys fill the registers of a warpgroup each, so that a
/// block has no more keys than that, and twice as many blocks would add to a tile of dQ that is twice as wide. Here
/// nobody adds: as in rung 03, dK and dV belong to blocks that own keys, and dQ to blocks that own queries. That takes
/// seven products in place of five, and gives the same bits in every run. Both kinds of blocks are of one launch.
///
/// Source: the order of products is ours.
#pragma once

#include "06_flash_backward/kernels/wide_queries.cuh"

namespace fa::FA_TARGET {

/// What a block of rung 13 keeps in shared memory, at most.
template <class Tile>
constexpr std::size_t kWideBytes = sizeof(WideQueriesShared<Tile>) >
                                           sizeof(WideKeysShared<Tile>)
                                       ? sizeof(WideQueriesShared<Tile>)
                                       : sizeof(WideKeysShared<Tile>);

/// The order of a launch's blocks.
struct WideOrder {
  TileScheduler queries;  ///< of blocks of queries
  TileScheduler keys;     ///< of blocks of keys
  bool keys_first;        ///< whether all blocks of keys come first
};

/// dQ, dK and dV. Launch: blocks of 384; as many as there are of queries and of keys, in one row; kWideBytes<Tile>;
/// after preprocess().
/// @tparam Tile WideTile
/// @param maps  what is computed
/// @param order of blocks
//! [wide_heads]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_wide(const __grid_constant__ TmaGradient<T> maps,
                        const WideOrder order) {
  const TileScheduler& front = order.keys_first ? order.keys : order.queries;
  const int tile_index = blockIdx.x,
            of_front = front.total_heads * front.blocks;
  const bool behind = tile_index >= of_front;
  const int place =
      behind ? tile_index - of_front : tile_index;  // among its kind
  if (behind == order.keys_first) {
    const WorkTile work = work_tile(place, order.queries);
    wide_queries_block<Tile>(maps, query_block<Tile>(maps.a, work));
  } else {
    wide_keys_block<Tile>(maps,
                          ordered_key_block<Tile>(maps.a, place, order.keys));
  }
}
//! [wide_heads]

}  // namespace fa::FA_TARGET
