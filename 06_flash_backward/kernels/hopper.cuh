/// @file
/// What rungs 08 to 12 share: a block has two warpgroups with 64 keys each, whose scores are computed turned, so
/// that P^T and dS^T are left operands of wgmma as they stand in registers; dS alone goes through shared memory.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024, section 3 and appendix B.
#pragma once

#include "06_flash_backward/kernels/02_preprocess.cuh"
#include "common/attention/warpgroup_gemm.cuh"

namespace fa::FA_TARGET {

/// Keys of a warpgroup: the rows of wgmma.
constexpr int kKeys = 64;
/// Warpgroups of a block that compute.
constexpr int kKeyWarpgroups = 2;

/// The gradients of attention with the maps of its tensors.
template <class T>
struct TmaGradient {
  TensorMap q;             ///< boxes of a tile of queries
  TensorMap d_o;           ///< boxes of a tile of queries
  TensorMap k;             ///< boxes of kKeys rows
  TensorMap v;             ///< boxes of kKeys rows
  TensorMap d_k;           ///< boxes of kKeys rows
  TensorMap d_v;           ///< boxes of kKeys rows
  TensorMap d_q;           ///< boxes of kQueries rows
  AttentionGradient<T> a;  ///< the rest
};

/// Sizes of a kernel.
/// @tparam head_dim    columns, at least those of the inputs: 64 or 128
/// @tparam queries     of a tile: 64 or 128
/// @tparam stage_count tiles of Q, and of dO, in shared memory
template <class Type, int head_dim, int queries, int stage_count>
struct HopperBackwardTile {
  using T = Type;                          ///< half or bfloat16
  static constexpr int d = head_dim;       ///< columns
  static constexpr int block_m = queries;  ///< of a tile
  static constexpr int block_n = kKeys * kKeyWarpgroups;  ///< keys of a block
  static constexpr int stages = stage_count;              ///< of Q, and of dO
  /// Of dQ a warpgroup has 64 rows, and of these so many columns.
  static constexpr int d_q_columns = block_m == 64 ? d / 2 : d;
  static constexpr int d_q_part = block_m * d / 2;  ///< elements of a part
  using QTile = SwizzledTile<T, block_m, d>;        ///< of Q or dO
  using KvTile = SwizzledTile<T, kKeys, d>;         ///< of a warpgroup
  using ScoreTile = SwizzledTile<T, block_m, block_n>;  ///< of dS
  static_assert(block_m == 64 || block_m == 128, "dQ has two equal parts");
  static_assert(kPaddedRows % block_m == 0, "whole tiles in the workspace");
};

/// The named barrier at which dS is complete; those before it are of write_gradient().
constexpr int kScoreGradientsBarrier = 1 + kKeyWarpgroups;

/// Turned scores of a warpgroup: this lane's part of 64 x block_m.
template <class Tile>
using TransposedScores = float[Tile::block_m / 2];
/// The same, rounded, as left operands of 16 queries each.
template <class Tile>
using RoundedScores = std::uint32_t[Tile::block_m / 16][4];
/// Sums of dK or dV of a warpgroup: this lane's part of 64 x d.
template <class Tile>
using KeyGradient = float[Tile::d / 2];
/// This lane's part of a warpgroup's part of dQ.
template <class Tile>
using QueryGradient = float[Tile::d_q_columns / 2];
/// A warpgroup's part of dQ, on its way to TMA.
template <class Tile>
using QueryGradientPart =
    SwizzledTile<typename Tile::T, kQueries, Tile::d_q_columns>;

/// The tiles of queries that a block of keys goes through, in each head of its group.
struct QueryTiles {
  int first;  ///< that sees one of its keys
  int end;  ///< behind the last one; no tiles where it is no more than first
  int start;  ///< with which a block begins; behind the last one comes the first
};
/// The tiles that see keys from key0 on.
template <class Tile, class T>
__device__ QueryTiles tiles_of_queries(const Attention<T>& a, int key0) {
  const int first = first_query(a, key0) / Tile::block_m;
  return {first, ceil_div(a.length_q, Tile::block_m), first};
}

/// A block's keys, and which queries see them.
struct KeyBlock {
  int key0;          ///< the first one
  int head;          ///< of K and V
  int batch;         ///< the sequence
  QueryTiles tiles;  ///< in each head of the group
};
/// A block of keys.
/// @param a     what is computed
/// @param block of the keys of a head
/// @param head  of K and V
/// @param batch the sequence
template <class Tile, class T>
__device__ KeyBlock key_block(const Attention<T>& a, int block, int head,
                              int batch) {
  const int key0 = block * Tile::block_n;
  return {key0, head, batch, tiles_of_queries<Tile>(a, key0)};
}

/// A tile's first row in the workspace.
/// @param a      what is computed
/// @param block  of keys
/// @param head   of Q
/// @param query0 the tile's first query
template <class T>
__device__ std::int64_t row_of_tile(const AttentionGradient<T>& a,
                                    const KeyBlock& block, int head,
                                    int query0) {
  return std::int64_t{block.batch * a.heads + head} * padded_rows(a) + query0;
}

/// Calls visit(head, query0) for each tile of queries that a block goes through, in order.
template <class Tile, class T, class Visit>
__device__ void for_each_tile(const Attention<T>& a, const KeyBlock& block,
                              Visit visit) {
  const int group = a.heads / a.kv_heads;
  if (block.tiles.first >= block.tiles.end) return;
  for (int i = 0; i < group; ++i) {
    int tile = block.tiles.start;
#pragma unroll 1  // registers may be few
    do {
      visit(block.head * group + i, tile * Tile::block_m);
      if (++tile == block.tiles.end) tile = block.tiles.first;
    } while (tile != block.tiles.start);
  }
}

/// Hides keys that a query does not see. Queries that are not there have no weights in any case.
/// @param s      products of keys and queries
/// @param a      what is computed
/// @param query0 the tile's first query
/// @param key0   the warpgroup's first key
template <class T, int r>
__device__ void apply_mask_transposed(float (&s)[r], const Attention<T>& a,
                                      int query0, int key0) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int key = key0 + lane_row() + 8 * h;
    const int first = key < a.length_k ? first_query(a, key) : a.length_q;
    const int unseen = first - query0 - static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
    for (int j = 0; j < r / 4; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * j + e < unseen) s[4 * j + 2 * h + e] = -INFINITY;
      }
    }
  }
}

