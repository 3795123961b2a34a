/// @file
/// Persistent blocks with a dynamic tile scheduler: one block for each SM, which takes tiles of
/// queries until none is left. While its consumers finish a tile, its producer loads for the next
/// one. Under the causal mask the tiles with the most keys come first, and heads that are processed
/// together have their K and V in the L2 cache: see common/attention/tile_scheduler.cuh.
#pragma once

#include "05_flash_forward/kernels/persistent.cuh"
#include "05_flash_forward/kernels/scheduler_barrier.cuh"

namespace fa::FA_TARGET {

/// The loop of a consumer warpgroup over the tiles of keys, from the last one on: adds to O and to
/// the state of its rows.
/// @param tiles of keys, at least one
template <class Tile, class T>
__device__ void persistent_mainloop(WarpgroupOutput<Tile>& o, RowState& rows,
                                    PersistentShared<Tile>& shared,
                                    ConsumerState<Tile>& read,
                                    const Attention<T>& a, int query0,
                                    int tiles, PendingStore<Tile>& last_store,
                                    int warpgroup) {
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
  const float exponent_scale = a.scale * kLog2E;
  const bool releases = threadIdx.x % kWarp == 0;
  const auto& q = shared.q[read.q.stage][warpgroup];
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
  last_store.release_q();
  wgmma_wait<0>(s);
  release_k();
  if (tile >= unmasked_tiles) apply_mask(s, a, query0, tile * Tile::block_n);
  online_softmax<true>(s, rows, rescale, exponent_scale);
  round_to_operand<T>(p, s);
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
  for (--tile; tile >= unmasked_tiles; --tile) step(std::true_type{});
  for (; tile >= 0; --tile) step(std::false_type{});
  // O += P V of the last tile
  shared.v_pipe.consumer_wait(read.v);
  issue_pv(o, p, shared.v[read.v.stage]);
  wgmma_wait<0>(o, p);
  release_v();
}

/// Attention in 16 bits. A consumer warpgroup processes 64 queries of each tile.
/// @tparam Tile a HopperTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_persistent(const __grid_constant__ TmaAttention<T> maps,
                     const TileScheduler scheduler, unsigned* tile_counter) {
  auto& shared = *dynamic_shared<PersistentShared<Tile>>();
  init_barriers(shared);
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {  // the producer
    setmaxnreg_dec<kProducerRegisters<Tile>>();
    produce(shared, maps, scheduler, tile_counter);
    return;
  }
  //! [consumer]
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  const Attention<T>& a = maps.a;
  ConsumerState<Tile> read;
  if (warpgroup == Tile::consumers - 1) {
    scheduler_barrier_arrive<Tile>(warpgroup);  // warpgroup 0 is first
  }
  PendingStore<Tile> last_store{shared, warpgroup};
  WorkTile work;
  for (; next_work_tile(shared, read.work, work); read.next_tile()) {
    const int query0 = work.block * Tile::block_m + warpgroup * kQueries;
    WarpgroupOutput<Tile> o = {};
    RowState rows = empty_row_state();
    shared.q_pipe[warpgroup].consumer_wait(read.q);
    persistent_mainloop<Tile>(o, rows, shared, read, a, query0,
                              loaded_tiles<Tile>(a, work.block), last_store,
                              warpgroup);
    last_store.issued(
        write_output<Tile>(maps, o, rows, shared.q[read.q.stage][warpgroup],
                           query0, work.head, work.batch),
        read.q);
  }
  last_store.release_q();
  if (warpgroup == 0) {
    scheduler_barrier_sync<Tile>(warpgroup);  // takes up the last arrival
  }
  //! [consumer]
}

/// Launches the kernel with a block for each SM, or for each tile of queries if these are fewer.
/// @param a            with a head_dim of at most 128, for which can_use_tma() holds
/// @param tile_counter of the dynamic tile scheduler, in global memory: 0 before and after the
///                     launch, not used by another one in between. Null: a static schedule.
template <class T>
void launch_persistent(const Attention<T>& a, const Stream& stream,
                       unsigned* tile_counter) {
  using Tile = HopperTile128<T>;
  const TileScheduler scheduler = tile_scheduler(a, Tile::block_m);
  launch(stream, flash_persistent<Tile, T>,
         {persistent_blocks(scheduler), kWarpgroup * (Tile::consumers + 1),
          sizeof(PersistentShared<Tile>), Tile::stages},
         tma_attention<Tile>(a), scheduler, tile_counter);
}

FA_LAUNCH_16_BIT(forward_steps, Attention, (const Stream&, unsigned*),
                 launch_persistent);

FA_STEP_ROW(forward, 13) {
  return row("13_persistent", "dynamic tile scheduler", half{}, bfloat16{})
      .hopper()
      .head_dims(HeadDims<128>{})
      .over_keys(HopperTile128<half>{}, 2)
      .persistent()
      .timeline(HeadDims<128>{}, 256, 512)
      .memory_is("4", [](auto, auto) { return 4; })
      .tile_counter()
      .launch([](auto& a, auto, auto& stream, unsigned* tile_counter) {
        launch_persistent(a, stream, tile_counter);
      });
}

}  // namespace fa::FA_TARGET
