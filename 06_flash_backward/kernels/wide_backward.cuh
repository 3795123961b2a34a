/// @file
/// What steps 13, 16, 18 and 20 share, for more than 128 columns: P and dS of scores that are not
/// transposed, S = Q K^T, of which a lane needs LSE and delta of its two rows of queries only; the
/// producer of blocks that own keys, where K and V are one tile each; and dK and dV transposed.
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
/// @param to  block_m x block_n
/// @param key the warpgroup's first in the block
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

/// Rounds 64 columns of dV^T or dK^T, multiplied by the factor, and writes them to a tile with a row
/// for each key.
template <class Tile, class RowTile, int r>
__device__ void store_transposed_chunk(RowTile& tile, const float (&sums)[r],
                                       float factor, int col) {
  float scaled[r];
#pragma unroll
  for (int i = 0; i < r; ++i) scaled[i] = factor * sums[i];
  std::uint32_t rounded[r / 8][4];
  round_to_operand<typename Tile::T>(rounded, scaled);
  store_d_s(tile, rounded, col);
}

/// Waits for both warpgroups that issue matmuls.
__device__ inline void wait_for_warpgroups() {
  named_barrier_wait(kDSBarrier, kKeyWarpgroups * kWarpgroup);
}

/// The producer thread of a block that owns keys. K is loaded with the first tile of Q, V with the
/// first one of dO.
/// @param shared     of the block: k, v, q, d_o, lse, delta and their pipelines
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

/// Sizes of the kernels with dK and dV transposed.
/// @tparam head_dim_v columns of V and dO: 128 or 192
template <class Type, int head_dim_v = kTransposedColumns>
struct TransposedTile {
  using T = Type;
  static constexpr int d = kTransposedColumns;  ///< columns of Q and K
  static constexpr int columns_v = head_dim_v;  ///< columns of V and dO
  static constexpr int block_m = kQueries;
  static constexpr int block_n = 96;
  static constexpr int box_keys = block_n;  ///< see TmaGradient
  static constexpr int stages = 2;
  static constexpr int keys = block_n / kKeyWarpgroups;  ///< of a warpgroup
  using QTile = SwizzledTile<T, block_m, d>;
  using DOTile = SwizzledTile<T, block_m, columns_v>;
  using KTile = SwizzledTile<T, block_n, d>;
  using VTile = SwizzledTile<T, block_n, columns_v>;
  using ScoreTile = SwizzledTile<T, block_m, block_n>;  ///< of P or dS
  static constexpr int d_q_part = 64;  ///< columns of a part of dQ
};

/// dV^T or dK^T: accumulators of 64 columns and all keys of a block.
/// @tparam chunks of 64 columns: 2 or 3
template <class Tile, int chunks>
struct TransposedSums {
  float of[chunks][Tile::block_n / 2]{};

  /// Calls work(all accumulators).
  template <class Work>
  __device__ void with_all(Work work) {
    if constexpr (chunks == 2) {
      work(of[0], of[1]);
    } else {
      work(of[0], of[1], of[2]);
    }
  }
  /// Issues dV^T += dO^T P, or dK^T += Q^T dS, of a tile.
  //! [issue_sums]
  template <class A>
  __device__ void issue(const A& left,
                        const typename Tile::ScoreTile& right) {
    with_all([](auto&... sums) { wgmma_fence(sums...); });
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
#pragma unroll
      for (int kk = 0; kk < Tile::block_m; kk += 16) {
        wgmma<typename Tile::T>(of[c], left.by_columns(kk, 64 * c),
                                right.by_columns(kk, 0), true);
      }
    }
    with_all([](auto&... sums) { wgmma_commit(sums...); });
  }
  //! [issue_sums]
  /// wgmma_wait() for them.
  template <int pending>
  __device__ void wait() {
    with_all([](auto&... sums) { wgmma_wait<pending>(sums...); });
  }

  /// Stores them through a tile that no warpgroup reads any more. All threads of the warpgroup call
  /// it.
  template <class RowTile>
  __device__ void store(const TensorMap& map, float factor, RowTile& tile,
                        const NBlock& block, int warpgroup) const {
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      store_transposed_chunk<Tile>(tile, of[c], factor, 64 * c);
    }
    fence_async_proxy();  // TMA sees what this thread wrote
    named_barrier_wait(1 + warpgroup, kWarpgroup);
    if (threadIdx.x % kWarpgroup != 0) return;
    store_tile(map, tile, block.key0, block.kv_head, block.batch);
    bulk_commit();
    bulk_wait_read<0>();  // before the block's shared memory is freed
  }
};

