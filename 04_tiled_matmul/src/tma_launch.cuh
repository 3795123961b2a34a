/// @file
/// The host's part of rungs 19 and later: maps of the factors for TMA, the order of tiles, and launches.
#pragma once

#include <algorithm>
#include <functional>

#include "04_tiled_matmul/kernels/21_matmul_persistent.cuh"
#include "common/gpu/tensor_map.cuh"

namespace fa::FA_TARGET {

/// A product with maps for a kernel.
/// @tparam Tile WgmmaTile of the kernel
/// @throws as tensor_map()
template <class Tile, class T>
TmaMatmul<T> tma_matmul(const MatmulParams<T>& p) {
  const auto map_of = [](const T* data, int rows, int cols, int ld,
                         int box_rows) {
    return tensor_map(data, {1, 1, rows, cols}, {0, 0, ld}, box_rows);
  };
  return {map_of(p.a, p.m, p.k, p.lda, Tile::A::rows),
          Tile::b_transposed ? map_of(p.b, p.n, p.k, p.ldb, Tile::B::rows)
                             : map_of(p.b, p.k, p.n, p.ldb, Tile::B::rows),
          p};
}

/// Prepares a launch of rung 19 or 20: a block for each tile.
/// @tparam Tile   WgmmaTile of the kernel
/// @tparam Shared what a block keeps in shared memory
/// @param p      what is computed
/// @param kernel takes the maps
/// @return what launches it
/// @throws as tensor_map()
template <class Tile, class Shared, class T>
std::function<void()> tma_launch(const MatmulParams<T>& p,
                                 void (*kernel)(TmaMatmul<T>)) {
  const auto blocks = [](int size, int tile) {
    return static_cast<unsigned>(ceil_div(size, tile));
  };
  return [=, maps = tma_matmul<Tile>(p)] {
    launch(kernel,
           {{blocks(p.n, Tile::cols), blocks(p.m, Tile::rows)},
            {kWarpgroup * Tile::consumers},
            sizeof(Shared),
            Tile::stages},
           maps);
  };
}

/// Prepares a launch of rung 21.
/// @tparam Tile  WgmmaTile of the kernel
/// @param p      what is computed
/// @param group  rows of tiles that go together
/// @param most   blocks
/// @return what launches it
/// @throws as tensor_map()
template <class Tile, class T>
std::function<void()> persistent_launch(
    const MatmulParams<T>& p, int group,
    int most = device_properties().sm_count) {
  const TileRasterOrder order{ceil_div(p.m, Tile::rows),
                              ceil_div(p.n, Tile::cols), group};
  const auto blocks =
      static_cast<unsigned>(std::min(order.rows * order.cols, most));
  return [=, maps = tma_matmul<Tile>(p)] {
    launch(matmul_persistent<Tile, T>,
           {{blocks},
            {kWarpgroup * (Tile::consumers + 1)},
            sizeof(StagesShared<Tile>),
            Tile::stages},
           maps, order);
  };
}

/// The tile of matmul_wgmma().
template <bool b_transposed, class T>
using OneStageTile = WgmmaTile<T, b_transposed, 128, 256, 1>;
/// The tile of rungs 20 and 21.
template <bool b_transposed, class T>
using StagesTile = WgmmaTile<T, b_transposed, 128, 256, 4>;
/// Rows of tiles that go together in rung 21.
constexpr int kTileGroup = 8;

}  // namespace fa::FA_TARGET
