/// @file
/// A block of keys of the mma.sync kernels: its tiles, its matmuls from swizzled tiles, and its loop
/// over the queries, for a step of the ladder, packed sequences and functors.
#pragma once

#include "06_flash_backward/kernels/mma_backward.cuh"

namespace fa::FA_TARGET {

/// The tile for a head dimension: as large as the registers allow.
template <int d>
using SwizzledBackwardTile =
    BackwardTile<d, d == 64 || d == 256 ? 32 : 64, d <= 64 ? 4 : 8,
                 d <= 64 ? 32 : 16, d == 256 ? 2 : 1>;

/// The tile for 128 or 256 columns on GPUs whose blocks have at most 99 KiB of shared memory.
template <int d>
using SmallBackwardTile = BackwardTile<d, 32, 4, 16, d == 256 ? 2 : 1>;

/// S^T += K Q^T or dP^T += V dO^T for a warp's keys, from swizzled tiles, and other work between
/// the instructions.
/// @param warp_key the warp's first key in the tile
/// @param overlap  overlap(part) does a part of the other work, for each 16 columns
template <int d, class T, int row_tiles, int query_tiles, class Overlap>
__device__ void multiply_k_q(float (&s)[row_tiles][query_tiles][4],
                             const T* k_smem, const T* q_smem, int warp_key,
                             int lane, Overlap overlap) {
  const int of_k = swizzled<d>(warp_key + lane % 16, lane / 16 * 8);
  const int of_q = swizzled<d>(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
#pragma unroll
  for (int kk = 0; kk < d; kk += 16) {
    std::uint32_t k_frag[row_tiles][4];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
      ldmatrix_x4(k_frag[i], k_smem + (of_k ^ kk) + 16 * i * d);
    }
#pragma unroll
    for (int j = 0; j < query_tiles / 2; ++j) {
      std::uint32_t q_frag[4];  // of 16 queries
      ldmatrix_x4(q_frag, q_smem + (of_q ^ kk) + 16 * j * d);
      const std::uint32_t low[2] = {q_frag[0], q_frag[1]};
      const std::uint32_t high[2] = {q_frag[2], q_frag[3]};
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        mma_m16n8k16<T>(s[i][2 * j], k_frag[i], low);
        mma_m16n8k16<T>(s[i][2 * j + 1], k_frag[i], high);
      }
    }
    overlap(kk / 16);
  }
}

/// dV += P^T dO or dK += dS^T Q for a warp's keys and some columns, from a swizzled tile, and other
/// work between the instructions.
/// @param p       the left operand, as probs_as_operand() takes it
/// @param column0 the first column of sums; a multiple of their number
/// @param overlap overlap(part) does a part of the other work, for each 16 queries
template <int d, class T, int row_tiles, int column_tiles, class Value,
          int query_tiles, int parts, class Overlap>
__device__ void multiply_p_d_o(
    float (&sums)[row_tiles][column_tiles][4],
    const Value (&p)[row_tiles][query_tiles][parts], const T* d_o_smem,
    int lane, int column0, Overlap overlap) {
  const int of_d_o = swizzled<d>(lane % 16, lane / 16 * 8) ^ column0;
#pragma unroll
  for (int kk = 0; kk < 8 * query_tiles; kk += 16) {
    std::uint32_t p_frag[row_tiles][4];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
      probs_as_operand<T>(p_frag[i], p[i], kk);
    }
#pragma unroll
    for (int j = 0; j < column_tiles / 2; ++j) {
      std::uint32_t d_o_frag[4];  // of 16 columns
      ldmatrix_x4_transposed(d_o_frag, d_o_smem + (of_d_o ^ 16 * j) + kk * d);
      const std::uint32_t low[2] = {d_o_frag[0], d_o_frag[1]};
      const std::uint32_t high[2] = {d_o_frag[2], d_o_frag[3]};
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        mma_m16n8k16<T>(sums[i][2 * j], p_frag[i], low);
        mma_m16n8k16<T>(sums[i][2 * j + 1], p_frag[i], high);
      }
    }
    overlap(kk / 16);
  }
}

/// Writes dS^T of queries 8 j to 8 j + 7 to its swizzled tile, a row for each key.
template <class Tile, class T>
__device__ void store_score_gradients(T* ds_smem,
                                      const PackedScores<Tile>& d_s, int j,
                                      int warp_key, int lane) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = warp_key + 16 * i + 8 * h + fragment_row(lane, 0);
      store_pair(ds_smem + swizzled<Tile::block_m>(row, 8 * j) +
                     fragment_column(lane, 0),
                 d_s[i][j][h]);
    }
  }
}

