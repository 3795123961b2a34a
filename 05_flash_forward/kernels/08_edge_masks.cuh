/// @file
/// The sm_80 finish. Tiles that all queries see need no mask: only those at the edge pay for one. The scale is folded
/// into the exponent, which is a power of two: exp(scale (x - m)) = 2^(c x - c m) with c = scale / ln 2, one
/// multiplication with addition and one instruction. Under the causal mask the blocks with the most keys begin first.
#pragma once

#include "05_flash_forward/kernels/07_pipeline.cuh"

namespace fa::FA_TARGET {

/// The tile for a head dimension: as large as the registers allow.
template <int d>
using EdgeMaskTile = ForwardTile<d,
                                 d == 256   ? 32
                                 : d == 128 ? 64
                                            : 96,
                                 d == 256 ? 8 : 4, d == 256 ? 16 : 32>;

/// The tile for 256 columns on GPUs whose blocks have at most 99 KiB of shared memory.
using SmallEdgeMaskTile = ForwardTile<256, 32, 4, 16>;

/// Hides the scores of keys that a query does not see.
/// @param s      products of queries and keys
/// @param a      what is computed
/// @param query0 the warp's first query
/// @param key0   the tile's first key
/// @param lane   in the warp
//! [apply_mask]
template <class Tile, class T>
__device__ void apply_mask(Accumulators<Tile, Tile::block_n>& s,
                           const Attention<T>& a, int query0, int key0,
                           int lane) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int seen =
          visible_keys(a, query0 + 16 * i + 8 * h + lane / 4) - key0;
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          //! [hide]
          if (8 * j + lane % 4 * 2 + e >= seen) {
            s[i][j][2 * h + e] = -INFINITY;
          }
          //! [hide]
        }
      }
    }
  }
}
//! [apply_mask]

/// softmax_step() for products that are not scaled yet.
/// @tparam hidden whether scores may be -infinity: rows of nothing else need care
/// @param s     products of queries and keys; weights on return
/// @param o     sums of weighted values so far
/// @param state of the rows
/// @param exponent_scale scale / ln 2
//! [base_2]
template <class Tile, bool masked>
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
      //! [base_2_row]
      // -infinity - -infinity is no number: take 0 for the maximum of nothing
      const float offset =
          masked && m == -INFINITY ? 0.0f : __fmul_rn(m, exponent_scale);
      // Both products are rounded: a maximum that stays is corrected by 1.
      rescale[h] =
          exp2_approx(__fmul_rn(state.m[i][h], exponent_scale) - offset);
      state.m[i][h] = m;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) {
          s[i][j][e] = exp2_approx(s[i][j][e] * exponent_scale - offset);
          sum += s[i][j][e];
        }
      }
      state.l[i][h] = state.l[i][h] * rescale[h] + sum;
      //! [base_2_row]
    }
    // Once a row has met its largest scores, this is rare.
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

/// Attention in 16 bits, as fast as sm_80 allows here: masks at the edge only, powers of two.
/// Launch: blocks of Tile::threads; grid of ceil(length_q / block_m) x heads x batch; pipeline_bytes().
/// @tparam Tile  a ForwardTile
/// @tparam drops whether weights are dropped
//! [finish]
template <class Tile, class T, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads, Tile::d == 256 ? 1 : 2)
    flash_edge_masks(Attention<T> a) {
  constexpr int d = Tile::d;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Tile::q_size;
  T* const v_smem = k_smem + 2 * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int block = a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int query0 = block * Tile::block_m;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  //! [tiles]
  const int tiles =
      ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
  const int whole = visible_keys(a, query0) / Tile::block_n;  // seen by all
  //! [tiles]
  //! [exponent_scale]
  const float exponent_scale = a.scale * kLog2E;
  //! [exponent_scale]
  const auto fetch = [&](int tile, auto last) {
    constexpr bool ragged = decltype(last)::value;
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
    fetch(tiles - 1, std::true_type{});
    cp_async_commit();
  }
  Accumulators<Tile, d> o = {};
  WarpRowState<Tile> state;
  init_row_state(state);
  const auto step = [&](int tile, auto edge) {
    constexpr bool masked = decltype(edge)::value;
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    cp_async_wait<0>();
    __syncthreads();  // this tile is there, and nobody reads the last one
    if (tile > 0) fetch(tile - 1, std::false_type{});
    cp_async_commit();
    Accumulators<Tile, Tile::block_n> s = {};
    multiply_q_k<d>(s, q_smem, k_smem + at, warp_row, lane);
    if constexpr (masked) {
      apply_mask<Tile>(s, a, query0 + warp_row, key0, lane);
    }
    softmax_step_base_2<Tile, masked>(s, o, state, exponent_scale);
    if constexpr (has_dropout) {
      apply_dropout<Tile>(s, a, head.index, query0 + warp_row, key0, lane);
    }
    multiply_p_v<d>(o, s, v_smem + at, lane);
  };
  int tile = tiles - 1;  // the edge first
  for (; tile >= whole; --tile) step(tile, std::true_type{});
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
//! [finish]

}  // namespace fa::FA_TARGET
