/// @file
/// What rungs 09 and later share: a warpgroup has 64 queries, its scores and sums are the accumulators of wgmma, and
/// tiles lie in shared memory as TMA writes them.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024.
#pragma once

#include "common/attention/attention.cuh"
#include "common/attention/warpgroup_gemm.cuh"

namespace fa::FA_TARGET {

/// Attention with the maps of its tensors.
template <class T>
struct TmaAttention {
  TensorMap q;             ///< boxes of kQueries rows
  TensorMap k;             ///< boxes of a tile of keys
  TensorMap v;             ///< boxes of a tile of keys
  TensorMap o;             ///< boxes of kQueries rows
  Attention<T> a;          ///< the rest
  unsigned* tile_counter;  ///< of the dynamic tile scheduler, or null
};

/// Sizes of a kernel.
/// @tparam head_dim   columns, at least those of the inputs: 64, 128 or 256
/// @tparam keys       of a tile
/// @tparam warpgroups that compute, each with kQueries queries
/// @tparam stage_count tiles of K, and of V, in shared memory
/// @tparam q_stage_count tiles of Q of each warpgroup, in kernels whose blocks persist
template <class Type, int head_dim, int keys, int warpgroups, int stage_count,
          int q_stage_count = 2>
struct HopperTile {
  using T = Type;                                        ///< half or bfloat16
  static constexpr int d = head_dim;                     ///< columns
  static constexpr int block_n = keys;                   ///< of a tile
  static constexpr int consumers = warpgroups;           ///< that compute
  static constexpr int block_m = kQueries * warpgroups;  ///< of a block
  static constexpr int q_stages =
      q_stage_count;                           ///< of Q, where blocks persist
  static constexpr int stages = stage_count;   ///< of K, and of V
  using QTile = SwizzledTile<T, kQueries, d>;  ///< of a warpgroup
  using KvTile = SwizzledTile<T, block_n, d>;  ///< of a block
};

/// Scores of a warpgroup: this lane's part of 64 x block_n.
template <class Tile>
using WarpgroupScores = float[Tile::block_n / 2];
/// Sums of weighted values: this lane's part of 64 x d.
template <class Tile>
using WarpgroupOutput = float[Tile::d / 2];
/// Weights rounded to 16 bits, as left operands of 16 keys each.
template <class Tile>
using WarpgroupProbs = std::uint32_t[Tile::block_n / 16][4];

/// The two rows of a lane.
struct RowState {
  float m[2];  ///< the largest product so far
  float l[2];  ///< this lane's part of the sum of exponentials
};
/// Before the first key.
__device__ inline RowState empty_row_state() {
  return {{-INFINITY, -INFINITY}, {0, 0}};
}

/// Issues S = Q K^T for the first keys of a tile, 2 r of them.
//! [issue_qk]
template <class Q, class K, int r>
__device__ void issue_qk(float (&s)[r], const Q& q, const K& k) {
  issue_gemm_nt(s, q, k);
}
//! [issue_qk]

/// Issues O += P V for the first keys of a tile, 16 of them in each part of P.
//! [issue_pv]
template <class V, int r, int parts>
__device__ void issue_pv(float (&o)[r], std::uint32_t (&p)[parts][4],
                         const V& v) {
  issue_gemm_rs(o, p, v);
}
//! [issue_pv]

/// Hides the scores of keys that a query does not see.
/// @param s      products of queries and keys
/// @param a      what is computed
/// @param query0 the warpgroup's first query
/// @param key0   the tile's first key
template <class T, int r>
__device__ void apply_mask(float (&s)[r], const Attention<T>& a, int query0,
                           int key0) {
  const int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int seen =
        visible_keys(a, query0 + lane_row() + 8 * h) - key0 - column;
#pragma unroll
    for (int j = 0; j < r / 4; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * j + e >= seen) s[4 * j + 2 * h + e] = -INFINITY;
      }
    }
  }
}

