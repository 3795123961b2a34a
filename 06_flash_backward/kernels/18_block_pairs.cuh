/// @file
/// Head dimensions from 129 to 192, and 192 columns of Q and K with 128 of V and dO, as multi-head
/// latent attention has them. Each block is one of step 16: 96 keys, dK and dV transposed, each of
/// them by one warpgroup. Two blocks with neighbouring keys are a cluster and share the work on dQ:
/// each sends its dS to the other one, computes half of the columns of dQ for the keys of both, and
/// adds them to global memory. So half as much is added as if each block computed dQ for its own
/// keys only.
///
/// Source: the authors of FlashAttention-4, its backward pass for Blackwell GPUs, for the exchange
/// of dS.
#pragma once

#include "06_flash_backward/kernels/wide_backward.cuh"
#include "common/attention/shape.hpp"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// Sizes of the kernel.
/// @tparam head_dim_v columns of V and dO: 128 or 192
template <class Type, int head_dim_v>
struct PairTile {
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
  /// Of P or dS: 96 columns fill three narrow panels.
  using ScoreTile = SwizzledTile<T, block_m, block_n, kNarrowPanelBytes>;
  /// Of the other block's K: the columns of this block's half of dQ.
  using PeerKTile = SwizzledTile<T, block_n, d / 2, kNarrowPanelBytes>;
  static constexpr int d_q_part = 64;  ///< columns of a part of dQ
};
/// The keys of a pair of blocks, which the scheduler takes together.
template <class Tile>
struct PairKeys : Tile {
  static constexpr int block_n = 2 * Tile::block_n;
};

/// Gradients with tensor maps, and a map of k for a narrow panel.
template <class T>
struct PairGradient : TmaGradient<T> {
  TensorMap peer_k;
};

/// Shared memory of a block. After the main loop, k and v stage dK and dV for the stores.
template <class Tile>
struct PairShared {
  typename Tile::KTile k;
  typename Tile::VTile v;
  typename Tile::QTile q[Tile::stages];
  typename Tile::DOTile d_o[Tile::stages];
  typename Tile::ScoreTile p;
  typename Tile::ScoreTile d_s;
  typename Tile::ScoreTile peer_d_s;
  typename Tile::PeerKTile peer_k;
  float lse[Tile::stages][Tile::block_m];
  float delta[Tile::stages][Tile::block_m];
  Pipeline<Tile::stages> q_pipe;    ///< of q and lse
  Pipeline<Tile::stages> d_o_pipe;  ///< of d_o and delta
  Mbarrier peer_d_s_full;           ///< the other block's dS has arrived
  Mbarrier d_s_read;                ///< the other block has read this dS

  /// Initializes the barriers; all threads of both blocks call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      q_pipe.init(4 * kKeyWarpgroups);  // a lane of each warp releases
      d_o_pipe.init(4 * kKeyWarpgroups);
      peer_d_s_full.init(1);
      d_s_read.init(4 * kKeyWarpgroups);
      fence_barrier_init();
    }
    cluster_arrive();
    cluster_wait();  // the barriers of both blocks are ready
  }
};

/// First column of dQ that a warpgroup of this block computes. dQ has three parts of 64 columns.
/// Warpgroup 0 computes part 0 or 1, depending on the rank; warpgroup 1 computes half of part 2.
/// @tparam warpgroup 0 or 1
/// @param  rank      of the block in its cluster
/// @return a column
template <int warpgroup>
__device__ int pair_d_q_column(int rank) {
  return warpgroup == 0 ? 64 * rank : 128 + 32 * rank;
}

/// Loads what the block needs of the other one's K.
template <class Tile, class T>
__device__ void load_peer_k(PairShared<Tile>& shared,
                            const PairGradient<T>& maps, Mbarrier& barrier,
                            const NBlock& block, int rank) {
  using PeerKTile = typename Tile::PeerKTile;
  const int key0 = block.key0 + (rank == 0 ? 1 : -1) * Tile::block_n;
#pragma unroll
  for (int panel = 0; panel < PeerKTile::panels; ++panel) {
    const int col = panel < 2 ? pair_d_q_column<0>(rank) + 32 * panel
                              : pair_d_q_column<1>(rank);
    tma_load(shared.peer_k.data + panel * PeerKTile::panel_size, maps.peer_k,
             barrier, col, key0, block.kv_head, block.batch,
             CacheHint::kEvictFirst);
  }
}

