/// @file
/// What steps 13, 16 and 18 share, for more than 128 columns: P and dS of scores that are not
/// transposed, S = Q K^T, of which a lane needs LSE and delta of its two rows of queries only, and
/// the producer of blocks that own keys, where K and V are one tile each.
#pragma once

#include "06_flash_backward/kernels/hopper_backward.cuh"

namespace fa::FA_TARGET {

/// The head dimension from which on these steps take over.
constexpr int kWideHeads = 129;

/// The columns of kernels with dK and dV transposed.
constexpr int kTransposedColumns = 192;

/// P = exp2(scale S - LSE).
/// @param s          S; P on return
/// @param lse_base_2 of this lane's two rows
/// @param scale      of the scores / ln 2
template <int r>
__device__ void recompute_prob_rows(float (&s)[r],
                                    const float (&lse_base_2)[2],
                                    float scale) {
#pragma unroll
  for (int i = 0; i < r; ++i) {
    s[i] = exp2_approx(s[i] * scale - lse_base_2[element_row(i)]);
  }
}

/// dS = P * (dP - delta), elementwise.
/// @param d_p   dP; dS on return
/// @param p     P
/// @param delta of this lane's two rows
template <int r>
__device__ void score_gradient_rows(float (&d_p)[r], const float (&p)[r],
                                    const float (&delta)[2]) {
#pragma unroll
  for (int i = 0; i < r; ++i) {
    d_p[i] = p[i] * (d_p[i] - delta[element_row(i)]);
  }
}

/// A value of each of this lane's two rows.
struct RowPair {
  float of[2];
};
/// Reads both from a column of values, one for each row.
__device__ inline RowPair row_pair(const float* rows) {
  return {{rows[lane_row(0)], rows[lane_row(1)]}};
}

/// Stores a warpgroup's half of P or dS.
/// @param to     block_m x block_n
/// @param scores rounded
/// @param key    the warpgroup's first in the block
template <class ScoreTile, int parts>
__device__ void store_scores(ScoreTile& to,
                             const std::uint32_t (&scores)[parts][4],
                             int key) {
  const int row = stmatrix_row(), col = key + stmatrix_column();
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    stmatrix_x4(to.at(row, col + 16 * i), scores[i]);
  }
}

/// Waits for both warpgroups that issue matmuls.
__device__ inline void wait_for_warpgroups() {
  named_barrier_wait(kDSBarrier, kKeyWarpgroups * kWarpgroup);
}

/// The producer thread of a block that owns keys. K is loaded with the first tile of Q, V with the
/// first one of dO.
/// @param shared     of the block: k, v, q, d_o, lse, delta and their pipelines
/// @param maps       of the tensors
/// @param block      of keys
/// @param more_bytes that load_more loads
/// @param load_more  load_more(barrier) loads what else belongs to K
template <class Tile, class Shared, class T, class Block, class Load>
__device__ void load_wide_queries(Shared& shared, const TmaGradient<T>& maps,
                                  const Block& block, int more_bytes,
                                  Load load_more) {
  constexpr int row_bytes = Tile::block_m * int{sizeof(float)};
  const AttentionGradient<T>& a = maps.a;
  bool first = true;
  PipelineState<Tile::stages> at;
  for_each_m_block<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = workspace_row(a, block, head, query0);
    Mbarrier& q_full = shared.q_pipe.producer_acquire(
        at, (first ? shared.k.bytes + more_bytes : 0) + shared.q[0].bytes +
                row_bytes);
    if (first) {
      load_tile(shared.k, maps.k, q_full, block.key0, block.kv_head,
                block.batch, CacheHint::kEvictFirst);
      load_more(q_full);
    }
    load_tile(shared.q[at.stage], maps.q, q_full, query0, head, block.batch,
              CacheHint::kEvictLast);
    bulk_load(shared.lse[at.stage], a.lse_base_2 + row, row_bytes, q_full);
    Mbarrier& d_o_full = shared.d_o_pipe.producer_acquire(
        at, (first ? shared.v.bytes : 0) + shared.d_o[0].bytes + row_bytes);
    if (first) {
      load_tile(shared.v, maps.v, d_o_full, block.key0, block.kv_head,
                block.batch, CacheHint::kEvictFirst);
    }
    load_tile(shared.d_o[at.stage], maps.d_o, d_o_full, query0, head,
              block.batch, CacheHint::kEvictLast);
    bulk_load(shared.delta[at.stage], a.delta + row, row_bytes, d_o_full);
    first = false;
    at.advance();
  });
}
/// The same where nothing else belongs to K.
template <class Tile, class Shared, class T, class Block>
__device__ void load_wide_queries(Shared& shared, const TmaGradient<T>& maps,
                                  const Block& block) {
  load_wide_queries<Tile>(shared, maps, block, 0, [](Mbarrier&) {});
}

}  // namespace fa::FA_TARGET