/// S^T becomes P^T.
/// @param s          products of keys and queries; weights on return
/// @param lse_base_2 of the tile's queries, in shared memory
/// @param scale      of the scores / ln 2
//! [weights]
template <int r>
__device__ void recompute_probs(float (&s)[r], const float* lse_base_2,
                                float scale) {
#pragma unroll
  for (int j = 0; j < r / 4; ++j) {
    float lse[2];  // of two neighbouring queries
    load2(lse, lse_base_2 + 8 * j + threadIdx.x % 4 * 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[4 * j + i] = exp2_approx(s[4 * j + i] * scale - lse[i % 2]);
    }
  }
}
//! [weights]

/// dP^T becomes dS^T = P^T o (dP^T - delta).
/// @param d_p   gradients of weights; of scores on return
/// @param p     weights
/// @param delta of the tile's queries, in shared memory
//! [score_gradients]
template <int r>
__device__ void score_gradients(float (&d_p)[r], const float (&p)[r],
                                const float* delta) {
#pragma unroll
  for (int j = 0; j < r / 4; ++j) {
    float sum[2];
    load2(sum, delta + 8 * j + threadIdx.x % 4 * 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      d_p[4 * j + i] = p[4 * j + i] * (d_p[4 * j + i] - sum[i % 2]);
    }
  }
}
//! [score_gradients]

