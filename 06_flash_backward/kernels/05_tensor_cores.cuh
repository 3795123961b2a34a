/// @file
/// Five products on tensor cores. A block owns a tile of keys, a warp 16 or 32 of them; scores are computed turned,
/// S^T = K Q^T, so that the accumulators of P^T and dS^T are as they are the left operands of dV += P^T dO and
/// dK += dS^T Q. Only dS, which dQ = dS K needs from all warps, goes through shared memory.
///
/// Source: Dao et al., FlashAttention, NeurIPS 2022, algorithm 4, and Dao, FlashAttention-2, ICLR 2024, algorithm 2.
#pragma once

#include "06_flash_backward/kernels/02_preprocess.cuh"
#include "common/attention/mma_tile.cuh"

namespace fa::FA_TARGET {

/// Sizes of the tensor-core kernels.
/// @tparam head_dim     columns, at least those of the inputs
/// @tparam queries      of a tile
/// @tparam warp_count   of a block
/// @tparam keys_of_warp 16 or 32
/// @tparam sharing      warps that have the same keys, each a part of the columns of dK and dV
template <int head_dim, int queries, int warp_count, int keys_of_warp,
          int sharing = 1>
struct BackwardTile {
  static constexpr int d = head_dim;                ///< columns
  static constexpr int block_m = queries;           ///< of a tile
  static constexpr int warps = warp_count;          ///< of a block
  static constexpr int threads = 32 * warps;        ///< of a block
  static constexpr int warp_keys = keys_of_warp;    ///< of a warp
  static constexpr int row_tiles = warp_keys / 16;  ///< of a warp
  static constexpr int query_tiles = block_m / 8;   ///< of S^T
  static constexpr int column_parts = sharing;      ///< of dK and dV
  static constexpr int columns = d / sharing;       ///< of a part
  static constexpr int block_n = warps / sharing * warp_keys;  ///< keys
  static constexpr int q_size = block_m * d;         ///< elements of Q or dO
  static constexpr int kv_size = block_n * d;        ///< elements of K or V
  static constexpr int ds_size = block_n * block_m;  ///< elements of dS
  // dQ, block_m x d, is shared out among the warps.
  static constexpr int d_q_rows = 32;                       ///< of a warp
  static constexpr int d_q_warp_rows = block_m / d_q_rows;  ///< warps
  static constexpr int d_q_columns =
      d * d_q_warp_rows / warps;  ///< of a warp
  static_assert(kPaddedRows % block_m == 0 && block_m % d_q_rows == 0 &&
                    d_q_columns % 16 == 0 && columns % 16 == 0,
                "whole fragments, and whole tiles in the workspace");
};

/// A lane's part of 16 x 8 accumulators of S^T or dP^T, for the keys of its warp.
template <class Tile>
using Scores = float[Tile::row_tiles][Tile::query_tiles][4];
/// The same of dK or dV.
template <class Tile>
using KeySums = float[Tile::row_tiles][Tile::columns / 8][4];
/// The same of dQ.
template <class Tile>
using QuerySums = float[Tile::d_q_rows / 16][Tile::d_q_columns / 8][4];
/// Scores rounded to 16 bits, two neighbours in each word.
template <class Tile>
using PackedScores = std::uint32_t[Tile::row_tiles][Tile::query_tiles][2];

/// Rounds eight queries' part of scores and packs it.
/// @param to   the packed scores
/// @param from what is rounded
/// @param j    which eight
template <class T, class Tile>
__device__ void pack_scores(PackedScores<Tile>& to, const Scores<Tile>& from,
                            int j) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
    to[i][j][0] = pack2<T>(from[i][j][0], from[i][j][1]);
    to[i][j][1] = pack2<T>(from[i][j][2], from[i][j][3]);
  }
}

/// Hides scores of keys that a query does not see.
/// @param s      products of keys and queries
/// @param a      what is computed
/// @param query0 the tile's first query
/// @param key0   the warp's first key
/// @param lane   in the warp
template <class Tile, class T>
__device__ void apply_mask_transposed_scores(Scores<Tile>& s,
                                             const AttentionGradient<T>& a,
                                             int query0, int key0, int lane) {
#pragma unroll
  for (int j = 0; j < Tile::query_tiles; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int seen = visible_keys(a, query0 + 8 * j + lane % 4 * 2 + e) -
                       key0 - lane / 4;
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
        if (16 * i >= seen) s[i][j][e] = -INFINITY;
        if (16 * i + 8 >= seen) s[i][j][2 + e] = -INFINITY;
      }
    }
  }
}

