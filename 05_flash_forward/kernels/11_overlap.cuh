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
/// @tparam patience of take_scores()
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
template <class Tile, int patience = 0, class T, class Shared, class MyTurn,
          class YourTurn, class Begun>
__device__ void consume(WarpgroupSums<Tile>& o, LaneRows& rows,
                        Shared& shared, const typename Tile::QTile& q,
                        const Attention<T>& a, int query0, int tiles,
                        RingPlace<Tile::stages>& k_at,
                        RingPlace<Tile::stages>& v_at, MyTurn my_turn,
                        YourTurn your_turn, Begun begun) {
  const int whole = keys_seen(a, query0) / Tile::block_n;  // seen by all
  const float scale = a.scale * kLog2E;
  const bool frees = threadIdx.x % kWarp == 0;
  WarpgroupScores<Tile> s;
  WarpgroupWeights<Tile> p;
  float correction[2];
  // The first tile has no P V beside it.
  shared.k_pipe.wait(k_at);
  my_turn();
  begin_scores(s, q, shared.k[k_at.stage]);
  your_turn();
  begun();
  wgmma_wait<0>(s);
  if (frees) shared.k_pipe.free(k_at);
  k_at.advance();
  int tile = tiles - 1;
  if (tile >= whole) hide_scores(s, a, query0, tile * Tile::block_n);
  take_scores<true>(s, rows, correction, scale);
  round_weights<T>(p, s);
  //! [step]
  const auto step = [&](auto edge) {
    constexpr bool hidden = decltype(edge)::value;
    shared.k_pipe.wait(k_at);
    my_turn();
    begin_scores(s, q, shared.k[k_at.stage]);
    shared.v_pipe.wait(v_at);
    begin_output(o, p, shared.v[v_at.stage]);
    your_turn();
    wgmma_wait<1>(s);  // the scores; P V is under way
    if (frees) shared.k_pipe.free(k_at);
    k_at.advance();
    if constexpr (hidden) {
      hide_scores(s, a, query0, tile * Tile::block_n);
    }
    const bool grown =
        take_scores<hidden, patience>(s, rows, correction, scale);
    wgmma_wait<0>(o, p);
    if (frees) shared.v_pipe.free(v_at);
    v_at.advance();
    round_weights<T>(p, s);
    pin(p);  // among the exponentials, not behind the branch
    if (grown) correct(o, correction);
  };
  //! [step]
  for (--tile; tile >= whole; --tile) step(std::true_type{});
  for (; tile >= 0; --tile) step(std::false_type{});
  shared.v_pipe.wait(v_at);
  begin_output(o, p, shared.v[v_at.stage]);
  wgmma_wait<0>(o, p);
  if (frees) shared.v_pipe.free(v_at);
  v_at.advance();
}
//! [consume]

/// Launch: as flash_warp_specialized().
/// @tparam Tile HopperTile
//! [overlap]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_overlap(const __grid_constant__ MappedAttention<T> maps) {
  auto& shared = *dynamic_shared<SpecializedShared<Tile>>();
  const Attention<T>& a = maps.a;
  const int block = a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int head = blockIdx.y, batch = blockIdx.z;
  const int tiles = ceil_div(
      keys_seen(a, block * Tile::block_m + Tile::block_m - 1), Tile::block_n);
  init_barriers(shared);
  if (warpgroup_index() == Tile::consumers) {  // the producer
    keep_registers<kProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) {
      produce(shared, maps, block, head, batch, tiles);
    }
    return;
  }
  take_registers<kConsumerRegisters<Tile>>();
  const int warpgroup = warpgroup_index();
  const int query0 = block * Tile::block_m + warpgroup * kQueries;
  WarpgroupSums<Tile> o = {};
  LaneRows rows = no_keys();
  RingPlace<Tile::stages> k_at, v_at;
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