/// Writes dS^T of a warpgroup to shared memory, turned back on its way: a row for each query.
/// @param to   block_m x block_n
/// @param d_s  rounded
/// @param key  the warpgroup's first in the block
//! [store_d_s]
template <class ScoreTile, int parts>
__device__ void store_d_s(ScoreTile& to, const std::uint32_t (&d_s)[parts][4],
                          int key) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % 4;
  const int query = lane / 16 * 8 + lane % 8;
  const int col = key + 16 * warp + lane / 8 % 2 * 8;
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    stmatrix_x4_transposed(to.at(16 * i + query, col), d_s[i]);
  }
}
//! [store_d_s]

/// Begins a warpgroup's part of dQ = dS K.
/// @param d_q       the part
/// @param d_s       block_m x block_n
/// @param k         all keys of the block
/// @param warpgroup which
//! [issue_d_q]
template <class Tile>
__device__ void issue_d_q(QueryGradient<Tile>& d_q,
                          const typename Tile::ScoreTile& d_s,
                          const typename Tile::KvTile (&k)[kKeyWarpgroups],
                          int warpgroup) {
  constexpr bool by_columns = Tile::block_m == 64;
  const int row = by_columns ? 0 : 64 * warpgroup;
  const int col = by_columns ? Tile::d_q_columns * warpgroup : 0;
  wgmma_fence(d_q);
#pragma unroll
  for (int key = 0; key < Tile::block_n; key += 16) {
    wgmma<typename Tile::T>(d_q, d_s.by_rows(row, key),
                            k[key / kKeys].by_columns(key % kKeys, col),
                            key > 0);
  }
  wgmma_commit(d_q);
}
//! [issue_d_q]

/// Calls visit(at, i) for each four registers of a warpgroup's accumulator, from register i on. They have their place
/// at `at` of an array [registers / 4][thread of the warpgroup][4]: so a warp reaches 512 neighbouring bytes at once.
template <int registers, class Visit>
__device__ void for_each_four(Visit visit) {
  const int own = threadIdx.x % kWarpgroup * 4;
#pragma unroll
  for (int i = 0; i < registers; i += 4) visit(own + i * kWarpgroup, i);
}
/// Writes this lane's part of an accumulator, for load_accumulator().
/// @param to an array as for_each_four() has it, at a multiple of 16 bytes
/// @param x  the part
template <int r>
__device__ void store_accumulator(float* to, const float (&x)[r]) {
  for_each_four<r>([&](int at, int i) {
    store4(to + at, make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]));
  });
}
/// Reads what store_accumulator() wrote in a thread of the same number in its warpgroup.
/// @param x    this lane's part
/// @param from the array
template <int r>
__device__ void load_accumulator(float (&x)[r], const float* from) {
  for_each_four<r>([&](int at, int i) {
    const float4 four = load4(from + at);
    x[i] = four.x;
    x[i + 1] = four.y;
    x[i + 2] = four.z;
    x[i + 3] = four.w;
  });
}

/// Where in the workspace the sums of a warpgroup's part of dQ begin: the tiles of a head lie one after the other, each
/// with its two parts; a part lies as for_each_four() says.
/// @param a         what is computed
/// @param row       of the workspace: the tile's first
/// @param warpgroup whose part
template <class Tile, class T>
__device__ float* d_q_part(const AttentionGradient<T>& a, std::int64_t row,
                           int warpgroup) {
  return a.d_q_sum + row * Tile::d + warpgroup * Tile::d_q_part;
}

