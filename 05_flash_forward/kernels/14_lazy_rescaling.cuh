/// @file
/// A maximum that grows by little is left as it was: nothing has to be corrected then, and the lanes of a row need not
/// ask each other.
///
/// Source: Zadouri et al., FlashAttention-4, 2026.
#pragma once

#include "05_flash_forward/kernels/13_persistent.cuh"

namespace fa::FA_TARGET {

/// Growth of a maximum that is not taken, in powers of two: weights up to 2^8 are as exact in 16 bits as those up to 1.
constexpr int kRescaleThreshold = 8;

/// Launch: as flash_persistent().
/// @tparam Tile HopperTile
/// @param maps  what is computed
/// @param scheduler
//! [patience]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_lazy_rescaling(const __grid_constant__ TmaAttention<T> maps,
                         const TileScheduler scheduler) {
  persistent_block<Tile, kRescaleThreshold>(maps, scheduler);
}
//! [patience]

}  // namespace fa::FA_TARGET
