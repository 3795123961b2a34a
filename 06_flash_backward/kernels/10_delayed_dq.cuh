/// @file
/// dQ one tile later. dS of a tile goes to the other warpgroup through shared memory, and in step
/// 09 both wait for it at a barrier. Here its matmul with K is issued a tile later, together with
/// dV and dK of that tile. So the two warpgroups need not stay in step: one computes P and dS
/// while the other's matmuls run. Under the causal mask the blocks with the most queries go first.
///
/// Source: the order of the matmuls is ours.
#pragma once

#include <type_traits>

#include "06_flash_backward/kernels/09_warp_specialized.cuh"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// What a block keeps in shared memory: step 09's and a barrier for each tile of dS. When a phase
/// of it ends, both warpgroups have stored this tile and have read the other one.
template <class Tile>
struct DelayedBackwardShared : SpecializedBackwardShared<Tile> {
  Mbarrier d_s_full[2];

  /// Initializes the barriers; all threads call it.
  __device__ void init() {
    if (threadIdx.x == 0) {
      for (auto& barrier : d_s_full) barrier.init(4 * kKeyWarpgroups);
    }
    SpecializedBackwardShared<Tile>::init();
  }
};

/// Sends a warpgroup's part of dQ as in step 09.
/// @param tile in the pipeline of Q; other steps also need its parity
template <class Tile>
__device__ void send_d_q(DelayedBackwardShared<Tile>& shared,
                         QueryGradient<Tile>& d_q, int warpgroup,
                         const PipelineState<2>& tile) {
  send_d_q<Tile>(shared, d_q, warpgroup, tile.stage);
}

/// Whether a warpgroup keeps its V in registers, as the left operand of dP^T = V dO^T. With 96
/// columns there is room; with 64 or 128, ptxas would move registers to memory.
template <class Tile>
constexpr bool kKeepsV = Tile::d == 96;

/// V of a warpgroup as left operands of 16 columns each, if kKeepsV.
template <class Tile>
using LeftV = std::uint32_t[kKeepsV<Tile> ? Tile::d / 16 : 1][4];

/// Loads a tile of 64 rows as left operands of 16 columns each. All threads of the warpgroup call
/// it.
template <class Tile, int parts>
__device__ void load_left_operand(std::uint32_t (&a)[parts][4], Tile& tile) {
  static_assert(Tile::rows == 64 && Tile::cols == 16 * parts, "whole rows");
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    ldmatrix_x4(a[i], tile.at(stmatrix_row(), 16 * i + stmatrix_column()));
  }
}
/// Issues D = A B^T and closes the group: issue_gemm_nt() with A in registers.
template <class B, int r, int parts>
__device__ void issue_gemm_rs_nt(float (&d)[r], std::uint32_t (&a)[parts][4],
                                 const B& b) {
  FA_STAMP(kIssueScores, 0);  // for a timeline
  wgmma_fence(d, a);
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    wgmma<typename B::Element>(d, a[i], b.by_rows(0, 16 * i), i > 0);
  }
  wgmma_commit(d, a);
}

/// An MMA warpgroup and its accumulators: the core of steps 11, 12, 14, 15
/// and 19, of packed sequences and of functors, too.
/// @tparam Shared what the block keeps in shared memory
template <class Tile, class Shared = DelayedBackwardShared<Tile>>
struct DelayedMmaWarpgroup {
  using T = typename Tile::T;
  static_assert(Tile::stages == 2, "as many as tiles of dS");
  Shared& shared;
  /// In shared memory; step 14 gives those of a stage.
  const typename Tile::KvTile (&k)[kKeyWarpgroups];
  typename Tile::KvTile (&v)[kKeyWarpgroups];
  const AttentionGradient<T>& a;
  const int warpgroup;
  const int key0;         ///< its first key
  PipelineState<2> at{};  ///< of Q, dO and dS
  KeyGradient<Tile> d_k{};
  KeyGradient<Tile> d_v{};
  LeftV<Tile> v_operand{};

