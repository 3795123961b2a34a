/// @file
/// Ping-pong scheduling of the consumer warpgroups: a scheduler barrier orders them, so that one
/// computes its softmax while another one has the tensor cores. Without it all of them would need
/// the same units at the same time.
///
/// Source: Shah et al., FlashAttention-3, NeurIPS 2024, section 3.1.
#pragma once

#include "05_flash_forward/kernels/10_warp_specialized.cuh"
#include "05_flash_forward/kernels/scheduler_barrier.cuh"

namespace fa::FA_TARGET {

/// The loop of a consumer warpgroup over the tiles of keys, from the last one on: adds to O and to
/// the state of its rows.
/// @param tiles of keys, at least one
template <class Tile, class T>
__device__ void ping_pong_mainloop(WarpgroupOutput<Tile>& o, RowState& rows,
                                   SpecializedShared<Tile>& shared,
                                   const Attention<T>& a, int query0,
                                   int tiles, int warpgroup) {
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
  const float exponent_scale = a.scale * kLog2E;
  const bool releases = threadIdx.x % kWarp == 0;
  const auto& q = shared.q[warpgroup];
  KvState<Tile> read;
  const auto release_k = [&] {
    if (releases) shared.k_pipe.consumer_release(read.k);
    read.k.advance();
  };
  const auto release_v = [&] {
    if (releases) shared.v_pipe.consumer_release(read.v);
    read.v.advance();
  };
  WarpgroupScores<Tile> s;
  WarpgroupProbs<Tile> p;
  float rescale[2];
  int tile = tiles - 1;  // the edge first
  // S = Q K^T of the first tile: there is no P V beside it
  shared.k_pipe.consumer_wait(read.k);
  scheduler_barrier_sync<Tile>(warpgroup);
  issue_qk(s, q, shared.k[read.k.stage]);
  scheduler_barrier_arrive<Tile>(warpgroup);
  wgmma_wait<0>(s);
  release_k();
  if (tile >= unmasked_tiles) apply_mask(s, a, query0, tile * Tile::block_n);
  online_softmax<true>(s, rows, rescale, exponent_scale);
  round_to_operand<T>(p, s);
  //! [step]
  const auto step = [&](auto edge) {
    constexpr bool masked = decltype(edge)::value;
    // S = Q K^T, not scaled
    shared.k_pipe.consumer_wait(read.k);
    scheduler_barrier_sync<Tile>(warpgroup);
    issue_qk(s, q, shared.k[read.k.stage]);
    // O += P V of the tile before
    shared.v_pipe.consumer_wait(read.v);
    issue_pv(o, p, shared.v[read.v.stage]);
    scheduler_barrier_arrive<Tile>(warpgroup);
    wgmma_wait<1>(s);  // S has been computed, P V is in flight
    release_k();
    if constexpr (masked) {
      apply_mask(s, a, query0, tile * Tile::block_n);
    }
    // P = exp2(exponent_scale (S - m))
    const bool rescaled =
        online_softmax<masked>(s, rows, rescale, exponent_scale);
    wgmma_wait<0>(o, p);
    release_v();
    round_to_operand<T>(p, s);
    fence_operand(p);  // among the exponentials, not after the branch
    if (rescaled) rescale_o(o, rescale);
  };
  //! [step]
  for (--tile; tile >= unmasked_tiles; --tile) step(std::true_type{});
  for (; tile >= 0; --tile) step(std::false_type{});
  // O += P V of the last tile
  shared.v_pipe.consumer_wait(read.v);
  issue_pv(o, p, shared.v[read.v.stage]);
  wgmma_wait<0>(o, p);
  release_v();
}

/// Attention in 16 bits. A consumer warpgroup processes 64 queries.
/// @tparam Tile a HopperTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_ping_pong(const __grid_constant__ TmaAttention<T> maps) {
  auto& shared = *dynamic_shared<SpecializedShared<Tile>>();
  const Attention<T>& a = maps.a;
  const int block = longest_first_m_block(a);
  const int head = blockIdx.y, batch = blockIdx.z;
  const int tiles = key_tiles<Tile>(a, block);
  init_barriers(shared);
  if (warpgroup_index() == Tile::consumers) {
    produce(shared, maps, block, head, batch, tiles);
    return;
  }
  //! [consumer]
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  const int warpgroup = warpgroup_index();
  const int query0 = block * Tile::block_m + warpgroup * kQueries;
  WarpgroupOutput<Tile> o = {};
  RowState rows = empty_row_state();
  shared.q_full[warpgroup].wait(0);
  if (tiles > 0) {
    if (warpgroup == Tile::consumers - 1) {
      scheduler_barrier_arrive<Tile>(warpgroup);  // warpgroup 0 is first
    }
    ping_pong_mainloop<Tile>(o, rows, shared, a, query0, tiles, warpgroup);
    if (warpgroup == 0) {
      scheduler_barrier_sync<Tile>(warpgroup);  // takes up the last arrival
    }
  }
  if (write_output<Tile>(maps, o, rows, shared.q[warpgroup], query0, head,
                         batch)) {
    bulk_wait_read<0>();  // before the block ends
  }
  //! [consumer]
}

/// Launches the kernel with a block for each tile of queries: grid_of() in
/// attention.cuh.
/// @param a with a head_dim of at most 128, for which can_use_tma() holds
template <class T>
void launch_ping_pong(const Attention<T>& a, const Stream& stream) {
  using Tile = HopperTile128<T>;
  launch(stream, flash_ping_pong<Tile, T>,
         {grid_of(a, Tile::block_m), kWarpgroup * (Tile::consumers + 1),
          sizeof(SpecializedShared<Tile>), Tile::stages},
         tma_attention<Tile>(a));
}

FA_LAUNCH_16_BIT(forward_steps, Attention, (const Stream&), launch_ping_pong);

FA_STEP_ROW(forward, 12) {
  return row("12_ping_pong", "ping-pong warpgroup scheduling", half{},
             bfloat16{})
      .hopper()
      .head_dims(HeadDims<128>{})
      .over_keys(HopperTile128<half>{}, 2)
      .timeline(HeadDims<128>{}, 256, 512)
      .launch(
          [](auto& a, auto, auto& stream) { launch_ping_pong(a, stream); });
}

}  // namespace fa::FA_TARGET
