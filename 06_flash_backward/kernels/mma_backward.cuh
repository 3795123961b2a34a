/// @file
/// What the tensor-core kernels for sm_80, steps 05 to 07, share: sizes of tiles, fragments of S^T
/// and dP^T, the mask, P and dS from them, the accumulator of dQ in global memory, and the loop
/// over tiles of queries.
#pragma once

#include "06_flash_backward/kernels/preprocess.cuh"
#include "common/attention/mma_tile.cuh"

namespace fa::FA_TARGET {

/// Sizes of the tensor-core kernels.
/// @tparam keys_of_warp 16 or 32
/// @tparam sharing      warps that have the same keys, and each a part of the columns of dK and dV
template <int head_dim, int queries, int warp_count, int keys_of_warp,
          int sharing = 1>
struct BackwardTile {
  static constexpr int d = head_dim;
  static constexpr int block_m = queries;
  static constexpr int warps = warp_count;
  static constexpr int threads = 32 * warps;
  static constexpr int warp_keys = keys_of_warp;
  static constexpr int block_n = warps / sharing * warp_keys;
  // S^T of a warp: accumulators of 16 keys x 8 queries.
  static constexpr int row_tiles = warp_keys / 16;
  static constexpr int query_tiles = block_m / 8;
  // dK and dV: their columns are divided among the warps that have the same keys.
  static constexpr int column_parts = sharing;
  static constexpr int columns = d / sharing;
  // Elements of Q or dO, of K or V, and of dS.
  static constexpr int q_size = block_m * d;
  static constexpr int kv_size = block_n * d;
  static constexpr int ds_size = block_n * block_m;
  // dQ, block_m x d, is divided among the warps.
  static constexpr int d_q_rows = 32;
  static constexpr int d_q_warp_rows = block_m / d_q_rows;
  static constexpr int d_q_columns = d * d_q_warp_rows / warps;
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

/// Rounds and packs the scores of queries 8 j to 8 j + 7.
template <class T, class Tile>
__device__ void pack_scores(PackedScores<Tile>& to, const Scores<Tile>& from,
                            int j) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
    to[i][j][0] = pack2<T>(from[i][j][0], from[i][j][1]);
    to[i][j][1] = pack2<T>(from[i][j][2], from[i][j][3]);
  }
}

/// Masks the keys that a query does not see.
template <class Tile, class T>
__device__ void apply_mask_transposed(Scores<Tile>& s,
                                      const AttentionGradient<T>& a,
                                      int query0, int key0, int lane) {
#pragma unroll
  for (int j = 0; j < Tile::query_tiles; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int visible =
          visible_keys(a, query0 + 8 * j + fragment_column(lane, 0) + e) -
          key0 - fragment_row(lane, 0);
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
        if (16 * i >= visible) s[i][j][e] = -INFINITY;
        if (16 * i + 8 >= visible) s[i][j][2 + e] = -INFINITY;
      }
    }
  }
}

/// P^T = exp2(scale S^T - LSE) for queries 8 j to 8 j + 7: of a row nothing but LSE is needed.
/// @param s          S^T; P^T on return
/// @param j          which eight queries
/// @param scale      of the scores / ln 2
template <class Tile>
__device__ void recompute_probs(Scores<Tile>& s, int j, float scale,
                                const float* lse_base_2, int lane) {
  float lse[2];
  load2(lse, lse_base_2 + 8 * j + fragment_column(lane, 0));
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[i][j][e] = exp2_approx(s[i][j][e] * scale - lse[e % 2]);
    }
  }
}

/// dS^T = P^T * (dP^T - delta), elementwise for queries 8 j to 8 j + 7. With dropout, dP^T is that
/// of the kept probabilities, and P^T is left as the forward pass multiplied it by V.
/// @param d_p  dP^T; dS^T on return
/// @param j    which eight queries
/// @param head batch * heads + head
template <class Tile, bool has_dropout, class T>
__device__ void score_gradients(Scores<Tile>& d_p, Scores<Tile>& p, int j,
                                const AttentionGradient<T>& a,
                                const float* delta, int head, int query0,
                                int key0, int lane) {
  const int column = 8 * j + fragment_column(lane, 0);
  float sum[2];
  load2(sum, delta + column);
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if constexpr (has_dropout) {
        const float kept =
            a.dropout.of_weight(head, query0 + column + e % 2,
                                key0 + 16 * i + fragment_row(lane, e));
        d_p[i][j][e] = p[i][j][e] * (d_p[i][j][e] * kept - sum[e % 2]);
        p[i][j][e] *= kept;
      } else {
        d_p[i][j][e] = p[i][j][e] * (d_p[i][j][e] - sum[e % 2]);
      }
    }
  }
}

