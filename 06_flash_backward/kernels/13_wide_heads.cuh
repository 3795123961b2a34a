/// @file
/// Head dimensions from 129 to 256, and 192 columns of Q and K with 128 of V and dO. dK and dV of
/// 64 keys fill the registers of a warpgroup each, so a block has no more keys than that, and twice
/// as many blocks would add to a tile of dQ that is twice as wide. Here no block adds: as in step
/// 03, dK and dV belong to blocks that own keys, and dQ to blocks that own queries. That takes
/// seven matmuls in place of five, and gives the same bits in every run. One launch has both kinds
/// of blocks.
///
/// A block that owns keys has 64 of them. One warpgroup computes P and dV, another one dS and dK; P
/// goes from the first to the second through shared memory. A block that owns queries has 64 for
/// each of two warpgroups, and S is not transposed: dS is a left operand in registers, and a lane
/// has two rows.
///
/// Source: the order of the matmuls is ours.
#pragma once

#include "06_flash_backward/kernels/wide_backward.cuh"
#include "common/attention/shape.hpp"

namespace fa::FA_TARGET {

/// Sizes of a kernel.
/// @tparam head_dim   columns, at least those of the inputs: 192 or 256
/// @tparam head_dim_v of V and dO: as many, or 128
template <class Type, int head_dim, int head_dim_v = head_dim>
struct WideTile {
  using T = Type;
  static constexpr int d = head_dim;            ///< columns of Q and K
  static constexpr int columns_v = head_dim_v;  ///< columns of V and dO
  static constexpr int block_m = kQueries;
  static constexpr int block_n = kKeys;
  static constexpr int box_keys = block_n;  ///< see TmaGradient
  static constexpr int stages = 2;          ///< of the tiles in the loop
  using QTile = SwizzledTile<T, block_m, d>;
  using DOTile = SwizzledTile<T, block_m, columns_v>;
  using KTile = SwizzledTile<T, block_n, d>;
  using VTile = SwizzledTile<T, block_n, columns_v>;
};
/// Queries of a block that owns queries: 64 for each warpgroup.
constexpr int kWideQueries = 2 * kQueries;
static_assert(kPaddedRows % kWideQueries == 0,
              "whole blocks in the workspace");

/// What a block that owns keys keeps in shared memory. In the end k and q[0] are room for dV and
/// dK.
template <class Tile>
struct WideKeysShared {
  typename Tile::KTile k;
  typename Tile::VTile v;
  typename Tile::QTile q[Tile::stages];
  typename Tile::DOTile d_o[Tile::stages];
  float p[Tile::stages]
         [Tile::block_m * Tile::block_n];  ///< see for_each_four()
  float lse[Tile::stages][Tile::block_m];
  float delta[Tile::stages][Tile::block_m];
  Pipeline<Tile::stages> q_pipe;    ///< of q and lse
  Pipeline<Tile::stages> d_o_pipe;  ///< of d_o and delta
  Mbarrier p_full[Tile::stages];    ///< P is complete

  /// Initializes the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      q_pipe.init(4 * kKeyWarpgroups);  // a lane of each warp releases
      d_o_pipe.init(4 * kKeyWarpgroups);
      for (auto& barrier : p_full) barrier.init(4);
      fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready
  }
};

/// The warpgroup that computes P and dV.
template <class Tile>
struct PdVWarpgroup {
  using T = typename Tile::T;
  WideKeysShared<Tile>& shared;
  const AttentionGradient<T>& a;
  const int key0;
  PipelineState<2> at{};             ///< of Q, dO and P
  PipelineState<2> last{};           ///< of the previous tile
  float d_v[Tile::columns_v / 2]{};  ///< this lane's part of 64 x columns_v
  RoundedScores<Tile> p_operand{};   ///< of the previous tile

  /// Sends this lane's part of P^T to the same lane of the other warpgroup. Its place is empty: Q
  /// of this stage was, and that warpgroup releases Q after it has read P.
  __device__ void send_p(const TransposedScores<Tile>& p) {
    store_accumulator(shared.p[at.stage], p);
    __syncwarp();
    if (threadIdx.x % kWarp == 0) shared.p_full[at.stage].arrive();
  }

