/// @file
/// The exponentials of one tile under the products of others: Q K^T of the next tile and P V of this one are begun
/// together, and while the tensor cores work at P V, the warpgroup takes the next scores in.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024, section 3.2, algorithm 2.
#pragma once

#include "05_flash_forward/kernels/10_warp_specialized.cuh"

namespace fa::FA_TARGET {

/// What a consumer does for a block of queries, between two products' waits as much as it can.
/// @tparam Tile     HopperTile
/// @tparam patience of online_softmax()
/// @param o        sums, without the division
/// @param rows     of this lane
/// @param shared   the block's
/// @param q        the warpgroup's
/// @param a        what is computed
/// @param query0   the warpgroup's first query
/// @param tiles    of keys, at least one
/// @param k_at     where the ring of K stands
/// @param v_at     where the ring of V stands
/// @param my_turn  called before products are begun
/// @param your_turn called when they are
/// @param begun    called while the first scores are on their way
//! [consume]
template <class Tile, int rescale_threshold = 0, class T, class Shared,
          class MyTurn, class YourTurn, class Begun>
__device__ void consume(WarpgroupOutput<Tile>& o, RowState& rows,
                        Shared& shared, const typename Tile::QTile& q,
                        const Attention<T>& a, int query0, int tiles,
                        PipelineState<Tile::stages>& k_at,
                        PipelineState<Tile::stages>& v_at,
                        MyTurn scheduler_sync, YourTurn scheduler_arrive,
                        Begun begun) {
  const int whole = visible_keys(a, query0) / Tile::block_n;  // seen by all
  const float scale = a.scale * kLog2E;
  const bool frees = threadIdx.x % kWarp == 0;
  WarpgroupScores<Tile> s;
  WarpgroupProbs<Tile> p;
  float rescale[2];
  // The first tile has no P V beside it.
  shared.k_pipe.consumer_wait(k_at);
  scheduler_sync();
  issue_qk(s, q, shared.k[k_at.stage]);
  scheduler_arrive();
  begun();
  wgmma_wait<0>(s);
  if (frees) shared.k_pipe.consumer_release(k_at);
  k_at.advance();
  int tile = tiles - 1;
  if (tile >= whole) apply_mask(s, a, query0, tile * Tile::block_n);
  online_softmax<true>(s, rows, rescale, scale);
  round_to_operand<T>(p, s);
  //! [step]
  const auto step = [&](auto edge) {
    constexpr bool masked = decltype(edge)::value;
    shared.k_pipe.consumer_wait(k_at);
    scheduler_sync();
    issue_qk(s, q, shared.k[k_at.stage]);
    shared.v_pipe.consumer_wait(v_at);
    issue_pv(o, p, shared.v[v_at.stage]);
    scheduler_arrive();
    wgmma_wait<1>(s);  // the scores; P V is under way
    if (frees) shared.k_pipe.consumer_release(k_at);
    k_at.advance();
    if constexpr (masked) {
      apply_mask(s, a, query0, tile * Tile::block_n);
    }
    const bool rescaled =
        online_softmax<masked, rescale_threshold>(s, rows, rescale, scale);
    wgmma_wait<0>(o, p);
    if (frees) shared.v_pipe.consumer_release(v_at);
    v_at.advance();
    round_to_operand<T>(p, s);
    pin(p);  // among the exponentials, not behind the branch
    if (rescaled) rescale_o(o, rescale);
  };
  //! [step]
  for (--tile; tile >= whole; --tile) step(std::true_type{});
  for (; tile >= 0; --tile) step(std::false_type{});
  shared.v_pipe.consumer_wait(v_at);
  issue_pv(o, p, shared.v[v_at.stage]);
  wgmma_wait<0>(o, p);
  if (frees) shared.v_pipe.consumer_release(v_at);
  v_at.advance();
}
//! [consume]

/// Launch: as flash_warp_specialized().
/// @tparam Tile HopperTile
//! [overlap]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_overlap(const __grid_constant__ TmaAttention<T> maps) {
  auto& shared = *dynamic_shared<SpecializedShared<Tile>>();
  const Attention<T>& a = maps.a;
  const int block = a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int head = blockIdx.y, batch = blockIdx.z;
  const int tiles =
      ceil_div(visible_keys(a, block * Tile::block_m + Tile::block_m - 1),
               Tile::block_n);
  init_barriers(shared);
  if (warpgroup_index() == Tile::consumers) {  // the producer
    setmaxnreg_dec<kProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) {
      produce(shared, maps, block, head, batch, tiles);
    }
    return;
  }
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  const int warpgroup = warpgroup_index();
  const int query0 = block * Tile::block_m + warpgroup * kQueries;
  WarpgroupOutput<Tile> o = {};
  RowState rows = empty_row_state();
  PipelineState<Tile::stages> k_at, v_at;
  const auto nothing = [] {};
  shared.q_full[warpgroup].wait(0);
  if (tiles > 0) {
    consume<Tile>(o, rows, shared, shared.q[warpgroup], a, query0, tiles,
                  k_at, v_at, nothing, nothing, nothing);
  }
  if (write_output<Tile>(maps, o, rows, shared.q[warpgroup], query0, head,
                         batch)) {
    bulk_wait_read<0>();  // before the block ends
  }
}
//! [overlap]

}  // namespace fa::FA_TARGET