/// A warpgroup: warpgroup 0 has dV, warpgroup 1 has dK.
template <class Tile, int warpgroup>
struct PairWarpgroup {
  using T = typename Tile::T;
  /// Of 64 columns, in dV or dK.
  static constexpr int chunks =
      (warpgroup == 0 ? Tile::columns_v : Tile::d) / 64;
  /// Columns of dQ.
  static constexpr int d_q_columns = warpgroup == 0 ? 64 : 32;
  using DQ = float[d_q_columns / 2];  ///< this lane's part of them
  PairShared<Tile>* shared;
  const AttentionGradient<T>& a;
  const int rank;                           ///< of the block
  const int key0;                           ///< its first key
  float* d_q_to = nullptr;                  ///< of the previous tile
  PipelineState<2> at{};                    ///< of Q and dO
  PipelineState<1> peer_at{};               ///< of peer_d_s
  float sums[chunks][Tile::block_n / 2]{};  ///< dV^T or dK^T

  /// Issues this warpgroup's keys of a matmul of queries and keys.
  template <int r, class A, class B>
  __device__ void issue_scores(float (&s)[r], const A& rows, const B& keys) {
    wgmma_fence(s);
#pragma unroll
    for (int kk = 0; kk < A::cols; kk += 16) {
      wgmma<T>(s, rows.by_rows(0, kk),
               keys.by_rows(warpgroup * Tile::keys, kk), kk > 0);
    }
    wgmma_commit(s);
  }
  /// Issues dV^T += dO^T P, or dK^T += Q^T dS, of a tile.
  __device__ void issue_sums(int stage) {
    if constexpr (warpgroup == 0) {
      issue_sums(shared->d_o[stage], shared->p);
    } else {
      issue_sums(shared->q[stage], shared->d_s);
    }
  }
  /// The same with dO and P, or with Q and dS.
  template <class A>
  __device__ void issue_sums(const A& left,
                             const typename Tile::ScoreTile& right) {
    fence_sums();
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
#pragma unroll
      for (int kk = 0; kk < Tile::block_m; kk += 16) {
        wgmma<T>(sums[c], left.by_columns(kk, 64 * c),
                 right.by_columns(kk, 0), true);
      }
    }
    if constexpr (chunks == 2) {
      wgmma_commit(sums[0], sums[1]);
    } else {
      wgmma_commit(sums[0], sums[1], sums[2]);
    }
  }
  /// wgmma_fence() for the accumulators of dV or dK.
  __device__ void fence_sums() {
    if constexpr (chunks == 2) {
      wgmma_fence(sums[0], sums[1]);
    } else {
      wgmma_fence(sums[0], sums[1], sums[2]);
    }
  }
  /// wgmma_wait() for them.
  template <int pending>
  __device__ void wait_for_sums() {
    if constexpr (chunks == 2) {
      wgmma_wait<pending>(sums[0], sums[1]);
    } else {
      wgmma_wait<pending>(sums[0], sums[1], sums[2]);
    }
  }
  /// Issues dQ = dS K of the previous tile, for the keys of this block.
  __device__ void issue_own_d_q(DQ& d_q) {
    wgmma_fence(d_q);
#pragma unroll
    for (int kk = 0; kk < Tile::block_n; kk += 16) {
      wgmma<T>(d_q, shared->d_s.by_rows(0, kk),
               shared->k.by_columns(kk, pair_d_q_column<warpgroup>(rank)),
               kk > 0);
    }
    wgmma_commit(d_q);
  }
  /// Issues the same for the keys of the other block, when its dS has arrived.
  __device__ void issue_peer_d_q(DQ& d_q) {
    shared->peer_d_s_full.wait(peer_at.parity);
    if (exchanges()) expect_peer_d_s();
    peer_at.advance();
    wgmma_fence(d_q);
#pragma unroll
    for (int kk = 0; kk < Tile::block_n; kk += 16) {
      wgmma<T>(d_q, shared->peer_d_s.by_rows(0, kk),
               shared->peer_k.by_columns(kk, warpgroup == 0 ? 0 : 64), true);
    }
    wgmma_commit(d_q);
  }
  /// Adds the sum to d_q_accum, and tells the other block that its dS has been read.
  __device__ void add_d_q(const DQ& d_q) {
    if (threadIdx.x % kWarp == 0) shared->d_s_read.arrive_at_peer(rank ^ 1);
    for_each_four<d_q_columns / 2>([&](int place, int i) {
      atomic_add4(d_q_to + place,
                  make_float4(d_q[i], d_q[i + 1], d_q[i + 2], d_q[i + 3]));
    });
  }
  /// Whether this is the thread that sends dS to the other block.
  __device__ bool exchanges() const {
    return warpgroup == 0 && threadIdx.x % kWarpgroup == 0;
  }
  /// Arms peer_d_s_full for the next dS of the other block.
  __device__ void expect_peer_d_s() {
    shared->peer_d_s_full.arrive_and_expect(Tile::ScoreTile::bytes);
  }

  /// A tile of queries.
  /// @tparam first whether it is the first one
  template <bool first>
  __device__ void step(int query0, bool masked) {
    fence_address(shared);
    float p[Tile::keys / 2], d_s[Tile::keys / 2];
    std::uint32_t rounded_p[Tile::keys / 16][4],
        rounded_d_s[Tile::keys / 16][4];
    //! [step]
    // Previous tile: dQ = dS K, first for the keys of this block, then for
    // those of the other one; dV^T += dO^T P or dK^T += Q^T dS. This tile:
    // S = Q K^T
    DQ d_q;
    if constexpr (!first) issue_own_d_q(d_q);
    shared->q_pipe.consumer_wait(at);
    issue_scores(p, shared->q[at.stage], shared->k);
    if constexpr (!first) {
      issue_peer_d_q(d_q);
      issue_sums(at.stage ^ 1);
    }
    // P = exp(scale S - LSE), while dQ and the sums are computed
    wgmma_wait<first ? 0 : 2>(p);
    if (masked) apply_mask(p, a, query0, key0);
    recompute_prob_rows(p, row_pair(shared->lse[at.stage]).of,
                        a.scale * kLog2E);
    round_to_operand<T>(rounded_p, p);
    if constexpr (!first) {
      wgmma_wait<1>(d_q);
      add_d_q(d_q);
    }
    // dP = dO V^T
    shared->d_o_pipe.consumer_wait(at);
    issue_scores(d_s, shared->d_o[at.stage], shared->v);
    //! [step]
    if constexpr (!first) {
      wait_for_sums<1>();
      release_stage(shared->q_pipe, {at.stage ^ 1, 0});
      release_stage(shared->d_o_pipe, {at.stage ^ 1, 0});
      wait_for_warpgroups();  // both have read P and dS
    }
    store_scores(shared->p, rounded_p, warpgroup * Tile::keys);
    // dS = P * (dP - delta), elementwise
    wgmma_wait<0>(d_s);
    score_gradient_rows(d_s, p, row_pair(shared->delta[at.stage]).of);
    round_to_operand<T>(rounded_d_s, d_s);
    //! [exchange]
    if constexpr (!first) shared->d_s_read.wait(peer_at.parity ^ 1);
    store_scores(shared->d_s, rounded_d_s, warpgroup * Tile::keys);
    wait_for_d_s();
    if (exchanges()) {
      bulk_copy_to_peer(&shared->peer_d_s, &shared->d_s,
                        Tile::ScoreTile::bytes, shared->peer_d_s_full,
                        rank ^ 1);
    }
    //! [exchange]
    at.advance();
  }

  /// After the last tile: its dQ, dK and dV.
  __device__ void finish() {
    fence_address(shared);
    DQ d_q;
    issue_own_d_q(d_q);
    issue_peer_d_q(d_q);
    issue_sums(at.stage ^ 1);
    wgmma_wait<1>(d_q);
    add_d_q(d_q);
    wait_for_sums<0>();
  }

  /// All tiles of a block.
  template <class Block>
  __device__ void mainloop(const Block& block) {
    const QueryHeads heads = query_heads(a, block);
    const int per_head = block.m_blocks.max - block.m_blocks.min;
    if (per_head <= 0) return;
    if (exchanges()) expect_peer_d_s();
    int m_block = block.m_blocks.start, head = heads.first;
    const auto next = [&](auto first) {
      const int query0 = m_block * Tile::block_m;
      step<decltype(first)::value>(
          query0, visible_keys(a, query0) < block.key0 + Tile::block_n);
      d_q_to = a.d_q_accum + workspace_row(a, block, head, query0) * Tile::d +
               pair_d_q_column<warpgroup>(rank) * Tile::block_m;
      if (++m_block == block.m_blocks.max) m_block = block.m_blocks.min;
      if (m_block == block.m_blocks.start) ++head;
    };
    next(std::true_type{});
#pragma unroll 1
    for (int i = 1; i < per_head * heads.count; ++i) next(std::false_type{});
    finish();
  }

  /// Stores dV or dK through a tile that no warpgroup reads any more.
  template <class RowTile>
  __device__ void store(const TensorMap& map, float factor, RowTile& tile,
                        const NBlock& block) {
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      float scaled[Tile::block_n / 2];
#pragma unroll
      for (int i = 0; i < Tile::block_n / 2; ++i) {
        scaled[i] = factor * sums[c][i];
      }
      std::uint32_t rounded[Tile::block_n / 16][4];
      round_to_operand<T>(rounded, scaled);
      store_d_s(tile, rounded, 64 * c);
    }
    fence_async_proxy();  // TMA sees what this thread wrote
    named_barrier_wait(1 + warpgroup, kWarpgroup);
    if (threadIdx.x % kWarpgroup != 0) return;
    store_tile(map, tile, block.key0, block.kv_head, block.batch);
    bulk_commit();
    bulk_wait_read<0>();  // before the block's shared memory is freed
  }
};