  /// A tile of queries: P, and dV of the previous tile.
  /// @param masked whether some of its queries do not see all keys
  //! [values]
  __device__ void step(bool first, int query0, bool masked) {
    TransposedScores<Tile> p;  // at first S^T
    // dV += P^T dO of the previous tile, S^T = K Q^T
    if (!first) issue_gemm_rs(d_v, p_operand, shared.d_o[last.stage]);
    shared.q_pipe.consumer_wait(at);
    issue_gemm_nt(p, shared.k, shared.q[at.stage]);
    if (!first) {
      wgmma_wait<1>(d_v, p_operand);
      release_stage(shared.d_o_pipe, last);
    }
    // P = exp(scale S - LSE)
    wgmma_wait<0>(p);
    if (masked) apply_mask_transposed(p, a, query0, key0);
    recompute_probs(p, shared.lse[at.stage], a.scale * kLog2E);
    send_p(p);
    release_stage(shared.q_pipe, at);
    round_to_operand<T>(p_operand, p);
    shared.d_o_pipe.consumer_wait(at);
    last = at;
    at.advance();
  }
  //! [values]

  /// After the last tile: its dV.
  __device__ void finish() {
    issue_gemm_rs(d_v, p_operand, shared.d_o[last.stage]);
    wgmma_wait<0>(d_v, p_operand);
  }
};

/// The warpgroup that computes dS and dK.
template <class Tile>
struct DSdKWarpgroup {
  using T = typename Tile::T;
  WideKeysShared<Tile>& shared;
  const AttentionGradient<T>& a;
  PipelineState<2> at{};    ///< of Q, dO and P
  PipelineState<2> last{};  ///< of the previous tile
  KeyGradient<Tile> d_k{};
  RoundedScores<Tile> d_s_operand{};  ///< of the previous tile

  /// Receives this lane's part of P^T from the other warpgroup.
  __device__ void receive_p(TransposedScores<Tile>& p) {
    shared.p_full[at.stage].wait(at.parity);
    load_accumulator(p, shared.p[at.stage]);
  }

  /// A tile of queries: dS, and dK of the previous tile.
  //! [keys]
  __device__ void step(bool first, int /*query0*/, bool /*masked*/) {
    TransposedScores<Tile> p, d_s;  // d_s is dP^T at first
    // dK += dS^T Q of the previous tile, dP^T = V dO^T
    if (!first) issue_gemm_rs(d_k, d_s_operand, shared.q[last.stage]);
    shared.d_o_pipe.consumer_wait(at);
    issue_gemm_nt(d_s, shared.v, shared.d_o[at.stage]);
    if (!first) {
      wgmma_wait<1>(d_k, d_s_operand);
      release_stage(shared.q_pipe, last);
    }
    // dS = P * (dP - delta), elementwise
    wgmma_wait<0>(d_s);
    receive_p(p);
    score_gradients(d_s, p, shared.delta[at.stage]);
    __syncwarp();
    release_stage(shared.d_o_pipe, at);
    round_to_operand<T>(d_s_operand, d_s);
    shared.q_pipe.consumer_wait(at);
    last = at;
    at.advance();
  }
  //! [keys]

  /// After the last tile: its dK.
  __device__ void finish() {
    issue_gemm_rs(d_k, d_s_operand, shared.q[last.stage]);
    wgmma_wait<0>(d_k, d_s_operand);
  }
};

/// The loop of a warpgroup over the tiles of queries of a block of keys.
/// @param mma PdVWarpgroup or DSdKWarpgroup
template <class Tile, class Mma, class Block>
__device__ void wide_mainloop(Mma& mma, const Block& block) {
  const auto& a = mma.a;
  const int per_head = block.m_blocks.max - block.m_blocks.min;
  if (per_head <= 0) return;
  const int all = per_head * query_heads(a, block).count;
  int m_block = block.m_blocks.start;
#pragma unroll 1
  for (int i = 0; i < all; ++i) {
    const int query0 = m_block * Tile::block_m;
    mma.step(i == 0, query0,
             visible_keys(a, query0) < block.key0 + Tile::block_n);
    if (++m_block == block.m_blocks.max) m_block = block.m_blocks.min;
  }
  mma.finish();
}

