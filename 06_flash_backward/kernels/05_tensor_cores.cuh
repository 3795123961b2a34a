/// @file
/// Five matmuls on tensor cores. A block owns a tile of keys, a warp 16 of them. Scores are
/// computed transposed, S^T = K Q^T, so that the accumulators of P^T and dS^T already are the left
/// operands of dV += P^T dO and dK += dS^T Q. Only dS, which dQ = dS K needs from all warps, goes
/// through shared memory.
///
/// Source: Dao et al., FlashAttention, NeurIPS 2022, algorithm 4, and Dao, FlashAttention-2, ICLR
/// 2024, algorithm 2.
#pragma once

#include "06_flash_backward/kernels/mma_backward.cuh"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// The tile of this rung.
template <int d>
using PlainBackwardTile = BackwardTile<d, 64, 8, 16>;

/// S^T += K Q^T for a warp's keys, from tiles without a swizzle.
/// @param s      accumulators
/// @param k_rows the warp's first row of K, or of V
/// @param q_smem Q's tile, or dO's
/// @param lane   in the warp
template <class Tile, class T>
__device__ void multiply_rows(Scores<Tile>& s, const T* k_rows,
                              const T* q_smem, int lane) {
  constexpr int d = Tile::d;
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int kk = 0; kk < d; kk += 16) {
    std::uint32_t k_frag[Tile::row_tiles][4];
#pragma unroll
    for (int i = 0; i < Tile::row_tiles; ++i) {
      const T* row = k_rows + (16 * i + g) * d + kk + 2 * t;
      k_frag[i][0] = load_pair(row);
      k_frag[i][1] = load_pair(row + 8 * d);
      k_frag[i][2] = load_pair(row + 8);
      k_frag[i][3] = load_pair(row + 8 * d + 8);
    }
#pragma unroll
    for (int j = 0; j < Tile::query_tiles; ++j) {
      const T* row = q_smem + (8 * j + g) * d + kk + 2 * t;
      const std::uint32_t q_frag[2] = {load_pair(row), load_pair(row + 8)};
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
        mma_m16n8k16<T>(s[i][j], k_frag[i], q_frag);
      }
    }
  }
}

/// dV += P^T dO for a warp's keys, or dK += dS^T Q: the right operand is read along its columns.
/// @param sums     of the warp's keys
/// @param p        the left operand, from registers
/// @param d_o_smem dO's tile, or Q's
/// @param lane     in the warp
template <class Tile, class T>
__device__ void multiply_columns(KeySums<Tile>& sums,
                                 const PackedScores<Tile>& p,
                                 const T* d_o_smem, int lane) {
  constexpr int d = Tile::d;
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int kk = 0; kk < Tile::block_m; kk += 16) {
    std::uint32_t p_frag[Tile::row_tiles][4];
#pragma unroll
    for (int i = 0; i < Tile::row_tiles; ++i) {
      probs_as_operand<T>(p_frag[i], p[i], kk);
    }
#pragma unroll
    for (int j = 0; j < Tile::columns / 8; ++j) {
      const T* column = d_o_smem + (kk + 2 * t) * d + 8 * j + g;
      const std::uint32_t d_o_frag[2] = {pack2(column[0], column[d]),
                                         pack2(column[8 * d], column[9 * d])};
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
        mma_m16n8k16<T>(sums[i][j], p_frag[i], d_o_frag);
      }
    }
  }
}

