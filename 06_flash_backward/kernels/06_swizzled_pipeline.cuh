/// @file
/// The sm_80 finish. Tiles are swizzled and read by ldmatrix, turned on their way where a product needs them so; the
/// next tiles of Q and dO come by cp.async while the tensor cores work; tiles of queries that see no key of the block
/// are skipped, and only those at the edge pay for a mask.
#pragma once

#include "06_flash_backward/kernels/05_tensor_cores.cuh"

namespace fa::FA_TARGET {

/// The tile for a head dimension: as large as the registers allow.
template <int d>
using SwizzledBackwardTile =
    BackwardTile<d, d == 64 || d == 256 ? 32 : 64, d <= 64 ? 4 : 8,
                 d <= 64 ? 32 : 16, d == 256 ? 2 : 1>;

/// The tile for 128 or 256 columns on GPUs whose blocks have at most 99 KiB of shared memory.
template <int d>
using SmallBackwardTile = BackwardTile<d, 32, 4, 16, d == 256 ? 2 : 1>;

/// Writes eight queries' part of dS^T to its swizzled tile, a row for each key.
template <class Tile, class T>
__device__ void store_score_gradients(T* ds_smem,
                                      const PackedScores<Tile>& d_s, int j,
                                      int warp_key, int lane) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = warp_key + 16 * i + 8 * h + lane / 4;
      store_pair(ds_smem + swizzled<Tile::block_m>(row, 8 * j) + lane % 4 * 2,
                 d_s[i][j][h]);
    }
  }
}

/// dQ += dS K for a warp. dS lies turned: ldmatrix turns it back.
//! [multiply_ds_k]
template <class Tile, class T>
__device__ void multiply_ds_k(QuerySums<Tile>& d_q, const T* ds_smem,
                              const T* k_smem, int warp, int lane) {
  const int row0 = warp % Tile::d_q_warp_rows * Tile::d_q_rows;
  const int col0 = warp / Tile::d_q_warp_rows * Tile::d_q_columns;
  constexpr int rows = Tile::d_q_rows / 16;
  const int of_ds =
      swizzled<Tile::block_m>(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
  const int of_k = swizzled<Tile::d>(lane % 16, lane / 16 * 8);
#pragma unroll
  for (int key = 0; key < Tile::block_n; key += 16) {
    std::uint32_t ds_frag[rows][4];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      ldmatrix_x4_transposed(ds_frag[i], ds_smem + (of_ds ^ (row0 + 16 * i)) +
                                             key * Tile::block_m);
    }
#pragma unroll
    for (int j = 0; j < Tile::d_q_columns / 16; ++j) {
      std::uint32_t k_frag[4];  // of 16 columns
      ldmatrix_x4_transposed(
          k_frag, k_smem + (of_k ^ (col0 + 16 * j)) + key * Tile::d);
      const std::uint32_t low[2] = {k_frag[0], k_frag[1]};
      const std::uint32_t high[2] = {k_frag[2], k_frag[3]};
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        mma_m16n8k16<T>(d_q[i][2 * j], ds_frag[i], low);
        mma_m16n8k16<T>(d_q[i][2 * j + 1], ds_frag[i], high);
      }
    }
  }
}
//! [multiply_ds_k]

/// Dynamic shared memory of flash_backward_swizzled_pipeline().
template <class Tile, class T>
constexpr std::size_t backward_bytes() {
  return sizeof(T) * (2 * Tile::kv_size + 4 * Tile::q_size + Tile::ds_size) +
         sizeof(float) * 4 * Tile::block_m;
}

