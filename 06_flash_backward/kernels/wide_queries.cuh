/// @file
/// Rung 13, dQ: a block has 128 queries, 64 for each of two warpgroups, and lets the keys go by. Scores are not turned:
/// dS is a left operand as it stands in registers, and a lane has two rows.
#pragma once

#include "06_flash_backward/kernels/wide_keys.cuh"

namespace fa::FA_TARGET {

/// What a block that owns queries keeps in shared memory.
template <class Tile>
struct WideQueriesShared {
  typename Tile::QTile q[kKeyWarpgroups];    ///< at the end dQ
  typename Tile::QTile d_o[kKeyWarpgroups];  ///< of each warpgroup
  typename Tile::KvTile k[Tile::stages];     ///< tiles of keys
  typename Tile::KvTile v;                   ///< their V
  Pipeline<Tile::stages> k_pipe;             ///< of k
  Pipeline<1> v_pipe;                        ///< of v

  /// Initialises the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      k_pipe.init(4 * kKeyWarpgroups);  // a lane of each warp frees
      v_pipe.init(4 * kKeyWarpgroups);
      fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready
  }
};

/// A block's queries.
struct QueryBlock {
  int query0;   ///< the first one
  int head;     ///< of Q
  int kv_head;  ///< of K and V
  int batch;    ///< the sequence
  int tiles;    ///< of keys that one of its queries sees
};
/// A block of queries.
/// @param a    what is computed
/// @param work which
template <class Tile, class T>
__device__ QueryBlock query_block(const Attention<T>& a,
                                  const WorkTile& work) {
  const int query0 = work.block * kWideQueries;
  return {
      query0, work.head, work.head / (a.heads / a.kv_heads), work.batch,
      ceil_div(visible_keys(a, query0 + kWideQueries - 1), Tile::block_n)};
}

/// What the thread that fetches does. Q comes with the first tile of K, dO with the first one of V.
/// @param shared the block's
/// @param maps   of the tensors
/// @param block  of queries
//! [load_keys]
template <class Tile, class T>
__device__ void load_keys(WideQueriesShared<Tile>& shared,
                          const TmaGradient<T>& maps,
                          const QueryBlock& block) {
  int queries_bytes = kKeyWarpgroups * Tile::QTile::bytes;  // then 0
  const auto fetch_queries_of = [&](auto& tiles, const TensorMap& map,
                                    Mbarrier& barrier) {
    if (queries_bytes == 0) return;
#pragma unroll 1  // registers are few here
    for (int i = 0; i < kKeyWarpgroups; ++i) {
      load_tile(tiles[i], map, barrier, block.query0 + i * kQueries,
                block.head, block.batch, CacheHint::kEvictFirst);
    }
  };
  PipelineState<Tile::stages> k_at;
  PipelineState<1> v_at;
#pragma unroll 1
  for (int tile = 0; tile < block.tiles; ++tile) {
    const int key0 = tile * Tile::block_n;
    const int bytes = queries_bytes + Tile::KvTile::bytes;
    Mbarrier& k_full = shared.k_pipe.producer_acquire(k_at, bytes);
    fetch_queries_of(shared.q, maps.q, k_full);
    load_tile(shared.k[k_at.stage], maps.k, k_full, key0, block.kv_head,
              block.batch, CacheHint::kEvictLast);
    Mbarrier& v_full = shared.v_pipe.producer_acquire(v_at, bytes);
    fetch_queries_of(shared.d_o, maps.d_o, v_full);
    load_tile(shared.v, maps.v, v_full, key0, block.kv_head, block.batch,
              CacheHint::kEvictLast);
    queries_bytes = 0;
    k_at.advance();
    v_at.advance();
  }
}
//! [load_keys]

/// Scores become weights.
/// @param s          products of queries and keys; weights on return
/// @param lse_base_2 of this lane's two rows
/// @param scale      of the scores / ln 2
template <int r>
__device__ void recompute_weights_of_rows(float (&s)[r],
                                          const float (&lse_base_2)[2],
                                          float scale) {
#pragma unroll
  for (int i = 0; i < r; ++i) {
    s[i] = exp2_approx(s[i] * scale - lse_base_2[i / 2 % 2]);
  }
}

/// dP becomes dS = P o (dP - delta).
/// @param d_p   gradients of weights; of scores on return
/// @param p     weights
/// @param delta of this lane's two rows
template <int r>
__device__ void score_gradients_of_rows(float (&d_p)[r], const float (&p)[r],
                                        const float (&delta)[2]) {
#pragma unroll
  for (int i = 0; i < r; ++i) d_p[i] = p[i] * (d_p[i] - delta[i / 2 % 2]);
}