/// Eight queries' part of S^T becomes P^T: nothing but LSE is needed of a row.
/// @param s          products of keys and queries; weights on return
/// @param j          which eight
/// @param scale      of the scores / ln 2
/// @param lse_base_2 of the tile's queries, in shared memory
/// @param lane       in the warp
//! [recompute]
template <class Tile>
__device__ void recompute_probs(Scores<Tile>& s, int j, float scale,
                                const float* lse_base_2, int lane) {
  float lse[2];
  load2(lse, lse_base_2 + 8 * j + lane % 4 * 2);
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[i][j][e] = exp2_approx(s[i][j][e] * scale - lse[e % 2]);
    }
  }
}
//! [recompute]

/// Eight queries' part of dP^T becomes dS^T = P^T o (dP^T - delta). Dropped weights pass no gradient on, and those
/// that are kept were multiplied: with dropout, P^T becomes what O was made of.
/// @tparam drops whether there may be dropout
/// @param d_p    gradients of weights; of scores on return
/// @param p      weights
/// @param j      which eight
/// @param a      what is computed
/// @param delta  of the tile's queries
/// @param head   batch * heads + head
/// @param query0 the tile's first query
/// @param key0   the warp's first key
/// @param lane   in the warp
//! [score_gradients]
template <class Tile, bool has_dropout, class T>
__device__ void score_gradients(Scores<Tile>& d_p, Scores<Tile>& p, int j,
                                const AttentionGradient<T>& a,
                                const float* delta, int head, int query0,
                                int key0, int lane) {
  const int column = 8 * j + lane % 4 * 2;
  float sum[2];
  load2(sum, delta + column);
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if constexpr (has_dropout) {
        const float kept =
            a.dropout.of_weight(head, query0 + column + e % 2,
                                key0 + 16 * i + 8 * (e / 2) + lane / 4);
        d_p[i][j][e] = p[i][j][e] * (d_p[i][j][e] * kept - sum[e % 2]);
        p[i][j][e] *= kept;
      } else {
        d_p[i][j][e] = p[i][j][e] * (d_p[i][j][e] - sum[e % 2]);
      }
    }
  }
}
//! [score_gradients]

/// Adds a warp's part of dQ to the sums in global memory, in the order of the registers: four numbers of a lane are
/// neighbours there, and so are the lanes.
/// @param sums of the tile's queries
/// @param d_q  what is added
/// @param warp of the block
/// @param lane in the warp
//! [add_d_q]
template <class Tile>
__device__ void add_d_q(float* sums, const QuerySums<Tile>& d_q, int warp,
                        int lane) {
  constexpr int rows = Tile::d_q_rows / 16, columns = Tile::d_q_columns / 8;
  float* to = sums + (warp * rows * columns * kWarp + lane) * 4;
#pragma unroll
  for (int i = 0; i < rows; ++i) {
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      atomic_add4(to + (i * columns + j) * kWarp * 4,
                  make_float4(d_q[i][j][0], d_q[i][j][1], d_q[i][j][2],
                              d_q[i][j][3]));
    }
  }
}
//! [add_d_q]

/// Puts the sums of add_d_q() in order, scales and rounds them. Four lanes had eight neighbours of a row, and of the
/// row eight below; here one thread takes them all. Launch: blocks of block_m * d / 16; grid of
/// ceil(length_q / block_m) x heads x batch.
template <class Tile, class T>
__global__ void write_d_q(AttentionGradient<T> a) {
  constexpr int rows = Tile::d_q_rows / 16, columns = Tile::d_q_columns / 8;
  const int number = threadIdx.x / 8;  // of the 16 x 8 accumulators
  const int warp = number / (rows * columns);
  const int query0 = blockIdx.x * Tile::block_m;
  const int row = query0 + warp % Tile::d_q_warp_rows * Tile::d_q_rows +
                  number / columns % rows * 16 + threadIdx.x % 8;
  const int col =
      warp / Tile::d_q_warp_rows * Tile::d_q_columns + number % columns * 8;
  if (col >= a.head_dim) return;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const float* from = a.d_q_sum + (head.padded_row + query0) * Tile::d +
                      threadIdx.x * std::int64_t{16};
  std::uint32_t high[4], low[4];
#pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    const float4 sum = load4(from + 4 * lane);
    high[lane] = pack2<T>(a.scale * sum.x, a.scale * sum.y);
    low[lane] = pack2<T>(a.scale * sum.z, a.scale * sum.w);
  }
  T* to = head.d_q + row * a.d_q_strides.row + col;
  if (row < a.length_q) store4(to, as_float4(high));
  if (row + 8 < a.length_q) {
    store4(to + 8 * a.d_q_strides.row, as_float4(low));
  }
}

