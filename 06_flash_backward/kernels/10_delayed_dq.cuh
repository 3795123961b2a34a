/// @file
/// dQ a tile later. dS of a tile is handed to the other warpgroup through shared memory; nobody waits for it there and
/// then: its product with K is begun a tile later, together with dV and dK of that tile. The two warpgroups need no
/// longer go in step, so that one computes weights while the other's products run. Under the causal mask the blocks
/// with the most queries go first.
///
/// Source: the order of products is ours.
#pragma once

#include "06_flash_backward/kernels/09_warp_specialized.cuh"
#include "common/attention/tile_scheduler.cuh"

namespace fa::FA_TARGET {

/// A warpgroup that computes, and what it has in its registers.
template <class Tile>
struct DelayedMmaWarpgroup {
  using T = typename Tile::T;  ///< half or bfloat16
  static_assert(Tile::stages == 2, "as there are of dS");
  BackwardShared<Tile>& shared;   ///< the block's
  const AttentionGradient<T>& a;  ///< what is computed
  const int warpgroup;            ///< which
  const int key0;                 ///< its first key
  PipelineState<2> at{};          ///< of Q, dO and dS
  KeyGradient<Tile> d_k{};        ///< sums of its keys
  KeyGradient<Tile> d_v{};        ///< likewise

  /// Waits until dS of the tile before is there, and nobody reads the one before that any more.
  __device__ void wait_for_previous_d_s() {
    shared.d_s_full[at.stage ^ 1].wait(at.parity ^ at.stage ^ 1);
  }
  /// Begins this warpgroup's part of dQ of the tile before.
  __device__ void issue_previous_d_q(QueryGradient<Tile>& d_q) {
    issue_d_q<Tile>(d_q, shared.d_s[at.stage ^ 1], shared.k, warpgroup);
  }

  /// A tile of queries.
  /// @tparam first  whether none was before it
  /// @param  query0 the tile's first query
  /// @param  hidden whether there is something to hide
  //! [step]
  template <bool first>
  __device__ void step(int query0, bool masked) {
    TransposedScores<Tile> p, d_s;  // at first S and dP, turned
    RoundedScores<Tile> p_operand, d_s_operand;
    QueryGradient<Tile> d_q;  // of the tile before
    shared.q_pipe.consumer_wait(at);
    issue_gemm_nt(p, shared.k[warpgroup], shared.q[at.stage]);
    shared.d_o_pipe.consumer_wait(at);
    issue_gemm_nt(d_s, shared.v[warpgroup], shared.d_o[at.stage]);
    wgmma_wait<1>(p);
    if (masked) apply_mask_transposed(p, a, query0, key0);
    recompute_probs(p, shared.lse[at.stage], a.scale * kLog2E);
    wgmma_wait<0>(d_s);
    score_gradients(d_s, p, shared.delta[at.stage]);
    round_to_operand<T>(d_s_operand, d_s);
    round_to_operand<T>(p_operand, p);
    //! [order]
    if constexpr (!first) wait_for_previous_d_s();
    store_d_s(shared.d_s[at.stage], d_s_operand, warpgroup * kKeys);
    if constexpr (!first) issue_previous_d_q(d_q);
    issue_gemm_rs(d_v, p_operand, shared.d_o[at.stage]);
    issue_gemm_rs(d_k, d_s_operand, shared.q[at.stage]);
    if constexpr (!first) {
      wgmma_wait<2>(d_q);
      hand_over(shared, d_q, warpgroup, at.stage ^ 1);
    }
    fence_async_proxy();  // wgmma sees what this thread wrote of dS
    __syncwarp();
    if (threadIdx.x % kWarp == 0) shared.d_s_full[at.stage].arrive();
    wgmma_wait<1>(d_v, p_operand);
    release_stage(shared.d_o_pipe, at);
    wgmma_wait<0>(d_k, d_s_operand);
    release_stage(shared.q_pipe, at);
    //! [order]
    at.advance();
  }
  //! [step]

  /// All tiles of a block.
  __device__ void run(const KeyBlock& block) {
    const int group = a.heads / a.kv_heads;
    const int per_head = block.tiles.end - block.tiles.first;
    if (per_head <= 0) return;
    int tile = block.tiles.start;
    const auto next = [&](auto first) {
      const int query0 = tile * Tile::block_m;
      step<decltype(first)::value>(
          query0, visible_keys(a, query0) < block.key0 + Tile::block_n);
      if (++tile == block.tiles.end) tile = block.tiles.first;
    };
    next(std::true_type{});
    for (int i = 1; i < per_head * group; ++i) next(std::false_type{});
    QueryGradient<Tile> d_q;  // of the last tile
    wait_for_previous_d_s();
    issue_previous_d_q(d_q);
    wgmma_wait<0>(d_q);
    hand_over(shared, d_q, warpgroup, at.stage ^ 1);
  }
};

/// A block of keys in an order in which those with the most queries come first.
/// @param a      what is computed
/// @param ticket number in that order
/// @param scheduler  of blocks of keys
//! [most_queries_first]
template <class Tile, class T>
__device__ KeyBlock ordered_key_block(const Attention<T>& a, int tile_index,
                                      const TileScheduler& scheduler) {
  const WorkTile work = work_tile(tile_index, scheduler);
  // Of queries the last block has the most keys; of keys the first one has the most queries.
  const int index = scheduler.heads_in_l2 == 0
                        ? work.block
                        : scheduler.blocks - 1 - work.block;
  return key_block<Tile>(a, index, work.head, work.batch);
}
//! [most_queries_first]

/// What a block does.
/// @param maps  of the tensors
/// @param block of keys
/// @param add   add(shared, warpgroup) adds what that one hands over
template <class Tile, class T, class Add>
__device__ void delayed_block(const TmaGradient<T>& maps,
                              const KeyBlock& block, Add add) {
  auto& shared = *dynamic_shared<BackwardShared<Tile>>();
  shared.init();
  const int warpgroup = warpgroup_index();
  if (warpgroup == kKeyWarpgroups) {
    setmaxnreg_dec<kBackwardProducerRegisters<Tile>>();
    serve(shared, maps, block, [&](int of) { add(shared, of); });
    return;
  }
  setmaxnreg_inc<kBackwardConsumerRegisters<Tile>>();
  DelayedMmaWarpgroup<Tile> consumer{shared, maps.a, warpgroup,
                                     block.key0 + warpgroup * kKeys};
  consumer.run(block);
  write_key_gradients<Tile>(shared, maps, block, consumer.d_k, consumer.d_v);
}

/// Launch: as flash_backward_specialized(), but a grid of as many blocks as there are, in one row.
/// @tparam Tile HopperBackwardTile
/// @param maps  what is computed
/// @param scheduler of blocks of keys
//! [delayed]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(kKeyWarpgroups + 1), 1)
    flash_backward_delayed_dq(const __grid_constant__ TmaGradient<T> maps,
                              const TileScheduler scheduler) {
  const KeyBlock block =
      ordered_key_block<Tile>(maps.a, blockIdx.x, scheduler);
  delayed_block<Tile>(maps, block, [&](auto& shared, int warpgroup) {
    add_d_q_parts(shared, maps.a, block, warpgroup);
  });
}
//! [delayed]

}  // namespace fa::FA_TARGET
