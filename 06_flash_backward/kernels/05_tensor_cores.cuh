/// @file
/// Five products on tensor cores. A block owns a tile of keys, a warp 16 or 32 of them; scores are computed turned,
/// S^T = K Q^T, so that the accumulators of P^T and dS^T are as they are the left operands of dV += P^T dO and
/// dK += dS^T Q. Only dS, which dQ = dS K needs from all warps, goes through shared memory.
///
/// Source: Dao et al., FlashAttention, NeurIPS 2022, algorithm 4, and Dao, FlashAttention-2, ICLR 2024, algorithm 2.
#pragma once

#include "05_flash_forward/kernels/05_tensor_cores.cuh"
#include "06_flash_backward/kernels/02_preprocess.cuh"

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
  static constexpr int d = head_dim;                     ///< columns
  static constexpr int block_m = queries;                ///< of a tile
  static constexpr int warps = warp_count;               ///< of a block
  static constexpr int threads = 32 * warps;             ///< of a block
  static constexpr int warp_keys = keys_of_warp;         ///< of a warp
  static constexpr int row_tiles = warp_keys / 16;       ///< of a warp
  static constexpr int query_tiles = block_m / 8;        ///< of S^T
  static constexpr int column_parts = sharing;           ///< of dK and dV
  static constexpr int columns = d / sharing;            ///< of a part
  static constexpr int block_n = warps / sharing * warp_keys;  ///< keys
  static constexpr int q_size = block_m * d;    ///< elements of Q or dO
  static constexpr int kv_size = block_n * d;   ///< elements of K or V
  static constexpr int ds_size = block_n * block_m;  ///< elements of dS
  // dQ, block_m x d, is shared out among the warps.
  static constexpr int d_q_rows = 32;  ///< of a warp
  static constexpr int d_q_warp_rows = block_m / d_q_rows;  ///< warps
  static constexpr int d_q_columns = d * d_q_warp_rows / warps;  ///< of a warp
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

/// Rounds scores and packs them.
template <class T, class Tile>
__device__ void pack_scores(PackedScores<Tile>& to,
                            const Scores<Tile>& from) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::query_tiles; ++j) {
      to[i][j][0] = pack2<T>(from[i][j][0], from[i][j][1]);
      to[i][j][1] = pack2<T>(from[i][j][2], from[i][j][3]);
    }
  }
}

/// Hides scores of keys that a query does not see.
/// @param s      products of keys and queries
/// @param a      what is computed
/// @param query0 the tile's first query
/// @param key0   the warp's first key
/// @param lane   in the warp
template <class Tile, class T>
__device__ void hide_turned_scores(Scores<Tile>& s,
                                   const AttentionGradient<T>& a, int query0,
                                   int key0, int lane) {
#pragma unroll
  for (int j = 0; j < Tile::query_tiles; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int seen =
          keys_seen(a, query0 + 8 * j + lane % 4 * 2 + e) - key0 - lane / 4;
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
__device__ void recompute_weights(Scores<Tile>& s, int j, float scale,
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

/// Eight queries' part of dP^T becomes dS^T = P^T o (dP^T - delta).
//! [score_gradients]
template <class Tile>
__device__ void score_gradients(Scores<Tile>& d_p, const Scores<Tile>& p,
                                int j, const float* delta, int lane) {
  float sum[2];
  load2(sum, delta + 8 * j + lane % 4 * 2);
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      d_p[i][j][e] = p[i][j][e] * (d_p[i][j][e] - sum[e % 2]);
    }
  }
}
//! [score_gradients]

/// The same with dropout: dropped weights pass no gradient on, and those that are kept were multiplied. On return p
/// is what O was made of.
template <class Tile, class T>
__device__ void score_gradients_with_dropout(Scores<Tile>& d_p,
                                             Scores<Tile>& p,
                                             const AttentionGradient<T>& a,
                                             const float* delta, int head,
                                             int query0, int key0, int lane) {
#pragma unroll
  for (int j = 0; j < Tile::query_tiles; ++j) {
    float sum[2];
    load2(sum, delta + 8 * j + lane % 4 * 2);
#pragma unroll
    for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = query0 + 8 * j + lane % 4 * 2 + e % 2;
        const int key = key0 + 16 * i + 8 * (e / 2) + lane / 4;
        const float kept = a.dropout.of_weight(head, query, key);
        d_p[i][j][e] = p[i][j][e] * (d_p[i][j][e] * kept - sum[e % 2]);
        p[i][j][e] *= kept;
      }
    }
  }
}

/// Adds a warp's part of dQ to the sums in global memory, in the order of the registers: four numbers of a lane are
/// neighbours there, and so are the lanes.
/// @param sums of the tile's queries
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
  const int col = warp / Tile::d_q_warp_rows * Tile::d_q_columns +
                  number % columns * 8;
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
/// The first one. There is none when no query sees the keys.
template <class Tile, class T>
__device__ QueryTile<T> first_query_tile(const AttentionGradient<T>& a,
                                         int batch, int kv_head, int key0) {
  const int group = a.heads / a.kv_heads;
  const int query0 =
      first_query(a, key0) / Tile::block_m * Tile::block_m;
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
using PlainBackwardTile = BackwardTile<d, 32, 4, 16>;

}  // namespace fa::FA_TARGET