/// dK, dV, and additions to d_q_accum.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_pairs(const __grid_constant__ PairGradient<T> maps,
                         const TileScheduler scheduler) {
  const AttentionGradient<T>& a = maps.a;
  // Both blocks of a pair go through the tiles of the first one, in step.
  NBlock block = spread_n_block<PairKeys<Tile>>(a, blockIdx.x / 2, scheduler);
  const int rank = cluster_rank();
  block.key0 += rank * Tile::block_n;
  auto& shared = *dynamic_shared<PairShared<Tile>>();
  shared.init();
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) {
      load_wide_queries<Tile>(shared, maps, block, Tile::PeerKTile::bytes,
                              [&](Mbarrier& barrier) {
                                load_peer_k(shared, maps, barrier, block,
                                            rank);
                              });
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  // Each warpgroup has code of its own: see with_warpgroup().
  if (warpgroup == 0) {
    PairWarpgroup<Tile, 0> mma{&shared, a, rank, block.key0};
    mma.mainloop(block);
    wait_for_warpgroups();  // both have read V
    mma.store(maps.d_v, 1, shared.v, block);
  } else {
    PairWarpgroup<Tile, 1> mma{&shared, a, rank, block.key0 + Tile::keys};
    mma.mainloop(block);
    wait_for_warpgroups();  // both have read K
    mma.store(maps.d_k, a.scale, shared.k, block);
  }
  // The shared memory of a block that has ended must not be written any more.
  cluster_arrive();
  cluster_wait();
}

