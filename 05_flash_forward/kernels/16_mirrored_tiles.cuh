/// @file
/// Mirrored tiles, for problems with no more tiles than SMs. Each block has one tile then, and
/// under the causal mask all wait for the block with the most keys. Here the two warpgroups of a
/// block take 64 queries each from either end of the sequence: what one has less, the other has
/// more, and all blocks take the same time.
///
/// Source: the idea is ours; Brandon et al., Striped Attention, 2023, balance GPUs so.
#pragma once

#include "05_flash_forward/kernels/15_warpgroup_tiles.cuh"

namespace fa::FA_TARGET {

/// The tile for a head dimension, 64, 128 or 256, with two warpgroups. The first one counts its
/// queries from the front of the sequence, the second one from its end.
//! [query0]
template <class T, int d>
struct MirroredTile
    : HopperTile<T, d, d == 256 ? 80 : 128, 2, d == 64 ? 3 : 2> {
  /// As in HopperTile, for these warpgroups.
  __device__ static int first_query(const Attention<T>& a, int block,
                                    int warpgroup) {
    const int last = 2 * ceil_div(a.length_q, MirroredTile::block_m) - 1;
    return kQueries * (warpgroup == 0 ? block : last - block);
  }
};
//! [query0]

/// Launches step 15's kernel with mirrored tiles, a block for each.
/// @param a for which can_use_tma() holds; it may have more tiles than there are SMs
template <int d, class T>
void launch_mirrored_tiles(const Attention<T>& a, const Stream& stream) {
  using Tile = MirroredTile<T, d>;
  TileScheduler scheduler = tile_scheduler(a, Tile::block_m);
  scheduler.heads_together = 0;  // all tiles are alike
  launch(stream, flash_warpgroup_tiles<Tile, T>,
         {static_cast<unsigned>(scheduler.total_heads * scheduler.blocks),
          kWarpgroup * (Tile::consumers + 1), sizeof(PersistentShared<Tile>),
          Tile::stages},
         tma_attention<Tile>(a), scheduler, nullptr);
}

FA_LAUNCH_16_BIT(forward_tiles, Attention, (const Stream&),
                 launch_mirrored_tiles, (64), (128), (256));

FA_STEP_ROW(forward, 16) {
  return row("16_mirrored_tiles", "mirrored tiles for small problems", half{},
             bfloat16{})
      .hopper()
      .head_dims(HeadDims<64, 128, 256>{})
      .over_keys(MirroredTile<half, 64>{}, 3)
      .over_keys(MirroredTile<half, 256>{}, 2)
      .launch([](auto& a, auto d, auto& stream) {
        launch_mirrored_tiles<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
