/// @file
/// One kernel: a block that owns keys has dS in its hands, so it computes its part of dQ at once instead of leaving it
/// to a second kernel that begins anew. Other blocks add to the same rows, so each addition must be atomic; in which
/// order they come is up to the machine, and the sums differ in their last bits from run to run.
///
/// Source: Dao, FlashAttention-2, ICLR 2024, section 3.2.
#pragma once

#include "06_flash_backward/kernels/03_two_kernels.cuh"

namespace fa::FA_TARGET {

/// Zeroes dQ. Launch: as backward_queries(), without dynamic shared memory.
template <int d>
__global__ void zero_d_q(AttentionGradient<float> a) {
  using Tile = FloatBackwardTile<d>;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const int query =
      blockIdx.x * Tile::side + static_cast<int>(threadIdx.x) / 8;
  const FloatRow<Tile> zero = {};
  if (query < a.length_q) {
    store_float_row<Tile>(head.d_q + query * a.d_q_strides.row, zero, 0.0f,
                          a.head_dim);
  }
}

/// dK and dV, and dQ by additions to what zero_d_q() left. Launch: as backward_keys().
//! [atomics]
template <int d>
__global__ void __launch_bounds__(256)
    backward_atomics(AttentionGradient<float> a) {
  using Tile = FloatBackwardTile<d>;
  const auto tiles = float_backward_tiles<Tile>();
  const int row = threadIdx.x / 8;  // a query, for the sums
  float_key_gradients<Tile>(
      tiles, a, [&](const GradientHead<float>& head, int query0) {
        FloatRow<Tile> d_q = {};
        for (int j = 0; j < Tile::side; ++j) {
          add_float_row<Tile>(d_q, tiles.d_s[row * Tile::score_ld + j],
                              tiles.k + j * Tile::ld);
        }
        const int query = query0 + row;
        if (query >= a.length_q) return;
        float* const to = head.d_q + query * a.d_q_strides.row;
#pragma unroll
        for (int c = 0; c < Tile::fours; ++c) {
          const int col = 32 * c + threadIdx.x % 8 * 4;
          if (col < a.head_dim) {
            atomic_add4(to + col,
                        make_float4(a.scale * d_q[c].x, a.scale * d_q[c].y,
                                    a.scale * d_q[c].z, a.scale * d_q[c].w));
          }
        }
      });
}
//! [atomics]

}  // namespace fa::FA_TARGET
