/// @file
/// The loop of mma.sync kernels over tiles of keys, with masks at the edge only and exponentials of
/// base 2, for decoding, packed sequences, functors and float32. The ladder explains it.
#pragma once

#include "05_flash_forward/kernels/mma_forward.cuh"

namespace fa::FA_TARGET {

/// The tile for a head dimension: as large as the registers allow.
template <int d>
using ForwardTileFor = ForwardTile<d,
                                   d == 256   ? 32
                                   : d == 128 ? 64
                                              : 96,
                                   d == 256 ? 8 : 4, d == 256 ? 16 : 32>;

/// softmax_step() for scores that are not scaled: P = exp2(exponent_scale (S - m)).
/// @tparam masked         whether scores may be -infinity
/// @tparam wide           whether they have any size: then the difference to m, which is exact near
///                        m, comes before the product
/// @param  s              Q K^T; P on return
/// @param  exponent_scale scale / ln 2
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

/// A tile of queries. A warp processes Tile::warp_rows of them; tiles are swizzled, and the next
/// ones of K and V are in flight.
/// @tparam Tile a ForwardTile
template <class Tile, bool has_dropout, class T>
__device__ void mma_block(const Attention<T>& a, int block, int head_index,
                          int batch) {
  constexpr int d = Tile::d;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Tile::q_size;
  T* const v_smem = k_smem + 2 * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int query0 = block * Tile::block_m;
  const auto head = head_of(a, batch, head_index);
  //! [tiles]
  const int tiles =
      ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
  //! [tiles]
  //! [exponent_scale]
  const float exponent_scale = a.scale * kLog2E;
  //! [exponent_scale]
  const auto load = [&](int tile, auto ragged_rows) {
    constexpr bool ragged = decltype(ragged_rows)::value;
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    copy_rows_async<Tile::block_n, d, Tile::threads, ragged>(
        k_smem + at, head.k, a.k_strides.row, key0, a.length_k, a.head_dim,
        thread);
    copy_rows_async<Tile::block_n, d, Tile::threads, ragged>(
        v_smem + at, head.v, a.v_strides.row, key0, a.length_k, a.head_dim,
        thread);
  };
  if (tiles > 0) {
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim,
        thread);
    load(tiles - 1, std::true_type{});
    cp_async_commit();
  }
  Accumulators<Tile, d> o = {};
  WarpRowState<Tile> state;
  init_row_state(state);
  const auto step = [&](int tile, auto edge) {
    constexpr bool masked = decltype(edge)::value;
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    cp_async_wait<0>();
    __syncthreads();  // arrived; no warp still reads the stage load() fills
    if (tile > 0) load(tile - 1, std::false_type{});
    cp_async_commit();
    Accumulators<Tile, Tile::block_n> s = {};
    // S = Q K^T, not scaled
    multiply_q_k<d>(s, q_smem, k_smem + at, warp_row, lane);
    if constexpr (masked) {
      apply_mask(s, a, query0 + warp_row, key0, lane);
    }
    // P = exp2(exponent_scale (S - m))
    softmax_step_base_2<Tile, masked>(s, o, state, exponent_scale);
    if constexpr (has_dropout) {
      apply_dropout<Tile>(s, a, head.index, query0 + warp_row, key0, lane);
    }
    // O += P V
    multiply_p_v<d>(o, s, v_smem + at, lane);
  };
  int tile = tiles - 1;  // the edge first
  for (; tile >= unmasked_tiles; --tile) step(tile, std::true_type{});
  for (; tile >= 0; --tile) step(tile, std::false_type{});
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {  // m of scaled scores
    //! [m_of_scores]
    state.m[i][0] *= a.scale;
    state.m[i][1] *= a.scale;
    //! [m_of_scores]
  }
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}

}  // namespace fa::FA_TARGET
