/// @file
/// Rung 08 with other tile sizes than its own. Compiled once for each backend: see
/// common/gpu/target.hpp.
#pragma once

#include <type_traits>

#include "05_flash_forward/kernels/08_edge_masks.cuh"
#include "05_flash_forward/src/forward_rung.cuh"
#include "05_flash_forward/src/tile_sizes.hpp"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// No GPU of today gives a block more. A kernel that asks for more could run nowhere, so it is not
// even compiled.
constexpr std::size_t kMostSharedBytes = 227 * 1024;

// The kernel with one tile. Its launch bounds say that two blocks share an SM, for every tile.
template <int d, int keys, int warps, int rows_of_warp>
flash::tiles::Kernel tile_kernel() {
  using Tile = ForwardTile<d, keys, warps, rows_of_warp>;
  constexpr std::size_t bytes = pipeline_bytes<Tile, bfloat16>();
  flash::tiles::Kernel result;
  result.tile = {d, Tile::block_m, keys, warps, bytes, std::is_same_v<Tile, ForwardTileFor<d>>};
  if constexpr (bytes <= kMostSharedBytes) {
    result.rung =
        forward_rung<bfloat16>("08_edge_masks", "").no_dropout().launch([](auto& a, auto) {
          launch(flash_edge_masks<Tile, bfloat16, false>,
                 {grid_of(a, Tile::block_m), {Tile::threads}, bytes}, a);
        });
  }
  return result;
}

// A backend with the tiles that are tried: from few keys to many, then fewer queries, then more.
flash::tiles::Backend backend(const std::string& kind) {
  return {
      kind,
      {tile_kernel<64, 32, 4, 32>(), tile_kernel<64, 64, 4, 32>(), tile_kernel<64, 96, 4, 32>(),
       tile_kernel<64, 128, 4, 32>(), tile_kernel<64, 64, 4, 16>(), tile_kernel<64, 128, 4, 16>(),
       tile_kernel<64, 64, 8, 16>(), tile_kernel<64, 64, 8, 32>(), tile_kernel<128, 32, 4, 32>(),
       tile_kernel<128, 64, 4, 32>(), tile_kernel<128, 96, 4, 32>(), tile_kernel<128, 64, 4, 16>(),
       tile_kernel<128, 128, 4, 16>(), tile_kernel<128, 64, 8, 16>(),
       tile_kernel<128, 192, 8, 32>()}};
}

}  // namespace
}  // namespace fa::FA_TARGET