/// Stores a warpgroup's accumulator through a tile that no other warpgroup has read: see
/// store_gradient().
template <class RowTile, int r>
__device__ void wide_epilogue(const TensorMap& map, const float (&x)[r],
                              float factor, RowTile& tile, int row0, int head,
                              int batch) {
  // All warps have read the tile.
  named_barrier_wait(1 + warpgroup_index(), kWarpgroup);
  store_gradient(map, x, factor, tile, row0, head, batch);
  if (threadIdx.x % kWarpgroup == 0) {
    bulk_wait_read<0>();  // before the block's shared memory is freed
  }
}

/// A block that owns keys: dK and dV.
template <class Tile, class T>
__device__ void wide_keys_block(const TmaGradient<T>& maps,
                                const NBlock& block) {
  auto& shared = *dynamic_shared<WideKeysShared<Tile>>();
  shared.init();
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) {
      load_wide_queries<Tile>(shared, maps, block);
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  if (warpgroup == 0) {
    PdVWarpgroup<Tile> mma{shared, maps.a, block.key0};
    wide_mainloop<Tile>(mma, block);
    wide_epilogue(maps.d_v, mma.d_v, 1, shared.k, block.key0, block.kv_head,
                  block.batch);
  } else {
    DSdKWarpgroup<Tile> mma{shared, maps.a};
    wide_mainloop<Tile>(mma, block);
    // The other warpgroup has computed all of P, so it has read all of Q.
    wide_epilogue(maps.d_k, mma.d_k, maps.a.scale, shared.q[0], block.key0,
                  block.kv_head, block.batch);
  }
}

/// What a block that owns queries keeps in shared memory. In the end q is room for dQ.
template <class Tile>
struct WideQueriesShared {
  typename Tile::QTile q[kKeyWarpgroups];
  typename Tile::DOTile d_o[kKeyWarpgroups];
  typename Tile::KTile k[Tile::stages];
  typename Tile::VTile v;
  Pipeline<Tile::stages> k_pipe;
  Pipeline<1> v_pipe;

  /// Initializes the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      k_pipe.init(4 * kKeyWarpgroups);  // a lane of each warp releases
      v_pipe.init(4 * kKeyWarpgroups);
      fence_barrier_init();
    }
    __syncthreads();  // the barriers are ready
  }
};

/// A block of queries, and the number of tiles of keys that they see.
struct MBlock {
  int query0;
  int head;
  int kv_head;
  int batch;
  int n_blocks;
};
/// The block of queries of a tile of work.
template <class Tile, class T>
__device__ MBlock wide_m_block(const Attention<T>& a, const WorkTile& work) {
  const int query0 = work.block * kWideQueries;
  return {
      query0, work.head, kv_head_of(a, work.head), work.batch,
      ceil_div(visible_keys(a, query0 + kWideQueries - 1), Tile::block_n)};
}

/// The producer thread of a block that owns queries. Q is loaded with the first tile of K, dO with
/// the first one of V.
template <class Tile, class T>
__device__ void load_wide_keys(WideQueriesShared<Tile>& shared,
                               const TmaGradient<T>& maps,
                               const MBlock& block) {
  const auto load_rows_of = [&](auto& tiles, const TensorMap& map,
                                Mbarrier& barrier) {
#pragma unroll 1  // registers are few here
    for (int i = 0; i < kKeyWarpgroups; ++i) {
      load_tile(tiles[i], map, barrier, block.query0 + i * kQueries,
                block.head, block.batch, CacheHint::kEvictFirst);
    }
  };
  PipelineState<Tile::stages> k_at;
  PipelineState<1> v_at;
#pragma unroll 1
  for (int tile = 0; tile < block.n_blocks; ++tile) {
    const int key0 = tile * Tile::block_n;
    const int tiles_of_queries = tile == 0 ? kKeyWarpgroups : 0;
    Mbarrier& k_full = shared.k_pipe.producer_acquire(
        k_at, tiles_of_queries * Tile::QTile::bytes + Tile::KTile::bytes);
    if (tile == 0) load_rows_of(shared.q, maps.q, k_full);
    load_tile(shared.k[k_at.stage], maps.k, k_full, key0, block.kv_head,
              block.batch, CacheHint::kEvictLast);
    Mbarrier& v_full = shared.v_pipe.producer_acquire(
        v_at, tiles_of_queries * Tile::DOTile::bytes + Tile::VTile::bytes);
    if (tile == 0) load_rows_of(shared.d_o, maps.d_o, v_full);
    load_tile(shared.v, maps.v, v_full, key0, block.kv_head, block.batch,
              CacheHint::kEvictLast);
    k_at.advance();
    v_at.advance();
  }
}