/// Scores become weights, and the rows take them in. Only when a lane of the warp has met a larger score do the lanes of
/// its rows ask each other: the maximum of a row seldom grows once it has met a few hundred scores.
/// @tparam hidden   whether scores may be -infinity: rows of nothing else need care
/// @tparam patience a maximum that grows by no more than this, in powers of two, is not taken: weights may then be as
///                  large as 2^patience
/// @param s          products; weights on return
/// @param rows       of this lane
/// @param correction of what was summed up before, by row; if maxima were taken
/// @param scale      of the scores / ln 2
/// @return whether maxima of the warp were taken
//! [softmax]
template <bool masked, int rescale_threshold = 0, int r>
__device__ bool online_softmax(float (&s)[r], RowState& rows,
                               float (&rescale)[2], float scale) {
  float most[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float chain[4] = {s[2 * h], s[2 * h + 1], s[4 + 2 * h], s[5 + 2 * h]};
#pragma unroll
    for (int i = 4; i < r / 2; ++i) {  // four chains, not one
      chain[i % 4] = fmaxf(chain[i % 4], s[i / 2 * 4 + 2 * h + i % 2]);
    }
    most[h] = fmaxf(fmaxf(chain[0], chain[1]), fmaxf(chain[2], chain[3]));
  }
  const auto offset_of = [&](float m) {
    // -infinity - -infinity is no number: take 0 for the maximum of nothing
    return masked && m == -INFINITY ? 0.0f : __fmul_rn(m, scale);
  };
  const auto grows = [&](int h) {
    return (most[h] - rows.m[h]) * scale > rescale_threshold;
  };
  const bool rescaled = __any_sync(kAllLanes, grows(0) || grows(1));
  if (rescaled) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float m = warp_max<4>(fmaxf(rows.m[h], most[h]));
      // Both products are rounded: a maximum that stays is corrected by 1.
      rescale[h] = exp2_approx(__fmul_rn(rows.m[h], scale) - offset_of(m));
      rows.m[h] = m;
      rows.l[h] *= rescale[h];
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float offset = offset_of(rows.m[h]);
    float sums[2] = {rows.l[h], 0};
#pragma unroll
    for (int i = 0; i < r / 2; ++i) {
      float& x = s[i / 2 * 4 + 2 * h + i % 2];
      x = exp2_approx(x * scale - offset);
      sums[i % 2] += x;
    }
    rows.l[h] = sums[0] + sums[1];
  }
  return rescaled;
}
//! [softmax]

/// o *= correction.
template <int r>
__device__ void rescale_o(float (&o)[r], const float (&rescale)[2]) {
#pragma unroll
  for (int i = 0; i < r; ++i) o[i] *= rescale[i / 2 % 2];
}

/// Divides by the sums of exponentials, rounds, and writes O and LSE of a warpgroup, whose threads come together here.
/// @param maps   of the tensors
/// @param o      sums
/// @param rows   of this lane
/// @param o_smem room for 64 x d, on O's way to TMA: the warpgroup's Q, whose products this thread has waited for
/// @param query0 the warpgroup's first query
/// @param head   which head
/// @param batch  which sequence
/// @return true in one thread, which calls bulk_wait_read<0>() before o_smem is used again or the block ends
//! [write_output]
template <class Tile, class T>
__device__ bool write_output(const TmaAttention<T>& maps,
                             const WarpgroupOutput<Tile>& o, RowState rows,
                             typename Tile::QTile& o_smem, int query0,
                             int head, int batch) {
  const Attention<T>& a = maps.a;
  float* const lse =
      a.lse + (std::int64_t{batch} * a.heads + head) * a.length_q;
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float l = warp_sum<4>(rows.l[h]);
    factor[h] = l == 0 ? 0 : 1 / l;
    const int query = query0 + lane_row() + 8 * h;
    if (threadIdx.x % 4 == 0 && query < a.length_q) {
      lse[query] = log_sum(rows.m[h] * a.scale, l);
    }
  }
  const int lane = threadIdx.x % kWarp;
  const int row = threadIdx.x / kWarp % 4 * 16 + lane % 16;
  // Until here wgmma of other warps may still read these rows of Q.
  named_barrier_wait(1 + threadIdx.x / kWarpgroup, kWarpgroup);
#pragma unroll
  for (int col = 0; col < Tile::d; col += 16) {
    std::uint32_t r[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float f = factor[i % 2];
      r[i] = pack2<T>(f * o[col / 2 + 2 * i], f * o[col / 2 + 2 * i + 1]);
    }
    stmatrix_x4(o_smem.at(row, col + lane / 16 * 8), r);
  }
  fence_async_proxy();  // TMA sees what this thread wrote
  named_barrier_wait(1 + threadIdx.x / kWarpgroup, kWarpgroup);
  if (threadIdx.x % kWarpgroup != 0) return false;
  store_tile(maps.o, o_smem, query0, head, batch);
  bulk_commit();
  return true;
}
//! [write_output]

}  // namespace fa::FA_TARGET