/// Writes a warp's rows of dK or dV.
/// @param rows   row 0 of the tensor
/// @param stride from a row to the next
/// @param a      what is computed
/// @param sums   of this warp
/// @param factor of all
/// @param key0   the warp's first key
/// @param col0   the warp's first column
/// @param lane   in the warp
template <class Tile, class T>
__device__ void store_key_sums(T* rows, std::int64_t stride,
                               const AttentionGradient<T>& a,
                               const KeySums<Tile>& sums, float factor,
                               int key0, int col0, int lane) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = key0 + 16 * i + 8 * h + lane / 4;
      if (key >= a.length_k) continue;
      T* row = rows + key * stride;
#pragma unroll
      for (int j = 0; j < Tile::columns / 8; ++j) {
        const int col = col0 + 8 * j + lane % 4 * 2;
        if (col < a.head_dim) {
          store_pair(row + col, pack2<T>(factor * sums[i][j][2 * h],
                                         factor * sums[i][j][2 * h + 1]));
        }
      }
    }
  }
}

/// A tile of queries that a block of keys meets. It meets those of all heads of its group, one head after the other.
template <class T>
struct QueryTile {
  GradientHead<T> head;  ///< its head
  int index;             ///< of the head in the group
  int query0;            ///< its first query
};
/// The first one; the last query sees every key, so there is one for every key that exists.
template <class Tile, class T>
__device__ QueryTile<T> first_query_tile(const AttentionGradient<T>& a,
                                         int batch, int kv_head, int key0) {
  const int group = a.heads / a.kv_heads;
  const int query0 = first_query(a, key0) / Tile::block_m * Tile::block_m;
  return {gradient_head(a, batch, kv_head * group),
          query0 < a.length_q ? 0 : group, query0};
}
/// Whether it is one of the group.
template <class T>
__device__ bool exists(const QueryTile<T>& tile,
                       const AttentionGradient<T>& a) {
  return tile.index < a.heads / a.kv_heads;
}
/// The one after it.
template <class Tile, class T>
__device__ QueryTile<T> next_query_tile(QueryTile<T> tile,
                                        const AttentionGradient<T>& a,
                                        int batch, int kv_head, int key0) {
  tile.query0 += Tile::block_m;
  if (tile.query0 < a.length_q) return tile;
  const int group = a.heads / a.kv_heads;
  tile.query0 = first_query(a, key0) / Tile::block_m * Tile::block_m;
  if (++tile.index < group) {
    tile.head = gradient_head(a, batch, kv_head * group + tile.index);
  }
  return tile;
}

/// The tile of rung 05.
template <int d>
using PlainBackwardTile = BackwardTile<d, 64, 8, 16>;

/// S^T += K Q^T for a warp's keys, from tiles that lie row by row.
/// @param s      sums
/// @param k_rows the warp's first row of K, or of V
/// @param q_smem Q's tile, or dO's
/// @param lane   in the warp
//! [rows]
template <class Tile, class T>
__device__ void multiply_rows(Scores<Tile>& s, const T* k_rows,
                              const T* q_smem, int lane) {
  constexpr int d = Tile::d;
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int l = 0; l < d; l += 16) {
    std::uint32_t k_frag[Tile::row_tiles][4];
#pragma unroll
    for (int i = 0; i < Tile::row_tiles; ++i) {
      const T* row = k_rows + (16 * i + g) * d + l + 2 * t;
      k_frag[i][0] = load_pair(row);
      k_frag[i][1] = load_pair(row + 8 * d);
      k_frag[i][2] = load_pair(row + 8);
      k_frag[i][3] = load_pair(row + 8 * d + 8);
    }
#pragma unroll
    for (int j = 0; j < Tile::query_tiles; ++j) {
      const T* row = q_smem + (8 * j + g) * d + l + 2 * t;
      const std::uint32_t q_frag[2] = {load_pair(row), load_pair(row + 8)};
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
        mma_m16n8k16<T>(s[i][j], k_frag[i], q_frag);
      }
    }
  }
}
//! [rows]

/// dV += P^T dO for a warp's keys, or dK += dS^T Q: the right operand is read along its columns.
/// @param sums   of the warp's keys
/// @param p      the left operand, from registers
/// @param d_o_smem dO's tile, or Q's
/// @param lane   in the warp
//! [columns]
template <class Tile, class T>
__device__ void multiply_columns(KeySums<Tile>& sums,
                                 const PackedScores<Tile>& p,
                                 const T* d_o_smem, int lane) {
  constexpr int d = Tile::d;
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int query = 0; query < Tile::block_m; query += 16) {
    std::uint32_t p_frag[Tile::row_tiles][4];
#pragma unroll
    for (int i = 0; i < Tile::row_tiles; ++i) {
      probs_as_operand<T>(p_frag[i], p[i], query);
    }
#pragma unroll
    for (int j = 0; j < Tile::columns / 8; ++j) {
      const T* column = d_o_smem + (query + 2 * t) * d + 8 * j + g;
      const std::uint32_t d_o_frag[2] = {pack2(column[0], column[d]),
                                         pack2(column[8 * d], column[9 * d])};
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
        mma_m16n8k16<T>(sums[i][j], p_frag[i], d_o_frag);
      }
    }
  }
}
//! [columns]