/// A warpgroup of a block that owns queries.
template <class Tile>
struct WideQueries {
  using T = typename Tile::T;            ///< half or bfloat16
  WideQueriesShared<Tile>& shared;       ///< the block's
  const AttentionGradient<T>& a;         ///< what is computed
  const int warpgroup;                   ///< which
  const int query0;                      ///< its first query
  float lse[2]{};                        ///< of this lane's rows, in base 2
  float delta[2]{};                      ///< of this lane's rows
  PipelineState<Tile::stages> k_at{};    ///< where the ring of K stands
  PipelineState<Tile::stages> k_last{};  ///< where it stood a tile before
  PipelineState<1> v_at{};               ///< where the ring of V stands
  KeyGradient<Tile> d_q{};               ///< sums of its queries
  RoundedScores<Tile> d_s_operand{};     ///< of the tile before

  /// Reads LSE and delta of this lane's rows.
  /// @param row of the workspace: the warpgroup's first
  __device__ void load_rows(std::int64_t row) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      lse[h] = a.lse_base_2[row + lane_row() + 8 * h];
      delta[h] = a.delta[row + lane_row() + 8 * h];
    }
  }

  /// A tile of keys: dQ of the one before it, and dS of this one.
  /// @param key0 the tile's first key
  //! [queries]
  __device__ void step(int key0) {
    const bool first = key0 == 0;
    TransposedScores<Tile> p, d_s;  // at first S and dP, not turned here
    if (!first) {
      issue_gemm_rs(d_q, d_s_operand, shared.k[k_last.stage]);
    }
    shared.k_pipe.consumer_wait(k_at);
    issue_gemm_nt(p, shared.q[warpgroup], shared.k[k_at.stage]);
    shared.v_pipe.consumer_wait(v_at);
    issue_gemm_nt(d_s, shared.d_o[warpgroup], shared.v);
    if (!first) {
      wgmma_wait<2>(d_q, d_s_operand);
      release_stage(shared.k_pipe, k_last);
    }
    wgmma_wait<1>(p);
    if (visible_keys(a, query0) < key0 + Tile::block_n) {
      apply_mask(p, a, query0, key0);
    }
    recompute_weights_of_rows(p, lse, a.scale * kLog2E);
    wgmma_wait<0>(d_s);
    release_stage(shared.v_pipe, v_at);
    score_gradients_of_rows(d_s, p, delta);
    round_to_operand<T>(d_s_operand, d_s);
    k_last = k_at;
    k_at.advance();
    v_at.advance();
  }
  //! [queries]

  /// A tile of keys that the other warpgroup alone sees.
  __device__ void leave_out() {
    shared.k_pipe.consumer_wait(k_at);
    release_stage(shared.k_pipe, k_at);
    shared.v_pipe.consumer_wait(v_at);
    release_stage(shared.v_pipe, v_at);
    k_at.advance();
    v_at.advance();
  }

  /// All tiles of keys of a block.
  /// @param tiles that come
  //! [run]
  __device__ void run(int tiles) {
    const int seen =
        ceil_div(visible_keys(a, query0 + kQueries - 1), Tile::block_n);
#pragma unroll 1
    for (int i = 0; i < seen; ++i) step(i * Tile::block_n);
    if (seen > 0) {
      issue_gemm_rs(d_q, d_s_operand, shared.k[k_last.stage]);
      wgmma_wait<0>(d_q, d_s_operand);
      release_stage(shared.k_pipe, k_last);
    }
    for (int i = seen; i < tiles; ++i) leave_out();
  }
  //! [run]
};

/// What a block that owns queries does: dQ.
/// @param maps  of the tensors
/// @param block of queries
//! [wide_queries]
template <class Tile, class T>
__device__ void wide_queries_block(const TmaGradient<T>& maps,
                                   const QueryBlock& block) {
  auto& shared = *dynamic_shared<WideQueriesShared<Tile>>();
  shared.init();
  const AttentionGradient<T>& a = maps.a;
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) load_keys(shared, maps, block);
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  const int query0 = block.query0 + warpgroup * kQueries;
  WideQueries<Tile> sums{shared, a, warpgroup, query0};
  sums.load_rows(std::int64_t{block.batch * a.heads + block.head} *
                     padded_rows(a) +
                 query0);
  sums.run(block.tiles);
  write_sums(maps.d_q, sums.d_q, a.scale, shared.q[warpgroup], query0,
             block.head, block.batch);
}
//! [wide_queries]

}  // namespace fa::FA_TARGET