/// dQ = scale d_q_accum, rounded: a warpgroup for each 64 columns.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* Tile::d / Tile::d_q_part)
    postprocess_pairs(const __grid_constant__ PairGradient<T> maps) {
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

/// Gradients with tensor maps for the kernel; as tma_gradient().
template <class Tile, class T>
PairGradient<T> pair_gradient(const AttentionGradient<T>& a) {
  return {tma_gradient<Tile>(a),
          map_of_keys(a, a.k, a.k_strides, a.head_dim, Tile::block_n,
                      kNarrowPanelBytes)};
}

/// The launch of postprocess_pairs().
template <class Tile, class T>
Launch pair_postprocess_launch(const AttentionGradient<T>& a) {
  constexpr int parts = Tile::d / Tile::d_q_part;
  return {grid_of(a, Tile::block_m),
          {kWarpgroup * parts},
          parts * sizeof(SwizzledTile<T, Tile::block_m, Tile::d_q_part>)};
}

/// Launches the step.
/// @tparam columns_v    columns of V, dO and dV in shared memory: 128 or 192
/// @param  a      with a Workspace{192}
/// @param  stream where
template <int columns_v, class T>
void launch_backward_pairs(const AttentionGradient<T>& a,
                           const Stream& stream) {
  using Tile = PairTile<T, columns_v>;
  launch(stream, preprocess_16_bit<Tile::d, T>, preprocess_launch<Tile::d>(a),
         a);
  const PairGradient<T> maps = pair_gradient<Tile>(a);
  const TileScheduler scheduler =
      n_block_scheduler<PairKeys<Tile>>(a, false, 2);
  launch(stream, flash_backward_pairs<Tile, T>,
         {{2 * grid_of_work(scheduler).x},
          {kWarpgroup * (kKeyWarpgroups + 1)},
          sizeof(PairShared<Tile>),
          Tile::stages,
          false,
          2},
         maps, scheduler);
  launch(stream, postprocess_pairs<Tile, T>, pair_postprocess_launch<Tile>(a),
         maps);
}

FA_LAUNCH_16_BIT(backward_wide, AttentionGradient, (const Stream&),
                 launch_backward_pairs, (kMlaHeadDimV), (192));

/// The step's row: see common/attention/host/step_row.cuh.
template <class Row>
auto backward_step(std::integral_constant<int, 18>, Row row) {
  return row("18_block_pairs", "pairs of blocks share dQ", half{}, bfloat16{})
      .hopper()
      .any_order()
      .head_dims(HeadDims<kTransposedColumns>{})
      .from(kWideHeads)
      .mla()
      .over_queries(PairTile<half, 192>{}, 2)
      .over_queries(PairTile<half, kMlaHeadDimV>{}, 2)
      .cluster(2)
      .memory_is("776 N", [](auto n, auto d) { return (4 * d + 8) * n; })
      .workspace([](auto&, auto d) { return Workspace{d}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_pairs<d.v>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