/// The warpgroups of a block that owns queries.
template <class Tile>
struct DQWarpgroup {
  using T = typename Tile::T;
  WideQueriesShared<Tile>& shared;
  const AttentionGradient<T>& a;
  const int warpgroup;
  const int query0;  ///< its first query
  // Of this lane's rows.
  float lse[2]{};
  float delta[2]{};
  PipelineState<Tile::stages> k_at{};
  PipelineState<Tile::stages> k_last{};  ///< of the previous tile
  PipelineState<1> v_at{};
  float d_q[Tile::d / 2]{};  ///< this lane's part of 64 x d
  // Of the previous tile.
  std::uint32_t d_s_operand[Tile::block_n / 16][4]{};

  /// Reads LSE and delta of this lane's rows.
  /// @param row of the workspace: the warpgroup's first
  __device__ void load_rows(std::int64_t row) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      lse[h] = a.lse_base_2[row + lane_row(0) + 8 * h];
      delta[h] = a.delta[row + lane_row(0) + 8 * h];
    }
  }

  /// A tile of keys: dS, and dQ of the previous tile.
  //! [queries]
  __device__ void step(int key0) {
    const bool first = key0 == 0;
    float p[Tile::block_n / 2], d_s[Tile::block_n / 2];  // at first S and dP
    // dQ += dS K of the previous tile, S = Q K^T, dP = dO V^T
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
    // P = exp(scale S - LSE)
    wgmma_wait<1>(p);
    if (visible_keys(a, query0) < key0 + Tile::block_n) {
      apply_mask(p, a, query0, key0);
    }
    recompute_prob_rows(p, lse, a.scale * kLog2E);
    // dS = P * (dP - delta), elementwise
    wgmma_wait<0>(d_s);
    release_stage(shared.v_pipe, v_at);
    score_gradient_rows(d_s, p, delta);
    round_to_operand<T>(d_s_operand, d_s);
    k_last = k_at;
    k_at.advance();
    v_at.advance();
  }
  //! [queries]

  /// Skips a tile of keys that only the other warpgroup's queries see.
  __device__ void skip() {
    shared.k_pipe.consumer_wait(k_at);
    __syncwarp();  // all lanes have seen the phase
    release_stage(shared.k_pipe, k_at);
    shared.v_pipe.consumer_wait(v_at);
    __syncwarp();
    release_stage(shared.v_pipe, v_at);
    k_at.advance();
    v_at.advance();
  }

  /// All tiles of keys of a block, which loads n_blocks of them.
  __device__ void mainloop(int n_blocks) {
    const int visible =
        ceil_div(visible_keys(a, query0 + kQueries - 1), Tile::block_n);
#pragma unroll 1
    for (int i = 0; i < visible; ++i) step(i * Tile::block_n);
    if (visible > 0) {
      issue_gemm_rs(d_q, d_s_operand, shared.k[k_last.stage]);
      wgmma_wait<0>(d_q, d_s_operand);
      release_stage(shared.k_pipe, k_last);
    }
    for (int i = visible; i < n_blocks; ++i) skip();
  }
};

/// A block that owns queries: dQ.
template <class Tile, class T>
__device__ void wide_queries_block(const TmaGradient<T>& maps,
                                   const MBlock& block) {
  auto& shared = *dynamic_shared<WideQueriesShared<Tile>>();
  shared.init();
  const AttentionGradient<T>& a = maps.a;
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) load_wide_keys(shared, maps, block);
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  const int query0 = block.query0 + warpgroup * kQueries;
  DQWarpgroup<Tile> mma{shared, a, warpgroup, query0};
  mma.load_rows(std::int64_t{block.batch * a.heads + block.head} *
                    padded_rows(a) +
                query0);
  mma.mainloop(block.n_blocks);
  wide_epilogue(maps.d_q, mma.d_q, a.scale, shared.q[warpgroup], query0,
                block.head, block.batch);
}