/// Rounds 64 rows, leaves them in shared memory, and has TMA write them. The threads of the warpgroup come together.
/// @param map    of the tensor: boxes of 64 rows
/// @param x      this lane's part
/// @param factor multiplies x
/// @param tile   room, on the way to TMA; a barrier has ordered all reads of it by wgmma before this call
/// @param row0   first row
/// @param head   which head
/// @param batch  which sequence
/// @param col0   first column
//! [write_gradient]
template <class RowTile, int r>
__device__ void write_gradient(const TensorMap& map, const float (&x)[r],
                               float factor, RowTile& tile, int row0,
                               int head, int batch, int col0 = 0) {
  static_assert(RowTile::rows == 64 && RowTile::cols == 2 * r,
                "a warpgroup's");
  const int lane = threadIdx.x % kWarp;
  const int row = threadIdx.x / kWarp % 4 * 16 + lane % 16;
#pragma unroll
  for (int col = 0; col < RowTile::cols; col += 16) {
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = pack2<typename RowTile::Element>(
          factor * x[col / 2 + 2 * i], factor * x[col / 2 + 2 * i + 1]);
    }
    stmatrix_x4(tile.at(row, col + lane / 16 * 8), pairs);
  }
  fence_async_proxy();  // TMA sees what this thread wrote
  named_barrier_wait(1 + threadIdx.x / kWarpgroup, kWarpgroup);
  if (threadIdx.x % kWarpgroup != 0) return;
  store_tile(map, tile, row0, head, batch, col0);
  bulk_commit();
}
//! [write_gradient]

/// What this thread wrote of dS is there for wgmma, and what the other warpgroup wrote, too.
__device__ inline void wait_for_d_s() {
  fence_async_proxy();
  named_barrier_wait(kScoreGradientsBarrier, kKeyWarpgroups * kWarpgroup);
}

/// A warpgroup writes its dK and dV, when both are done with K.
template <class Tile, class Shared, class T>
__device__ void write_key_gradients(Shared& shared,
                                    const TmaGradient<T>& maps,
                                    const KeyBlock& block,
                                    const KeyGradient<Tile>& d_k,
                                    const KeyGradient<Tile>& d_v) {
  const int warpgroup = warpgroup_index();
  const int key0 = block.key0 + warpgroup * kKeys;
  write_gradient(maps.d_v, d_v, 1, shared.v[warpgroup], key0, block.head,
                 block.batch);
  named_barrier_wait(kScoreGradientsBarrier, kKeyWarpgroups * kWarpgroup);
  write_gradient(maps.d_k, d_k, maps.a.scale, shared.k[warpgroup], key0,
                 block.head, block.batch);
  if (threadIdx.x % kWarpgroup == 0) {
    bulk_wait_read<0>();  // before the block's shared memory goes
  }
}

/// Scales and rounds the sums of dQ, and writes them where they belong: each warpgroup a part, as the registers of wgmma
/// held it. Launch: blocks of 2 x 128; grid of ceil(length_q / block_m) x heads x batch;
/// sizeof(QueryGradientPart<Tile>[2]).
/// @tparam Tile HopperBackwardTile of the kernel that summed
//! [write_d_q]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* kKeyWarpgroups)
    write_tma_d_q(const __grid_constant__ TmaGradient<T> maps) {
  auto& tiles = *dynamic_shared<QueryGradientPart<Tile>[kKeyWarpgroups]>();
  const AttentionGradient<T>& a = maps.a;
  const int warpgroup = warpgroup_index();
  const int query0 = blockIdx.x * Tile::block_m;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  QueryGradient<Tile> d_q;
  load_accumulator(d_q,
                   d_q_part<Tile>(a, head.padded_row + query0, warpgroup));
  constexpr bool by_columns = Tile::block_m == 64;
  write_gradient(maps.d_q, d_q, a.scale, tiles[warpgroup],
                 query0 + (by_columns ? 0 : kQueries * warpgroup), blockIdx.y,
                 blockIdx.z, by_columns ? Tile::d_q_columns * warpgroup : 0);
  if (threadIdx.x % kWarpgroup == 0) {
    bulk_wait_read<0>();  // before the block's shared memory goes
  }
}
//! [write_d_q]

}  // namespace fa::FA_TARGET