/// dQ += dS K for a warp. dS lies transposed: ldmatrix transposes it back.
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
  for (int kk = 0; kk < Tile::block_n; kk += 16) {
    std::uint32_t ds_frag[rows][4];
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      ldmatrix_x4_transposed(ds_frag[i], ds_smem + (of_ds ^ (row0 + 16 * i)) +
                                             kk * Tile::block_m);
    }
#pragma unroll
    for (int j = 0; j < Tile::d_q_columns / 16; ++j) {
      std::uint32_t k_frag[4];  // of 16 columns
      ldmatrix_x4_transposed(
          k_frag, k_smem + (of_k ^ (col0 + 16 * j)) + kk * Tile::d);
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

/// Dynamic shared memory of a block.
template <class Tile, class T>
constexpr std::size_t swizzled_backward_bytes() {
  return sizeof(T) * (2 * Tile::kv_size + 4 * Tile::q_size + Tile::ds_size) +
         sizeof(float) * 4 * Tile::block_m;
}

/// The same of the smallest tile for d columns.
template <int d>
constexpr std::size_t least_keys_bytes() {
  using Tile = std::conditional_t <
               d<128, SwizzledBackwardTile<d>, SmallBackwardTile<d>>;
  return swizzled_backward_bytes<Tile, half>();
}

/// dK and dV, and additions to d_q_accum. A block owns keys and loops over the queries.
/// @tparam Tile    a BackwardTile
/// @tparam has_d_q false: another kernel computes dQ
template <class Tile, bool has_dropout, bool has_d_q = true, class T>
__device__ void swizzled_pipeline_block(const AttentionGradient<T>& a,
                                        int key0, int kv_head, int batch) {
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
    __syncthreads();  // this tile is loaded, the last one has been read
    Scores<Tile> p = {}, d_s = {};
    // S^T = K Q^T
    multiply_k_q<d>(p, k_smem, q_tile, warp_key, lane, [](int) {});
    tile = next_query_tile<Tile>(tile, a, batch, kv_head, key0);
    if (exists(tile, a)) fetch(tile, 1 - stage);
    cp_async_commit();
    if (visible_keys(a, query0) < key0 + Tile::block_n) {
      apply_mask_transposed<Tile>(p, a, query0, key0 + warp_key, lane);
    }
    // dP^T = V dO^T, overlapped with P^T = exp(scale S^T - LSE)
    multiply_k_q<d>(d_s, v_smem, d_o_tile, warp_key, lane, [&](int part) {
#pragma unroll
      for (int j = 0; j < Tile::query_tiles; ++j) {
        if (j * (d / 16) / Tile::query_tiles == part) {
          recompute_probs<Tile>(p, j, exponent_scale, lse, lane);
        }
      }
    });
    PackedScores<Tile> d_s_packed;
    // dS^T = P^T * (dP^T - delta), elementwise of eight queries
    const auto finish_scores = [&](int j) {
      score_gradients<Tile, has_dropout>(d_s, p, j, a, delta, head, query0,
                                         key0 + warp_key, lane);
      pack_scores<T, Tile>(d_s_packed, d_s, j);
      if (has_d_q && column0 == 0) {
        store_score_gradients<Tile>(ds_smem, d_s_packed, j, warp_key, lane);
      }
    };
    // Dropout changes P^T, too, so dS^T must come before dV.
    if constexpr (has_dropout) {
#pragma unroll
      for (int j = 0; j < Tile::query_tiles; ++j) finish_scores(j);
    }
    // dV += P^T dO, overlapped with dS^T
    multiply_p_d_o<d>(d_v, p, d_o_tile, lane, column0, [&](int part) {
      if constexpr (!has_dropout) {
        finish_scores(2 * part);
        finish_scores(2 * part + 1);
      }
    });
    if constexpr (has_d_q) {
      __syncthreads();  // all warps have stored dS
    }
    // dK += dS^T Q
    multiply_p_d_o<d>(d_k, d_s_packed, q_tile, lane, column0, [](int) {});
    if constexpr (has_d_q) {
      QuerySums<Tile> d_q = {};  // dQ = dS K
      multiply_ds_k<Tile>(d_q, ds_smem, k_smem, warp, lane);
      atomic_add_d_q<Tile>(a.d_q_accum + row * d, d_q, warp, lane);
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

/// Calls launch(tile) with the tile for d columns that fits a device.
template <int d, class T, class Launch>
void with_swizzled_tile(const DeviceProperties& device, Launch launch) {
  using Large = SwizzledBackwardTile<d>;
  if constexpr (d < 128) {
    launch(Large{});
  } else if (can_run(device, kNeedsMma.with_shared(
                                 swizzled_backward_bytes<Large, T>()))) {
    launch(Large{});
  } else {
    launch(SmallBackwardTile<d>{});
  }
}

}  // namespace fa::FA_TARGET