/// dQ += dS K for a warp's part of dQ, from dS^T, a row for each key.
/// @param d_q     accumulators
/// @param ds_smem dS^T, [block_n][block_m]
/// @param k_smem  K's tile
/// @param warp    of the block
/// @param lane    in the warp
template <class Tile, class T>
__device__ void multiply_transposed(QuerySums<Tile>& d_q, const T* ds_smem,
                                    const T* k_smem, int warp, int lane) {
  constexpr int d = Tile::d, ld = Tile::block_m;
  const int g = lane / 4, t = lane % 4;
  const int row0 = warp % Tile::d_q_warp_rows * Tile::d_q_rows;
  const int col0 = warp / Tile::d_q_warp_rows * Tile::d_q_columns;
#pragma unroll
  for (int kk = 0; kk < Tile::block_n; kk += 16) {
    std::uint32_t ds_frag[Tile::d_q_rows / 16][4];
#pragma unroll
    for (int i = 0; i < Tile::d_q_rows / 16; ++i) {
      const T* at = ds_smem + (kk + 2 * t) * ld + row0 + 16 * i + g;
      ds_frag[i][0] = pack2(at[0], at[ld]);
      ds_frag[i][1] = pack2(at[8], at[ld + 8]);
      ds_frag[i][2] = pack2(at[8 * ld], at[9 * ld]);
      ds_frag[i][3] = pack2(at[8 * ld + 8], at[9 * ld + 8]);
    }
#pragma unroll
    for (int j = 0; j < Tile::d_q_columns / 8; ++j) {
      const T* column = k_smem + (kk + 2 * t) * d + col0 + 8 * j + g;
      const std::uint32_t k_frag[2] = {pack2(column[0], column[d]),
                                       pack2(column[8 * d], column[9 * d])};
#pragma unroll
      for (int i = 0; i < Tile::d_q_rows / 16; ++i) {
        mma_m16n8k16<T>(d_q[i][j], ds_frag[i], k_frag);
      }
    }
  }
}

/// Dynamic shared memory of flash_backward_tensor_cores().
template <class Tile, class T>
constexpr std::size_t plain_backward_bytes() {
  return sizeof(T) * (2 * Tile::kv_size + 2 * Tile::q_size + Tile::ds_size);
}

/// dK and dV, and additions to d_q_accum. A block owns 128 keys and loops over the queries.
template <int d, class T>
__global__ void __launch_bounds__(256)
    flash_backward_tensor_cores(AttentionGradient<T> a) {
  using Tile = PlainBackwardTile<d>;
  T* const k_smem = dynamic_shared<T>();
  T* const v_smem = k_smem + Tile::kv_size;
  T* const q_smem = v_smem + Tile::kv_size;
  T* const d_o_smem = q_smem + Tile::q_size;
  T* const ds_smem = d_o_smem + Tile::q_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp = thread / kWarp, warp_key = warp * Tile::warp_keys;
  const int key0 = blockIdx.x * Tile::block_n;
  const int kv_head = blockIdx.y, batch = blockIdx.z;
  const auto copy_to = [](T* tile) {
    return [=](int row, int col, const T* from, bool inside) {
      store4(tile + row * d + col,
             inside ? load4(from) : make_float4(0, 0, 0, 0));
    };
  };
  for_row_pieces<Tile::block_n, d, Tile::threads>(
      kv_rows(a.k, a.k_strides, batch, kv_head), a.k_strides.row, key0,
      a.length_k, a.head_dim, thread, copy_to(k_smem));
  for_row_pieces<Tile::block_n, d, Tile::threads>(
      kv_rows(a.v, a.v_strides, batch, kv_head), a.v_strides.row, key0,
      a.length_k, a.head_dim, thread, copy_to(v_smem));
  KeySums<Tile> d_k = {}, d_v = {};
  for (auto tile = first_query_tile<Tile>(a, batch, kv_head, key0);
       exists(tile, a);
       tile = next_query_tile<Tile>(tile, a, batch, kv_head, key0)) {
    for_row_pieces<Tile::block_m, d, Tile::threads>(
        tile.head.q, a.q_strides.row, tile.query0, a.length_q, a.head_dim,
        thread, copy_to(q_smem));
    for_row_pieces<Tile::block_m, d, Tile::threads>(
        tile.head.d_o, a.d_o_strides.row, tile.query0, a.length_q, a.head_dim,
        thread, copy_to(d_o_smem));
    __syncthreads();  // the tiles are loaded
    //! [tile_step]
    const std::int64_t row = tile.head.padded_row + tile.query0;
    Scores<Tile> p = {}, d_s = {};
    // S^T = K Q^T, dP^T = V dO^T
    multiply_rows<Tile>(p, k_smem + warp_key * d, q_smem, lane);
    multiply_rows<Tile>(d_s, v_smem + warp_key * d, d_o_smem, lane);
    apply_mask_transposed<Tile>(p, a, tile.query0, key0 + warp_key, lane);
    PackedScores<Tile> p_packed, d_s_packed;
    // P = exp(scale S - LSE), dS = P * (dP - delta), elementwise
#pragma unroll
    for (int j = 0; j < Tile::query_tiles; ++j) {
      recompute_probs<Tile>(p, j, a.scale * kLog2E, a.lse_base_2 + row, lane);
      score_gradients<Tile, true>(d_s, p, j, a, a.delta + row,
                                  tile.head.index, tile.query0,
                                  key0 + warp_key, lane);
      pack_scores<T, Tile>(p_packed, p, j);
      pack_scores<T, Tile>(d_s_packed, d_s, j);
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int key = warp_key + 16 * i + 8 * h + fragment_row(lane, 0);
          store_pair(ds_smem + key * Tile::block_m + 8 * j +
                         fragment_column(lane, 0),
                     d_s_packed[i][j][h]);
        }
      }
    }
    // dV += P^T dO, dK += dS^T Q
    multiply_columns<Tile>(d_v, p_packed, d_o_smem, lane);
    multiply_columns<Tile>(d_k, d_s_packed, q_smem, lane);
    // dQ = dS K
    __syncthreads();  // all warps have stored dS
    QuerySums<Tile> d_q = {};
    multiply_transposed<Tile>(d_q, ds_smem, k_smem, warp, lane);
    atomic_add_d_q<Tile>(a.d_q_accum + row * d, d_q, warp, lane);
    __syncthreads();  // all warps have read the tiles
    //! [tile_step]
  }
  store_key_sums<Tile>(kv_rows(a.d_k, a.d_k_strides, batch, kv_head),
                       a.d_k_strides.row, a, d_k, a.scale, key0 + warp_key, 0,
                       lane);
  store_key_sums<Tile>(kv_rows(a.d_v, a.d_v_strides, batch, kv_head),
                       a.d_v_strides.row, a, d_v, 1.0f, key0 + warp_key, 0,
                       lane);
}

