/// @file
/// Warp specialization. A producer thread loads tiles of Q and dO as stages become empty; two more
/// threads add to dQ what the two MMA warpgroups send, so that no MMA warp waits for global memory.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024, appendix B.
#pragma once

#include "06_flash_backward/library/hopper_block.cuh"

namespace fa::FA_TARGET {

/// A thread that adds a warpgroup's parts of dQ to the accumulator.
template <class Tile, class T>
__device__ void accumulate_d_q(SpecializedBackwardShared<Tile>& shared,
                               const AttentionGradient<T>& a,
                               const NBlock& block, int warpgroup) {
  const int bytes = d_q_bytes<Tile>(warpgroup);
  PipelineState<1> at;
  for_each_m_block<Tile>(a, block, [&](int head, int query0) {
    const std::int64_t row = workspace_row(a, block, head, query0);
    //! [add_tile]
    shared.d_q_full[warpgroup].wait(at.parity);
    float* const to = d_q_accum_part<Tile>(a, row, warpgroup);
    bulk_add(to, shared.d_q[warpgroup], bytes);
    bulk_commit();
    bulk_wait_read<0>();
    shared.d_q_empty[warpgroup].arrive();
    at.advance();
    //! [add_tile]
  });
}

/// An MMA warpgroup and its accumulators.
template <class Tile>
struct SpecializedMmaWarpgroup {
  using T = typename Tile::T;
  static_assert(Tile::stages == 2, "as many as tiles of dS");
  SpecializedBackwardShared<Tile>& shared;
  const AttentionGradient<T>& a;
  const int warpgroup;
  const int key0;         ///< its first key
  PipelineState<2> at{};  ///< of Q, dO and dS
  KeyGradient<Tile> d_k{};
  KeyGradient<Tile> d_v{};

  /// A tile of queries, masked if some of them do not see all keys.
  __device__ void step(int query0, bool masked) {
    TransposedScores<Tile> p, d_s;  // at first S^T and dP^T
    RoundedScores<Tile> p_operand, d_s_operand;
    QueryGradient<Tile> d_q;
    // S^T = K Q^T, dP^T = V dO^T
    shared.q_pipe.consumer_wait(at);
    issue_gemm_nt(p, shared.k[warpgroup], shared.q[at.stage]);
    shared.d_o_pipe.consumer_wait(at);
    issue_gemm_nt(d_s, shared.v[warpgroup], shared.d_o[at.stage]);
    // P = exp(scale S - LSE)
    wgmma_wait<1>(p);
    if (masked) apply_mask_transposed(p, a, query0, key0);
    recompute_probs(p, shared.lse[at.stage], a.scale * kLog2E);
    // dS = P * (dP - delta), elementwise
    wgmma_wait<0>(d_s);
    score_gradients(d_s, p, shared.delta[at.stage]);
    round_to_operand<T>(p_operand, p);
    round_to_operand<T>(d_s_operand, d_s);
    // dV += P^T dO, dQ = dS K, dK += dS^T Q
    //! [order]
    store_d_s(shared.d_s[at.stage], d_s_operand, warpgroup * kKeys);
    issue_gemm_rs(d_v, p_operand, shared.d_o[at.stage]);
    wait_for_d_s();
    issue_d_q<Tile>(d_q, shared.d_s[at.stage], shared.k, warpgroup);
    wgmma_wait<1>(d_v, p_operand);
    release_stage(shared.d_o_pipe, at);
    issue_gemm_rs(d_k, d_s_operand, shared.q[at.stage]);
    wgmma_wait<1>(d_q);
    send_d_q<Tile>(shared, d_q, warpgroup, at.stage);
    wgmma_wait<0>(d_k, d_s_operand);
    release_stage(shared.q_pipe, at);
    //! [order]
    at.advance();
  }

  /// All tiles of a block.
  __device__ void mainloop(const NBlock& block) {
    for_each_m_block<Tile>(a, block, [&](int /*head*/, int query0) {
      step(query0, visible_keys(a, query0) < block.key0 + Tile::block_n);
    });
  }
};

/// dK, dV, and additions to d_q_accum. A block owns keys and loops over the queries.
/// @tparam Tile HopperBackwardTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_specialized(const __grid_constant__ TmaGradient<T> maps) {
  auto& shared = *dynamic_shared<SpecializedBackwardShared<Tile>>();
  shared.init();
  const AttentionGradient<T>& a = maps.a;
  const NBlock block = n_block<Tile>(a, blockIdx.x, blockIdx.y, blockIdx.z);
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
  SpecializedMmaWarpgroup<Tile> mma{shared, a, warpgroup,
                                    block.key0 + warpgroup * kKeys};
  mma.mainloop(block);
  epilogue<Tile>(shared, maps, block, mma.d_k, mma.d_v);
}

/// Launches the step.
/// @param a with a Workspace{d}
template <int d, class T>
void launch_backward_warp_specialized(const AttentionGradient<T>& a,
                                      const Stream& stream) {
  using Tile = HopperBackwardTileFor<T, d>;
  launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  const TmaGradient<T> maps = tma_gradient<Tile>(a);
  launch(stream, flash_backward_specialized<Tile, T>,
         {grid_of_keys(a, Tile::block_n), kWarpgroup * (kKeyWarpgroups + 1),
          sizeof(SpecializedBackwardShared<Tile>), Tile::stages},
         maps);
  launch_tma_postprocess<Tile>(maps, stream);
}

FA_LAUNCH_16_BIT(backward_steps, AttentionGradient, (const Stream&),
                 launch_backward_warp_specialized, (64), (128));

FA_STEP_ROW(backward, 9) {
  return row("09_warp_specialized", "warps that load, warps that add", half{},
             bfloat16{})
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
        launch_backward_warp_specialized<d>(a, stream);
      });
}

}  // namespace fa::FA_TARGET
