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

namespace fa::FA_TARGET {

/// Sizes of the kernel.
/// @tparam head_dim_v columns of V and dO: 128 or 192
template <class Type, int head_dim_v>
struct PairTile : TransposedTile<Type, head_dim_v> {
  using Base = TransposedTile<Type, head_dim_v>;
  /// Of P or dS: 96 columns fill three narrow panels.
  using ScoreTile =
      SwizzledTile<Type, Base::block_m, Base::block_n, kNarrowPanelBytes>;
  /// Of the other block's K: the columns of this block's half of dQ.
  using PeerKTile =
      SwizzledTile<Type, Base::block_n, Base::d / 2, kNarrowPanelBytes>;
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
  static constexpr bool has_d_v = warpgroup == 0;
  /// Columns of dQ.
  static constexpr int d_q_columns = warpgroup == 0 ? 64 : 32;
  using DQ = float[d_q_columns / 2];  ///< this lane's part of them
  PairShared<Tile>* shared;
  const AttentionGradient<T>& a;
  const int rank;                     ///< of the block
  const int key0;                     ///< its first key
  float* d_q_to = nullptr;            ///< of the previous tile
  PipelineState<2> at{};              ///< of Q and dO
  PipelineState<1> peer_at{};         ///< of peer_d_s
  TransposedSums<Tile, chunks> sums;  ///< dV^T or dK^T

  /// Issues dV^T += dO^T P, or dK^T += Q^T dS, of a tile.
  __device__ void issue_sums(int stage) {
    if constexpr (warpgroup == 0) {
      sums.issue(shared->d_o[stage], shared->p);
    } else {
      sums.issue(shared->q[stage], shared->d_s);
    }
  }
  /// Issues dQ = dS K of the previous tile, for the keys of this block.
  __device__ void issue_own_d_q(DQ& d_q) {
    issue_d_q_columns(d_q, shared->d_s, shared->k,
                      pair_d_q_column<warpgroup>(rank));
  }
  /// Issues the same for the keys of the other block, when its dS has arrived.
  __device__ void issue_peer_d_q(DQ& d_q) {
    shared->peer_d_s_full.wait(peer_at.parity);
    if (exchanges()) expect_peer_d_s();
    peer_at.advance();
    issue_d_q_columns(d_q, shared->peer_d_s, shared->peer_k,
                      warpgroup == 0 ? 0 : 64, true);
  }
  /// Adds the sum to d_q_accum, and tells the other block that its dS has been read.
  __device__ void add_d_q(const DQ& d_q) {
    if (threadIdx.x % kWarp == 0) shared->d_s_read.arrive_at_peer(rank ^ 1);
    add_accumulator(d_q_to, d_q);
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
    issue_gemm_nt(p, shared->q[at.stage], shared->k, warpgroup * Tile::keys);
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
    issue_gemm_nt(d_s, shared->d_o[at.stage], shared->v,
                  warpgroup * Tile::keys);
    //! [step]
    if constexpr (!first) {
      sums.template wait<1>();
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
    sums.template wait<0>();
  }

  /// All tiles of a block.
  template <class Block>
  __device__ void mainloop(const Block& block) {
    const auto begin = [&] {
      if (exchanges()) expect_peer_d_s();
    };
    const auto next = [&](auto first, int head, int query0, bool masked) {
      step<decltype(first)::value>(query0, masked);
      d_q_to = a.d_q_accum + workspace_row(a, block, head, query0) * Tile::d +
               pair_d_q_column<warpgroup>(rank) * Tile::block_m;
    };
    if (transposed_mainloop<Tile>(a, block, begin, next)) finish();
  }
};

/// A block: dK and dV of its keys, and additions to d_q_accum.
/// @param shared its barriers are ready
/// @param store  store(warpgroup) stores dV or dK of a PairWarpgroup
template <class Tile, class Shared, class T, class Block, class Store>
__device__ void pair_block(Shared& shared, const PairGradient<T>& maps,
                           const Block& block, int rank, Store store) {
  const AttentionGradient<T>& a = maps.a;
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
    store(mma);
  } else {
    PairWarpgroup<Tile, 1> mma{&shared, a, rank, block.key0 + Tile::keys};
    mma.mainloop(block);
    store(mma);
  }
  // The shared memory of a block that has ended must not be written any more.
  cluster_arrive();
  cluster_wait();
}
/// The kernel.
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_pairs(const __grid_constant__ PairGradient<T> maps,
                         const TileScheduler scheduler) {
  // Both blocks of a pair go through the tiles of the first one, in step.
  NBlock block =
      spread_n_block<PairKeys<Tile>>(maps.a, blockIdx.x / 2, scheduler);
  const int rank = cluster_rank();
  block.key0 += rank * Tile::block_n;
  auto& shared = *dynamic_shared<PairShared<Tile>>();
  shared.init();
  pair_block<Tile>(shared, maps, block, rank, [&](const auto& mma) {
    wait_for_warpgroups();  // both have read K and V
    if constexpr (mma.has_d_v) {
      mma.sums.store(maps.d_v, 1, shared.v, block, 0);
    } else {
      mma.sums.store(maps.d_k, maps.a.scale, shared.k, block, 1);
    }
  });
}

/// Gradients with tensor maps for the kernel; as tma_gradient().
template <class Tile, class T>
PairGradient<T> pair_gradient(const AttentionGradient<T>& a) {
  return {tma_gradient<Tile>(a),
          map_of_keys(a, a.k, a.k_strides, a.head_dim, Tile::block_n,
                      kNarrowPanelBytes)};
}

/// Launches the step.
/// @tparam columns_v columns of V, dO and dV in shared memory: 128 or 192
/// @param  a         with a Workspace{192}
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
         {2 * grid_of_work(scheduler).x, kWarpgroup * (kKeyWarpgroups + 1),
          sizeof(PairShared<Tile>), Tile::stages, false, 2},
         maps, scheduler);
  launch_postprocess_columns<Tile, T>(maps, stream);
}

FA_LAUNCH_16_BIT(backward_wide, AttentionGradient, (const Stream&),
                 launch_backward_pairs, (kMlaHeadDimV), (192));

FA_STEP_ROW(backward, 18) {
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