/// Shared memory of a block of either kind.
template <class Tile>
constexpr std::size_t kWideBytes = sizeof(WideQueriesShared<Tile>) >
                                           sizeof(WideKeysShared<Tile>)
                                       ? sizeof(WideQueriesShared<Tile>)
                                       : sizeof(WideKeysShared<Tile>);

/// The order of a launch's blocks: of queries, of keys, and whether those of keys come first.
struct WideOrder {
  TileScheduler queries;
  TileScheduler keys;
  bool keys_first;
};

/// dQ, dK and dV. The blocks of one kind follow those of the other.
/// @tparam Tile WideTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_wide(const __grid_constant__ TmaGradient<T> maps,
                        const WideOrder order) {
  const TileScheduler& front = order.keys_first ? order.keys : order.queries;
  const int index = blockIdx.x, of_front = front.total_heads * front.blocks;
  const bool behind = index >= of_front;
  const int tile_index = behind ? index - of_front : index;  // of its kind
  if (behind == order.keys_first) {
    const WorkTile work = work_tile(tile_index, order.queries);
    wide_queries_block<Tile>(maps, wide_m_block<Tile>(maps.a, work));
  } else {
    wide_keys_block<Tile>(
        maps, longest_first_n_block<Tile>(maps.a, tile_index, order.keys));
  }
}

/// The order of blocks: under the causal mask as tile_scheduler() and n_block_scheduler() have it.
/// The blocks that take longer come first, so that the short ones fill the last SMs: those of keys
/// where several heads share them.
template <class Tile, class T>
WideOrder wide_order(const AttentionGradient<T>& a) {
  const int group = group_size(a);
  const TileScheduler queries = tile_scheduler(a, kWideQueries);
  // Matmuls for 64 queries and keys: 4 in a block of keys, 3 for each of two
  // warpgroups in a block of queries.
  const bool keys_first =
      std::int64_t{4} * group * a.length_q > std::int64_t{2 * 3} * a.length_k;
  return {queries, n_block_scheduler<Tile>(a), keys_first};
}

/// Launches the step.
/// @tparam columns_v d, or 128, at least head_dim_v
/// @param  a         with a Workspace{0}
template <int d, int columns_v = d, class T>
void launch_backward_wide_heads(const AttentionGradient<T>& a,
                                const Stream& stream) {
  using Tile = WideTile<T, d, columns_v>;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  const WideOrder order = wide_order<Tile>(a);
  launch(stream, flash_backward_wide<Tile, T>,
         {grid_of_work(order.queries).x + grid_of_work(order.keys).x,
          kWarpgroup * (kKeyWarpgroups + 1), kWideBytes<Tile>, Tile::stages},
         maps, order);
}

FA_LAUNCH_16_BIT(backward_wide, AttentionGradient, (const Stream&),
                 launch_backward_wide_heads, (192), (256),
                 (kMlaHeadDim, kMlaHeadDimV));

FA_STEP_ROW(backward, 13) {
  return row("13_wide_heads", "wide heads, no accumulation of dQ", half{},
             bfloat16{})
      .hopper()
      .head_dims(HeadDims<192, 256>{})
      .from(kWideHeads)
      .mla()
      .tile(kWideQueries, kKeys, 2, 2, 192)
      .tile(kWideQueries, kKeys, 2, 2, kMlaHeadDim, kMlaHeadDimV)
      .tile(kWideQueries, kKeys, 2, 2, 256)
      .timeline(HeadDims<256>{}, 256, 256)
      .copies({"Q", "K", "dO", "V", "dQ", "dV", "dK"})
      .memory_is("8 N", [](auto n, auto) { return 8 * n; })
      .workspace([](auto&, auto) { return Workspace{0}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_wide_heads<d, d.v>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