/// dQ += dS K for a warp's part of dQ, from dS^T, a row for each key.
/// @param d_q     sums
/// @param ds_smem dS^T, [block_n][block_m]
/// @param k_smem  K's tile
/// @param warp    of the block
/// @param lane    in the warp
//! [both]
template <class Tile, class T>
__device__ void multiply_transposed(QuerySums<Tile>& d_q, const T* ds_smem,
                                    const T* k_smem, int warp, int lane) {
  constexpr int d = Tile::d, ld = Tile::block_m;
  const int g = lane / 4, t = lane % 4;
  const int row0 = warp % Tile::d_q_warp_rows * Tile::d_q_rows;
  const int col0 = warp / Tile::d_q_warp_rows * Tile::d_q_columns;
#pragma unroll
  for (int key = 0; key < Tile::block_n; key += 16) {
    std::uint32_t ds_frag[Tile::d_q_rows / 16][4];
#pragma unroll
    for (int i = 0; i < Tile::d_q_rows / 16; ++i) {
      const T* at = ds_smem + (key + 2 * t) * ld + row0 + 16 * i + g;
      ds_frag[i][0] = pack2(at[0], at[ld]);
      ds_frag[i][1] = pack2(at[8], at[ld + 8]);
      ds_frag[i][2] = pack2(at[8 * ld], at[9 * ld]);
      ds_frag[i][3] = pack2(at[8 * ld + 8], at[9 * ld + 8]);
    }
#pragma unroll
    for (int j = 0; j < Tile::d_q_columns / 8; ++j) {
      const T* column = k_smem + (key + 2 * t) * d + col0 + 8 * j + g;
      const std::uint32_t k_frag[2] = {pack2(column[0], column[d]),
                                       pack2(column[8 * d], column[9 * d])};
#pragma unroll
      for (int i = 0; i < Tile::d_q_rows / 16; ++i) {
        mma_m16n8k16<T>(d_q[i][j], ds_frag[i], k_frag);
      }
    }
  }
}
//! [both]

/// Dynamic shared memory of flash_backward_tensor_cores().
template <class Tile, class T>
constexpr std::size_t plain_backward_bytes() {
  return sizeof(T) * (2 * Tile::kv_size + 2 * Tile::q_size + Tile::ds_size);
}

/// dK and dV, and the sums of dQ, in 16 bits; a block has 128 keys, and the queries go by.
/// Launch: blocks of 256; grid of ceil(length_k / 128) x kv_heads x batch; plain_backward_bytes(); after preprocess()
/// with d_q_sum, and before write_d_q().
//! [tensor_cores]
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
    __syncthreads();  // the tiles are there
    const std::int64_t row = tile.head.padded_row + tile.query0;
    Scores<Tile> p = {}, d_s = {};
    multiply_rows<Tile>(p, k_smem + warp_key * d, q_smem, lane);
    multiply_rows<Tile>(d_s, v_smem + warp_key * d, d_o_smem, lane);
    apply_mask_transposed_scores<Tile>(p, a, tile.query0, key0 + warp_key,
                                       lane);
    PackedScores<Tile> p_packed, d_s_packed;
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
          const int key = warp_key + 16 * i + 8 * h + lane / 4;
          store_pair(ds_smem + key * Tile::block_m + 8 * j + lane % 4 * 2,
                     d_s_packed[i][j][h]);
        }
      }
    }
    multiply_columns<Tile>(d_v, p_packed, d_o_smem, lane);
    multiply_columns<Tile>(d_k, d_s_packed, q_smem, lane);
    __syncthreads();  // dS is there, of all warps
    QuerySums<Tile> d_q = {};
    multiply_transposed<Tile>(d_q, ds_smem, k_smem, warp, lane);
    add_d_q<Tile>(a.d_q_sum + row * d, d_q, warp, lane);
    __syncthreads();  // nobody needs the tiles any more
  }
  store_key_sums<Tile>(kv_rows(a.d_k, a.d_k_strides, batch, kv_head),
                       a.d_k_strides.row, a, d_k, a.scale, key0 + warp_key, 0,
                       lane);
  store_key_sums<Tile>(kv_rows(a.d_v, a.d_v_strides, batch, kv_head),
                       a.d_v_strides.row, a, d_v, 1.0f, key0 + warp_key, 0,
                       lane);
}
//! [tensor_cores]

}  // namespace fa::FA_TARGET
