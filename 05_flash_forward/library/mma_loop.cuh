/// @file
/// The softmax of mma.sync kernels with exponentials of base 2, for decoding, functors and float32.
/// The ladder explains it.
#pragma once

#include "05_flash_forward/kernels/mma_forward.cuh"

namespace fa::FA_TARGET {

/// softmax_step() for scores that are not scaled: P = exp2(exponent_scale (S - m)).
/// @tparam masked         whether scores may be -infinity
/// @tparam wide           whether they have any size: then the difference to m, which is exact near
///                        m, comes before the product
/// @param  s              Q K^T; P on return
//! [base_2]
template <class Tile, bool masked, bool wide = false>
__device__ void softmax_step_base_2(Accumulators<Tile, Tile::block_n>& s,
                                    Accumulators<Tile, Tile::d>& o,
                                    WarpRowState<Tile>& state,
                                    float exponent_scale) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
    float rescale[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float m = state.m[i][h];
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
        m = fmaxf(m, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
      }
      m = warp_max<4>(m);
      // Where all keys are masked m is -infinity, and -infinity - -infinity
      // would be NaN: subtract 0.
      const float offset =
          masked && m == -INFINITY ? 0.0f : __fmul_rn(m, exponent_scale);
      const auto difference = [&](float x) {  // scale (x - m)
        return (x - (m == -INFINITY ? 0.0f : m)) * exponent_scale;
      };
      // __fmul_rn() forbids an FMA: both products round alike, so the factor
      // is exactly 1 where m stays.
      rescale[h] = exp2_approx(
          wide ? difference(state.m[i][h])
               : __fmul_rn(state.m[i][h], exponent_scale) - offset);
      state.m[i][h] = m;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) {
          s[i][j][e] =
              exp2_approx(wide ? difference(s[i][j][e])
                               : s[i][j][e] * exponent_scale - offset);
          sum += s[i][j][e];
        }
      }
      state.l[i][h] = state.l[i][h] * rescale[h] + sum;
    }
    // Rare: after a few hundred keys m seldom grows in any of the 16 rows.
    if (__any_sync(kAllLanes, rescale[0] != 1 || rescale[1] != 1)) {
#pragma unroll
      for (int j = 0; j < Tile::d / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) o[i][j][e] *= rescale[e / 2];
      }
    }
  }
}
//! [base_2]

}  // namespace fa::FA_TARGET
