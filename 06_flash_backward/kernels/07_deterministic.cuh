/// @file
/// The same bits in every run, at the speed of tensor cores: rung 03's division of labour with rung 06's means. One
/// kernel computes dK and dV, rung 06's without its additions to dQ; another computes dQ, with queries outside and keys
/// going by. S and dP are computed twice: seven products instead of five.
#pragma once

#include "06_flash_backward/kernels/06_swizzled_pipeline.cuh"

namespace fa::FA_TARGET {

/// The tile of the kernel for dQ: lesson 05's, with Q and dO kept.
template <int d>
using QueryGradientTile = ForwardTile<d, d == 256 ? 32 : 64, 8, 16>;

/// The same on GPUs whose blocks have at most 99 KiB of shared memory.
template <int d>
using SmallQueryGradientTile = ForwardTile<d, d == 256 ? 16 : 32, 4, 16>;

/// Dynamic shared memory of flash_backward_queries().
template <class Tile, class T>
constexpr std::size_t query_gradient_bytes() {
  return sizeof(T) * (2 * Tile::q_size + 4 * Tile::kv_size);
}

/// dQ alone, in 16 bits; a block has queries, and the keys go by.
/// Launch: blocks of Tile::threads; grid of ceil(length_q / block_m) x heads x batch; query_gradient_bytes(); after
/// preprocess().
/// @tparam Tile  a ForwardTile
/// @tparam drops whether weights are dropped
//! [queries]
template <class Tile, class T, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads, 1)
    flash_backward_queries(AttentionGradient<T> a) {
  constexpr int d = Tile::d;
  T* const q_smem = dynamic_shared<T>();
  T* const d_o_smem = q_smem + Tile::q_size;
  T* const k_smem = d_o_smem + Tile::q_size;  // two of them
  T* const v_smem = k_smem + 2 * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int block = a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int query0 = block * Tile::block_m;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const auto kv = head_of(a, blockIdx.z, blockIdx.y);
  const int tiles =
      ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
  const float exponent_scale = a.scale * kLog2E;
  const auto fetch = [&](int tile) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    copy_rows_async<Tile::block_n, d, Tile::threads>(
        k_smem + at, kv.k, a.k_strides.row, key0, a.length_k, a.head_dim,
        thread);
    copy_rows_async<Tile::block_n, d, Tile::threads>(
        v_smem + at, kv.v, a.v_strides.row, key0, a.length_k, a.head_dim,
        thread);
  };
  if (tiles > 0) {
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim,
        thread);
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        d_o_smem, head.d_o, a.d_o_strides.row, query0, a.length_q, a.head_dim,
        thread);
    fetch(0);
    cp_async_commit();
  }
  // What this lane must know of its two rows: see RowState.
  float lse[2], delta[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const std::int64_t row =
        head.padded_row + query0 + warp_row + 8 * h + lane / 4;
    lse[h] = a.lse_base_2[row];
    delta[h] = a.delta[row];
  }
  Accumulators<Tile, d> d_q = {};
  for (int tile = 0; tile < tiles; ++tile) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    cp_async_wait<0>();
    __syncthreads();  // this tile is there, and nobody reads the last one
    if (tile + 1 < tiles) fetch(tile + 1);
    cp_async_commit();
    Accumulators<Tile, Tile::block_n> s = {}, d_p = {};
    multiply_q_k<d>(s, q_smem, k_smem + at, warp_row, lane);
    if (visible_keys(a, query0) < key0 + Tile::block_n) {
      apply_mask<Tile>(s, a, query0 + warp_row, key0, lane);
    }
    multiply_q_k<d>(d_p, d_o_smem, v_smem + at, warp_row, lane);
#pragma unroll
    for (int j = 0; j < Tile::block_n / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float gradient = d_p[0][j][e];
        if constexpr (has_dropout) {
          gradient *= a.dropout.of_weight(
              head.index, query0 + warp_row + 8 * (e / 2) + lane / 4,
              key0 + 8 * j + lane % 4 * 2 + e % 2);
        }
        s[0][j][e] = exp2_approx(s[0][j][e] * exponent_scale - lse[e / 2]) *
                     (gradient - delta[e / 2]);
      }
    }
    multiply_p_v<d>(d_q, s, k_smem + at, lane);  // dS K
  }
  const int row = query0 + warp_row + lane / 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (row + 8 * h >= a.length_q) continue;
    T* const to = head.d_q + (row + 8 * h) * a.d_q_strides.row;
#pragma unroll
    for (int j = 0; j < d / 8; ++j) {
      if (8 * j < a.head_dim) {
        store_pair(to + 8 * j + lane % 4 * 2,
                   pack2<T>(a.scale * d_q[0][j][2 * h],
                            a.scale * d_q[0][j][2 * h + 1]));
      }
    }
  }
}
//! [queries]

}  // namespace fa::FA_TARGET