  //! [keep_v]
  /// Waits for a tile of dO. V has arrived with the block's first one.
  template <bool first>
  __device__ void wait_for_d_o() {
    shared.d_o_pipe.consumer_wait(at);
    if constexpr (first && kKeepsV<Tile>) {
      load_left_operand(v_operand, v[warpgroup]);
    }
  }
  /// Issues dP^T = V dO^T.
  __device__ void issue_d_p(TransposedScores<Tile>& d_p) {
    if constexpr (kKeepsV<Tile>) {
      issue_gemm_rs_nt(d_p, v_operand, shared.d_o[at.stage]);
    } else {
      issue_gemm_nt(d_p, v[warpgroup], shared.d_o[at.stage]);
    }
  }
  //! [keep_v]

  /// Waits until dS of the previous tile is complete, and that of the one before has been read.
  //! [wait_for_previous]
  __device__ void wait_for_previous_d_s() {
    // The previous tile has the other stage. Seen from stage 1 it was in
    // this round, with the same parity; from stage 0, in the round before.
    shared.d_s_full[at.stage ^ 1].wait(at.parity ^ at.stage ^ 1);
  }
  //! [wait_for_previous]
  /// Issues dQ = dS K of the previous tile.
  __device__ void issue_previous_d_q(QueryGradient<Tile>& d_q) {
    issue_d_q<Tile>(d_q, shared.d_s[at.stage ^ 1], k, warpgroup);
  }

  /// Sends it to the thread that adds it.
  __device__ void send_previous_d_q(QueryGradient<Tile>& d_q) {
    send_d_q(shared, d_q, warpgroup,
             PipelineState<2>{at.stage ^ 1, at.parity ^ at.stage ^ 1});
  }

  /// A tile of queries, `first` of the block or not; masked if some of them do not see all keys.
  template <bool first>
  __device__ void step(int query0, bool masked) {
    TransposedScores<Tile> p, d_s;  // at first S^T and dP^T
    RoundedScores<Tile> p_operand, d_s_operand;
    QueryGradient<Tile> d_q;  // of the previous tile
    // S^T = K Q^T, dP^T = V dO^T
    shared.q_pipe.consumer_wait(at);
    issue_gemm_nt(p, k[warpgroup], shared.q[at.stage]);
    wait_for_d_o<first>();
    issue_d_p(d_s);
    // P = exp(scale S - LSE)
    wgmma_wait<1>(p);
    if (masked) apply_mask_transposed(p, a, query0, key0);
    recompute_probs(p, shared.lse[at.stage], a.scale * kLog2E);
    // dS = P * (dP - delta), elementwise
    wgmma_wait<0>(d_s);
    score_gradients(d_s, p, shared.delta[at.stage]);
    round_to_operand<T>(d_s_operand, d_s);
    round_to_operand<T>(p_operand, p);
    // dQ = dS K of the previous tile, dV += P^T dO, dK += dS^T Q
    //! [order]
    if constexpr (!first) wait_for_previous_d_s();
    store_d_s(shared.d_s[at.stage], d_s_operand, warpgroup * kKeys);
    if constexpr (!first) issue_previous_d_q(d_q);
    issue_gemm_rs(d_v, p_operand, shared.d_o[at.stage]);
    issue_gemm_rs(d_k, d_s_operand, shared.q[at.stage]);
    if constexpr (!first) {
      wgmma_wait<2>(d_q);
      send_previous_d_q(d_q);
    }
    fence_async_proxy();  // makes dS visible to wgmma
    __syncwarp();
    if (threadIdx.x % kWarp == 0) shared.d_s_full[at.stage].arrive();
    wgmma_wait<1>(d_v, p_operand);
    release_stage(shared.d_o_pipe, at);
    wgmma_wait<0>(d_k, d_s_operand);
    release_stage(shared.q_pipe, at);
    //! [order]
    at.advance();
  }