/// dK and dV, and the sums of dQ if `adds`, in 16 bits; a block has keys, and the queries go by.
/// Launch: blocks of Tile::threads; grid of ceil(length_k / block_n) x kv_heads x batch; backward_bytes(); after
/// preprocess() with d_q_sum, and before write_d_q().
/// @tparam Tile  a BackwardTile
/// @tparam drops whether weights are dropped
/// @tparam adds  whether it computes dQ, too
//! [finish]
template <class Tile, class T, bool has_dropout, bool adds = true>
__global__ void __launch_bounds__(Tile::threads, Tile::warps == 4 ? 2 : 1)
    flash_backward_swizzled_pipeline(AttentionGradient<T> a) {
  constexpr int d = Tile::d;
  T* const k_smem = dynamic_shared<T>();
  T* const v_smem = k_smem + Tile::kv_size;
  T* const q_smem = v_smem + Tile::kv_size;  // two of them
  T* const d_o_smem = q_smem + 2 * Tile::q_size;
  T* const ds_smem = d_o_smem + 2 * Tile::q_size;
  float* const lse_smem = reinterpret_cast<float*>(ds_smem + Tile::ds_size);
  float* const delta_smem = lse_smem + 2 * Tile::block_m;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp = thread / kWarp;
  const int warp_key = warp / Tile::column_parts * Tile::warp_keys;
  const int column0 = warp % Tile::column_parts * Tile::columns;
  const int key0 = blockIdx.x * Tile::block_n;
  const int kv_head = blockIdx.y, batch = blockIdx.z;
  const auto fetch = [&](const QueryTile<T>& tile, int stage) {
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        q_smem + stage * Tile::q_size, tile.head.q, a.q_strides.row,
        tile.query0, a.length_q, a.head_dim, thread);
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        d_o_smem + stage * Tile::q_size, tile.head.d_o, a.d_o_strides.row,
        tile.query0, a.length_q, a.head_dim, thread);
    if (thread < Tile::block_m / 4) {
      const std::int64_t row =
          tile.head.padded_row + tile.query0 + 4 * thread;
      const int to = stage * Tile::block_m + 4 * thread;
      cp_async16(lse_smem + to, a.lse_base_2 + row);
      cp_async16(delta_smem + to, a.delta + row);
    }
  };
  auto tile = first_query_tile<Tile>(a, batch, kv_head, key0);
  if (exists(tile, a)) {
    copy_rows_async<Tile::block_n, d, Tile::threads>(
        k_smem, kv_rows(a.k, a.k_strides, batch, kv_head), a.k_strides.row,
        key0, a.length_k, a.head_dim, thread);
    copy_rows_async<Tile::block_n, d, Tile::threads>(
        v_smem, kv_rows(a.v, a.v_strides, batch, kv_head), a.v_strides.row,
        key0, a.length_k, a.head_dim, thread);
    fetch(tile, 0);
    cp_async_commit();
  }
  const float exponent_scale = a.scale * kLog2E;
  KeySums<Tile> d_k = {}, d_v = {};
  for (int stage = 0; exists(tile, a); stage = 1 - stage) {
    const T* const q_tile = q_smem + stage * Tile::q_size;
    const T* const d_o_tile = d_o_smem + stage * Tile::q_size;
    const float* const lse = lse_smem + stage * Tile::block_m;
    const float* const delta = delta_smem + stage * Tile::block_m;
    const int head = tile.head.index, query0 = tile.query0;
    const std::int64_t row = tile.head.padded_row + query0;
    //! [step]
    cp_async_wait<0>();
    __syncthreads();  // this tile is there, and nobody reads the last one
    Scores<Tile> p = {}, d_s = {};
    multiply_q_k<d>(p, k_smem, q_tile, warp_key, lane);  // S^T = K Q^T
    tile = next_query_tile<Tile>(tile, a, batch, kv_head, key0);
    if (exists(tile, a)) fetch(tile, 1 - stage);
    cp_async_commit();
    if (visible_keys(a, query0) < key0 + Tile::block_n) {
      apply_mask_transposed_scores<Tile>(p, a, query0, key0 + warp_key, lane);
    }
    // dP^T = V dO^T, and meanwhile P^T
    multiply_q_k<d>(d_s, v_smem, d_o_tile, warp_key, lane, [&](int part) {
#pragma unroll
      for (int j = 0; j < Tile::query_tiles; ++j) {
        if (j * (d / 16) / Tile::query_tiles == part) {
          recompute_probs<Tile>(p, j, exponent_scale, lse, lane);
        }
      }
    });
    PackedScores<Tile> d_s_packed;
    const auto finish_scores = [&](int j) {
      score_gradients<Tile, has_dropout>(d_s, p, j, a, delta, head, query0,
                                         key0 + warp_key, lane);
      pack_scores<T, Tile>(d_s_packed, d_s, j);
      if (adds && column0 == 0) {
        store_score_gradients<Tile>(ds_smem, d_s_packed, j, warp_key, lane);
      }
    };
    if constexpr (has_dropout) {  // it changes P^T, too
#pragma unroll
      for (int j = 0; j < Tile::query_tiles; ++j) finish_scores(j);
    }
    // dV += P^T dO, and meanwhile dS^T
    multiply_p_v<d>(d_v, p, d_o_tile, lane, column0, [&](int part) {
      if constexpr (!has_dropout) {
        finish_scores(2 * part);
        finish_scores(2 * part + 1);
      }
    });
    if constexpr (adds) __syncthreads();  // dS is there, of all warps
    multiply_p_v<d>(d_k, d_s_packed, q_tile, lane, column0);  // dS^T Q
    if constexpr (adds) {
      QuerySums<Tile> d_q = {};
      multiply_ds_k<Tile>(d_q, ds_smem, k_smem, warp, lane);
      add_d_q<Tile>(a.d_q_sum + row * d, d_q, warp, lane);
    }
    //! [step]
  }
  store_key_sums<Tile>(kv_rows(a.d_k, a.d_k_strides, batch, kv_head),
                       a.d_k_strides.row, a, d_k, a.scale, key0 + warp_key,
                       column0, lane);
  store_key_sums<Tile>(kv_rows(a.d_v, a.d_v_strides, batch, kv_head),
                       a.d_v_strides.row, a, d_v, 1.0f, key0 + warp_key,
                       column0, lane);
}
//! [finish]

}  // namespace fa::FA_TARGET