/// Launches the rung.
/// @tparam d     64 or 128, at least head_dim
/// @param a      with a Workspace{d}
/// @param stream where
template <int d, class T>
void launch_backward_tensor_cores(const AttentionGradient<T>& a,
                                  const Stream& stream) {
  using Tile = PlainBackwardTile<d>;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  launch(stream, flash_backward_tensor_cores<d, T>,
         {grid_of_keys(a, Tile::block_n),
          {Tile::threads},
          plain_backward_bytes<Tile, T>()},
         a);
  launch(stream, postprocess_d_q<Tile, T>, postprocess_launch<Tile>(a), a);
}

/// @cond compiled once for all who launch it: common/gpu/parts.hpp
FA_LAUNCH_16_BIT(backward_rungs, AttentionGradient, (const Stream&),
                 launch_backward_tensor_cores<64>);
FA_LAUNCH_16_BIT(backward_rungs, AttentionGradient, (const Stream&),
                 launch_backward_tensor_cores<128>);
/// @endcond

/// The step's row: see common/attention/host/step_row.cuh.
template <class Row>
auto backward_step(std::integral_constant<int, 5>, Row row) {
  return row("05_tensor_cores", "P and dS stay in registers", half{},
             bfloat16{})
      .needs(kNeedsMma)
      .any_order()
      .head_dims(HeadDims<64, 128>{})
      .over_queries(PlainBackwardTile<64>{}, 1)
      .shared_bytes([](auto d) {
        return plain_backward_bytes<PlainBackwardTile<d>, half>();
      })
      .memory_is("4 N D + 8 N",
                 [](auto n, auto d) { return 4 * n * d + 8 * n; })
      .workspace([](auto&, auto d) { return Workspace{d}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_tensor_cores<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
