/// @file
/// One kernel: a block that owns keys has dS of its tiles, so it computes its part of dQ at once,
/// and no second kernel recomputes P. Several blocks add to the same rows of dQ, so each addition
/// must be atomic; their order varies, and the sums differ in their last bits from run to run.
///
/// Source: Dao, FlashAttention-2, ICLR 2024, section 3.2.
#pragma once

#include "06_flash_backward/kernels/03_two_kernels.cuh"

namespace fa::FA_TARGET {

/// dQ += dS K for a tile of queries, by atomic additions.
template <class Tile>
__device__ void atomic_add_float_d_q(const FloatBackwardTiles<Tile>& tiles,
                                     const AttentionGradient<float>& a,
                                     const GradientHead<float>& head,
                                     int query0) {
  const int row = threadIdx.x / 8;  // a query, for the sums
  FloatRow<Tile> d_q = {};
  for (int kk = 0; kk < Tile::side; ++kk) {
    add_float_row<Tile>(d_q, tiles.d_s[row * Tile::score_ld + kk],
                        tiles.k + kk * Tile::ld);
  }
  const int query = query0 + row;
  if (query >= a.length_q) return;
  //! [add_fours]
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
  //! [add_fours]
}

/// dK and dV as in step 03, and dQ by additions to what zero_d_q() left.
template <int d>
__global__ void __launch_bounds__(256)
    backward_atomics(AttentionGradient<float> a) {
  using Tile = FloatBackwardTile<d>;
  const auto tiles = float_backward_tiles<Tile>();
  const int key0 = blockIdx.x * Tile::side, kv_head = blockIdx.y;
  const int batch = blockIdx.z, group = group_size(a);
  load_float_tile<Tile>(tiles.k, kv_rows(a.k, a.k_strides, batch, kv_head),
                        a.k_strides.row, key0, a.length_k, a.head_dim);
  load_float_tile<Tile>(tiles.v, kv_rows(a.v, a.v_strides, batch, kv_head),
                        a.v_strides.row, key0, a.length_k, a.head_dim);
  const int row = threadIdx.x / 8;  // a key, for the sums
  //! [key_loop]
  FloatRow<Tile> all_d_k = {}, all_d_v = {};
  for (int member = 0; member < group; ++member) {
    const auto head = gradient_head(a, batch, kv_head * group + member);
    for (int query0 = first_query(a, key0) / Tile::side * Tile::side;
         query0 < a.length_q; query0 += Tile::side) {
      load_float_tile<Tile>(tiles.q, head.q, a.q_strides.row, query0,
                            a.length_q, a.head_dim);
      load_float_tile<Tile>(tiles.d_o, head.d_o, a.d_o_strides.row, query0,
                            a.length_q, a.head_dim);
      __syncthreads();  // the tiles are loaded
      probs_and_d_s<Tile>(tiles, a, head, query0, key0);
      __syncthreads();  // P and dS are ready
      // dV += P^T dO, dK += dS^T Q
      FloatRow<Tile> d_k = {}, d_v = {};  // of this tile
      for (int kk = 0; kk < Tile::side; ++kk) {
        add_float_row<Tile>(d_v, tiles.p[kk * Tile::score_ld + row],
                            tiles.d_o + kk * Tile::ld);
        add_float_row<Tile>(d_k, tiles.d_s[kk * Tile::score_ld + row],
                            tiles.q + kk * Tile::ld);
      }
      add_sums<Tile>(all_d_v, d_v);
      add_sums<Tile>(all_d_k, d_k);
      atomic_add_float_d_q<Tile>(tiles, a, head, query0);  // dQ += dS K
      __syncthreads();  // all threads have read the tiles
    }
  }
  //! [key_loop]
  const int key = key0 + row;
  if (key >= a.length_k) return;
  store_float_row<Tile>(
      kv_rows(a.d_k, a.d_k_strides, batch, kv_head) + key * a.d_k_strides.row,
      all_d_k, a.scale, a.head_dim);
  store_float_row<Tile>(
      kv_rows(a.d_v, a.d_v_strides, batch, kv_head) + key * a.d_v_strides.row,
      all_d_v, 1.0f, a.head_dim);
}

/// Launches the step.
/// @param a with a Workspace{0}
template <int d>
void launch_backward_atomics(const AttentionGradient<float>& a,
                             const Stream& stream) {
  using Tile = FloatBackwardTile<d>;
  launch_float_row_sums<d>(a, stream);
  launch_zero_d_q<d>(a, stream);
  launch(stream, backward_atomics<d>,
         {grid_of_keys(a, Tile::side), Tile::threads, Tile::shared_bytes}, a);
}

FA_LAUNCH_FLOAT(backward_float, AttentionGradient, (const Stream&),
                launch_backward_atomics, (32), (64), (128), (256));

FA_STEP_ROW(backward, 4) {
  return row("04_atomics", "one kernel adds to dQ", float{})
      .slow()
      .any_order()
      .head_dims(HeadDims<32, 64, 128, 256>{})
      .tile(FloatBackwardTile<64>::side, FloatBackwardTile<64>::side, 1, 0)
      .shared_bytes([](auto d) { return kTwoKernelsBytes<d>; })
      .memory_is("8 N", [](auto n, auto) { return 8 * n; })
      // One of step 03's kernels, and T additions to zeros in dQ.
      .reads("5/2 T N D + 3/2 N^2 + 5 N D + 16 N",
             [](auto n, auto d) {
               const auto t = n / FloatBackwardTile<64>::side;
               return (5 * t * n * d + 3 * n * n) / 2 + 5 * n * d + 16 * n;
             })
      .writes("T N D + 3 N D + 2 R",
              [](auto n, auto d) {
                return (n / FloatBackwardTile<64>::side + 3) * n * d +
                       2 * ceil_div<decltype(n)>(n, kPaddedRows) *
                           kPaddedRows;
              })
      .workspace([](auto&, auto) { return Workspace{0}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_atomics<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