/// Issues some columns of dQ = dS K, or of dQ += dS K, and closes the group.
template <int r, class A, class B>
__device__ void issue_d_q_columns(float (&d_q)[r], const A& d_s, const B& k,
                                  int col, bool adds = false) {
  FA_STAMP(kIssueByColumns, 0);  // for a timeline
  wgmma_fence(d_q);
#pragma unroll
  for (int kk = 0; kk < A::cols; kk += 16) {
    wgmma<typename A::Element>(d_q, d_s.by_rows(0, kk), k.by_columns(kk, col),
                               adds || kk > 0);
  }
  wgmma_commit(d_q);
}

/// Calls begin(), and step(first, head, query0, masked) for each tile of queries of a block of keys.
/// The first tile has code of its own: `first` is std::true_type or std::false_type.
/// @return whether there is a tile
template <class Tile, class T, class Block, class Begin, class Step>
__device__ bool transposed_mainloop(const AttentionGradient<T>& a,
                                    const Block& block, Begin begin,
                                    Step step) {
  const QueryHeads heads = query_heads(a, block);
  const int per_head = block.m_blocks.max - block.m_blocks.min;
  if (per_head <= 0) return false;
  begin();
  int m_block = block.m_blocks.start, head = heads.first;
  const auto next = [&](auto first) {
    const int query0 = m_block * Tile::block_m;
    step(first, head, query0,
         visible_keys(a, query0) < block.key0 + Tile::block_n);
    if (++m_block == block.m_blocks.max) m_block = block.m_blocks.min;
    if (m_block == block.m_blocks.start) ++head;
  };
  next(std::true_type{});
#pragma unroll 1
  for (int i = 1; i < per_head * heads.count; ++i) next(std::false_type{});
  return true;
}

/// dQ = scale d_q_accum, rounded: a warpgroup for each 64 columns.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* Tile::d / Tile::d_q_part)
    postprocess_columns(const __grid_constant__ TmaGradient<T> maps) {
  using PartTile = SwizzledTile<T, Tile::block_m, Tile::d_q_part>;
  auto& tiles = *dynamic_shared<PartTile[Tile::d / Tile::d_q_part]>();
  const AttentionGradient<T>& a = maps.a;
  const int part = warpgroup_index(), col = part * Tile::d_q_part;
  const int query0 = blockIdx.x * Tile::block_m;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  float x[Tile::d_q_part / 2];
  load_accumulator(x, a.d_q_accum + (head.padded_row + query0) * Tile::d +
                          col * Tile::block_m);
  store_gradient(maps.d_q, x, a.scale, tiles[part], query0, blockIdx.y,
                 blockIdx.z, col);
  if (threadIdx.x % kWarpgroup == 0) {
    bulk_wait_read<0>();  // before the block's shared memory is freed
  }
}
/// Launches it.
template <class Tile, class T>
void launch_postprocess_columns(const TmaGradient<T>& maps,
                                const Stream& stream) {
  constexpr int parts = Tile::d / Tile::d_q_part;
  launch(stream, postprocess_columns<Tile, T>,
         {grid_of(maps.a, Tile::block_m), kWarpgroup * parts,
          parts * sizeof(SwizzledTile<T, Tile::block_m, Tile::d_q_part>)},
         maps);
}

}  // namespace fa::FA_TARGET
