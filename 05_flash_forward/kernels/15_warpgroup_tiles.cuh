/// @file
/// Skip masked tiles per warpgroup: each warpgroup counts its own tiles of keys, skips those that
/// only the other warpgroups need, and computes half a tile where that suffices.
///
/// Source: the idea is ours.
#pragma once

#include "05_flash_forward/kernels/14_lazy_rescaling.cuh"
#include "05_flash_forward/kernels/persistent.cuh"
#include "05_flash_forward/kernels/scheduler_barrier.cuh"
#include "common/attention/shape.hpp"

namespace fa::FA_TARGET {

/// Keys of half a tile.
constexpr int kHalfTile = 64;

/// The tiles of keys that a warpgroup computes for its queries of a tile.
struct TileRange {
  int query0;             ///< the warpgroup's first query
  int skipped;            ///< of the block's tiles, from the last on
  int tiles;              ///< that it computes
  int unmasked_tiles;     ///< of these
  bool starts_with_half;  ///< the first half of its first tile suffices
};

/// The range of a warpgroup.
//! [tile_range]
template <class Tile, class T>
__device__ TileRange tile_range(const Attention<T>& a, int block,
                                int warpgroup) {
  const int query0 = Tile::first_query(a, block, warpgroup);
  const int visible =
      query0 < a.length_q ? visible_keys(a, query0 + kQueries - 1) : 0;
  const int tiles = ceil_div(visible, Tile::block_n);
  return {query0, loaded_tiles<Tile>(a, block) - tiles, tiles,
          visible_keys(a, query0) / Tile::block_n,
          visible - (tiles - 1) * Tile::block_n <= kHalfTile};
}
//! [tile_range]

/// The loop of a consumer warpgroup over the tiles of keys, from the last one on: adds to O and to
/// the state of its rows.
template <class Tile, class T>
__device__ void warpgroup_tiles_mainloop(
    WarpgroupOutput<Tile>& o, RowState& rows, PersistentShared<Tile>& shared,
    ConsumerState<Tile>& read, const Attention<T>& a, const TileRange& range,
    PendingStore<Tile>& last_store, int warpgroup) {
  const int query0 = range.query0;
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
  const auto release_q = [&] {
    if (kWritesFromRegisters<Tile> && releases) {
      shared.q_pipe[warpgroup].consumer_release(read.q);
    }
  };
  WarpgroupProbs<Tile> p;
  float rescale[2];
  //! [skip]
  for (int i = 0; i < range.skipped; ++i) {
    shared.k_pipe.consumer_wait(read.k);
    __syncwarp();  // all lanes have seen the phase
    release_k();
    scheduler_barrier_sync<Tile>(warpgroup);
    scheduler_barrier_arrive<Tile>(warpgroup);
    shared.v_pipe.consumer_wait(read.v);
    __syncwarp();
    release_v();
  }
  //! [skip]
  if (range.tiles == 0) return release_q();
  int tile = range.tiles - 1;  // the edge first
  // S = Q K^T of the first tile or its first half: there is no P V beside it
  const auto first = [&](auto keys) {
    constexpr int n = decltype(keys)::value;
    float s[n / 2];
    shared.k_pipe.consumer_wait(read.k);
    scheduler_barrier_sync<Tile>(warpgroup);
    issue_qk(s, q, shared.k[read.k.stage]);
    scheduler_barrier_arrive<Tile>(warpgroup);
    last_store.release_q();
    wgmma_wait<0>(s);
    release_k();
    if (tile == 0) release_q();
    if (tile >= range.unmasked_tiles) {
      apply_mask(s, a, query0, tile * Tile::block_n);
    }
    online_softmax<true>(s, rows, rescale, exponent_scale);
    round_to_operand<T>(reinterpret_cast<std::uint32_t(&)[n / 16][4]>(p), s);
#pragma unroll
    for (int i = n / 16; i < Tile::block_n / 16; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) p[i][j] = 0;  // the other half
    }
  };
  if (Tile::block_n == kHalfTile || range.starts_with_half) {
    first(std::integral_constant<int, kHalfTile>{});
  } else {
    first(std::integral_constant<int, Tile::block_n>{});
  }
  const auto step = [&](auto edge) {
    constexpr bool masked = decltype(edge)::value;
    WarpgroupScores<Tile> s;
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
    if (tile == 0) release_q();
    if constexpr (masked) {
      apply_mask(s, a, query0, tile * Tile::block_n);
    }
    // P = exp2(exponent_scale (S - m))
    const bool rescaled =
        lazy_online_softmax<masked>(s, rows, rescale, exponent_scale);
    wgmma_wait<0>(o, p);
    release_v();
    round_to_operand<T>(p, s);
    fence_operand(p);  // among the exponentials, not after the branch
    if (rescaled) rescale_o(o, rescale);
  };
  for (--tile; tile >= range.unmasked_tiles; --tile) step(std::true_type{});
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
    flash_warpgroup_tiles(const __grid_constant__ TmaAttention<T> maps,
                          const TileScheduler scheduler,
                          unsigned* tile_counter) {
  auto& shared = *dynamic_shared<PersistentShared<Tile>>();
  init_barriers(shared);
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {  // the producer
    setmaxnreg_dec<kProducerRegisters<Tile>>();
    produce(shared, maps, scheduler, tile_counter);
    return;
  }
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  const Attention<T>& a = maps.a;
  ConsumerState<Tile> read;
  if (warpgroup == Tile::consumers - 1) {
    scheduler_barrier_arrive<Tile>(warpgroup);  // warpgroup 0 is first
  }
  PendingStore<Tile> last_store{shared, warpgroup};
  WorkTile work;
  for (; next_work_tile(shared, read.work, work); read.next_tile()) {
    const TileRange range = tile_range<Tile>(a, work.block, warpgroup);
    WarpgroupOutput<Tile> o = {};
    RowState rows = empty_row_state();
    shared.q_pipe[warpgroup].consumer_wait(read.q);
    warpgroup_tiles_mainloop<Tile>(o, rows, shared, read, a, range,
                                   last_store, warpgroup);
    last_store.release_q();  // if there was no tile of keys
    if constexpr (kWritesFromRegisters<Tile>) {
      write_output_from_registers<Tile>(a, o, rows, range.query0, work.head,
                                        work.batch);
    } else {
      last_store.issued(
          write_output<Tile>(maps, o, rows, shared.q[read.q.stage][warpgroup],
                             range.query0, work.head, work.batch),
          read.q);
    }
  }
  last_store.release_q();
  if (warpgroup == 0) {
    scheduler_barrier_sync<Tile>(warpgroup);  // takes up the last arrival
  }
}

/// Launches the kernel with a block for each SM, or for each tile of queries if these are fewer.
/// @tparam columns_v    at least head_dim_v: d, or 128 with 192
/// @param  a            for which can_use_tma() holds
/// @param  tile_counter as in launch_persistent()
template <int d, int columns_v = d, class T>
void launch_warpgroup_tiles(const Attention<T>& a, const Stream& stream,
                            unsigned* tile_counter) {
  using Tile = HopperTileFor<T, d, columns_v>;
  const TileScheduler scheduler = tile_scheduler(a, Tile::block_m);
  launch(stream, flash_warpgroup_tiles<Tile, T>,
         {persistent_blocks(scheduler), kWarpgroup * (Tile::consumers + 1),
          sizeof(PersistentShared<Tile>), Tile::stages},
         tma_attention<Tile>(a), scheduler, tile_counter);
}

FA_LAUNCH_16_BIT(forward_tiles, Attention, (const Stream&, unsigned*),
                 launch_warpgroup_tiles, (64), (96), (128), (192), (256),
                 (kMlaHeadDim, kMlaHeadDimV));

FA_STEP_ROW(forward, 15) {
  return row("15_warpgroup_tiles", "skip masked tiles per warpgroup", half{},
             bfloat16{})
      .hopper()
      .head_dims(HeadDims<64, 96, 128, 192, 256>{})
      .mla()
      .over_keys(HopperTileFor<half, 64>{}, 3)
      .over_keys(HopperTileFor<half, 96>{}, 2)
      .over_keys(HopperTileFor<half, 192>{}, 2)
      .over_keys(HopperTileFor<half, 256>{}, 2)
      .over_keys(HopperTileFor<half, kMlaHeadDim, kMlaHeadDimV>{}, 2)
      .persistent()
      .timeline(HeadDims<64>{}, 384, 512, true)
      .memory_is("4", [](auto, auto) { return 4; })
      .tile_counter()
      .launch([](auto& a, auto d, auto& stream, unsigned* tile_counter) {
        launch_warpgroup_tiles<d, d.v>(a, stream, tile_counter);
      });
}

}  // namespace fa::FA_TARGET