/// Adds a warp's part of dQ to the accumulator in global memory, in the order of the registers: the
/// four elements of a lane are neighbours there, and so are the lanes.
template <class Tile>
__device__ void atomic_add_d_q(float* accum, const QuerySums<Tile>& d_q,
                               int warp, int lane) {
  constexpr int rows = Tile::d_q_rows / 16, columns = Tile::d_q_columns / 8;
  float* to = accum + (warp * rows * columns * kWarp + lane) * 4;
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

/// dQ = scale d_q_accum, rounded. atomic_add_d_q() left eight neighbours of a row, and of the row
/// eight below, to four lanes; here one thread has them all.
template <class Tile, class T>
__device__ void postprocess_d_q_block(const AttentionGradient<T>& a,
                                      int query0, int head_index, int batch) {
  constexpr int rows = Tile::d_q_rows / 16, columns = Tile::d_q_columns / 8;
  const int fragment = threadIdx.x / 8;  // of 16 x 8 accumulators
  const int warp = fragment / (rows * columns);
  const int row = query0 + warp % Tile::d_q_warp_rows * Tile::d_q_rows +
                  fragment / columns % rows * 16 + threadIdx.x % 8;
  const int col =
      warp / Tile::d_q_warp_rows * Tile::d_q_columns + fragment % columns * 8;
  if (col >= a.head_dim) return;
  const auto head = gradient_head(a, batch, head_index);
  const float* from = a.d_q_accum + (head.padded_row + query0) * Tile::d +
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
/// The kernel that does so for all tiles of queries.
template <class Tile, class T>
__global__ void postprocess_d_q(AttentionGradient<T> a) {
  postprocess_d_q_block<Tile>(a, blockIdx.x * Tile::block_m, blockIdx.y,
                              blockIdx.z);
}

/// The launch of postprocess_d_q().
template <class Tile, class T>
Launch postprocess_launch(const AttentionGradient<T>& a) {
  return {grid_of(a, Tile::block_m), {Tile::block_m * Tile::d / 16}};
}

/// Writes a warp's rows of dK or dV.
/// @param rows row 0 of the tensor
/// @param col0 the warp's first column
template <class Tile, class T>
__device__ void store_key_sums(T* rows, std::int64_t stride,
                               const AttentionGradient<T>& a,
                               const KeySums<Tile>& sums, float factor,
                               int key0, int col0, int lane) {
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = key0 + 16 * i + 8 * h + fragment_row(lane, 0);
      if (key >= a.length_k) continue;
      T* row = rows + key * stride;
#pragma unroll
      for (int j = 0; j < Tile::columns / 8; ++j) {
        const int col = col0 + 8 * j + fragment_column(lane, 0);
        if (col < a.head_dim) {
          store_pair(row + col, pack2<T>(factor * sums[i][j][2 * h],
                                         factor * sums[i][j][2 * h + 1]));
        }
      }
    }
  }
}

/// A tile of queries in the loop of a block of keys, which goes through all heads of its group, one
/// after the other; index is the head's in the group.
template <class T>
struct QueryTile {
  GradientHead<T> head;
  int index;
  int query0;
};
/// The first one; the last query sees every key, so every key that exists has one.
template <class Tile, class T>
__device__ QueryTile<T> first_query_tile(const AttentionGradient<T>& a,
                                         int batch, int kv_head, int key0) {
  const int group = group_size(a);
  const int query0 = first_query(a, key0) / Tile::block_m * Tile::block_m;
  return {gradient_head(a, batch, kv_head * group),
          query0 < a.length_q ? 0 : group, query0};
}
/// Whether there is such a tile.
template <class T>
__device__ bool exists(const QueryTile<T>& tile,
                       const AttentionGradient<T>& a) {
  return tile.index < group_size(a);
}
/// The next one.
template <class Tile, class T>
__device__ QueryTile<T> next_query_tile(QueryTile<T> tile,
                                        const AttentionGradient<T>& a,
                                        int batch, int kv_head, int key0) {
  tile.query0 += Tile::block_m;
  if (tile.query0 < a.length_q) return tile;
  const int group = group_size(a);
  tile.query0 = first_query(a, key0) / Tile::block_m * Tile::block_m;
  if (++tile.index < group) {
    tile.head = gradient_head(a, batch, kv_head * group + tile.index);
  }
  return tile;
}

}  // namespace fa::FA_TARGET