  /// All tiles of a block, in the order in which the producer loads them and the adding warps add:
  /// see for_each_m_block().
  template <class Block>
  __device__ void mainloop(const Block& block) {
    const int heads = query_heads(a, block).count;
    const int per_head = block.m_blocks.max - block.m_blocks.min;
    if (per_head <= 0) return;
    int m_block = block.m_blocks.start;
    const auto next = [&](auto first) {
      const int query0 = m_block * Tile::block_m;
      step<decltype(first)::value>(
          query0, visible_keys(a, query0) < block.key0 + Tile::block_n);
      if (++m_block == block.m_blocks.max) m_block = block.m_blocks.min;
    };
    next(std::true_type{});
    for (int i = 1; i < per_head * heads; ++i) next(std::false_type{});
    QueryGradient<Tile> d_q;  // of the last tile
    wait_for_previous_d_s();
    issue_previous_d_q(d_q);
    wgmma_wait<0>(d_q);
    send_previous_d_q(d_q);
  }
};

/// What an MMA warpgroup does for a block of keys: all tiles of queries, then dK and dV.
template <class Tile, class Shared, class Maps>
__device__ void compute_n_block(Shared& shared, const Maps& maps,
                                const NBlock& block, int warpgroup) {
  with_warpgroup<Tile>(warpgroup, [&](auto of) {
    const int key0 = block.key0 + of * kKeys;
    DelayedMmaWarpgroup<Tile, Shared> mma{shared, shared.k, shared.v,
                                          maps.a, of,       key0};
    mma.mainloop(block);
    epilogue<Tile>(shared, maps, block, mma.d_k, mma.d_v);
  });
}

/// dK, dV, and additions to d_q_accum. A block owns keys and loops over the queries.
/// @tparam Tile HopperBackwardTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_delayed_dq(const __grid_constant__ TmaGradient<T> maps,
                              const TileScheduler scheduler) {
  const AttentionGradient<T>& a = maps.a;
  const NBlock block = longest_first_n_block<Tile>(a, blockIdx.x, scheduler);
  auto& shared = *dynamic_shared<DelayedBackwardShared<Tile>>();
  shared.init();
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    const int warp = threadIdx.x / kWarp % 4;
    if (threadIdx.x % kWarp != 0) return;
    if (warp == 0) load_queries(shared, maps, block);
    if (warp > 0 && warp <= kKeyWarpgroups) {
      accumulate_d_q(shared, a, block, warp - 1);
    }
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  compute_n_block<Tile>(shared, maps, block, warpgroup);
}

/// Launches the step.
/// @tparam d     64 or 128, at least head_dim
/// @param a      with a Workspace{d}
/// @param stream where
template <int d, class T>
void launch_backward_delayed_dq(const AttentionGradient<T>& a,
                                const Stream& stream) {
  using Tile = HopperBackwardTileFor<T, d>;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  const TileScheduler scheduler = n_block_scheduler<Tile>(a);
  launch(stream, flash_backward_delayed_dq<Tile, T>,
         {grid_of_work(scheduler),
          {kWarpgroup * (kKeyWarpgroups + 1)},
          sizeof(DelayedBackwardShared<Tile>),
          Tile::stages},
         maps, scheduler);
  launch_tma_postprocess<Tile>(maps, stream);
}

FA_LAUNCH_16_BIT(backward_steps, AttentionGradient, (const Stream&),
                 launch_backward_delayed_dq, (64), (128));

/// The step's row: see common/attention/host/step_row.cuh.
template <class Row>
auto backward_step(std::integral_constant<int, 10>, Row row) {
  return row("10_delayed_dq", "dQ one tile later", half{}, bfloat16{})
      .hopper()
      .any_order()
      .head_dims(HeadDims<64, 128>{})
      .over_queries(HopperBackwardTileFor<half, 64>{}, 2)
      .over_queries(HopperBackwardTileFor<half, 128>{}, 2)
      .timeline(HeadDims<128>{}, 256, 256)
      .memory_is("4 N D + 8 N",
                 [](auto n, auto d) { return 4 * n * d + 8 * n; })
      .workspace([](auto&, auto d) { return Workspace{d}; })
      .launch([](auto& a, auto d, auto& stream) {
        launch_backward_delayed_dq<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
