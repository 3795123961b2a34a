/// @file
/// Nothing that no row sees: each warpgroup counts its own tiles of keys, lets those pass that the others alone need,
/// and takes half a tile where that suffices.
///
/// Source: the idea is ours.
#pragma once

#include "05_flash_forward/kernels/14_lazy_rescaling.cuh"

namespace fa::FA_TARGET {

/// Keys of half a tile.
constexpr int kNarrow = 64;

/// What a warpgroup has to do for a block of queries.
struct TileRange {
  int query0;   ///< its first query
  int skipped;  ///< of the block's tiles of keys, from the last on
  int tiles;    ///< that it computes
  int whole;    ///< of them that all its queries see
  bool narrow;  ///< its first tile has keys in the first half only
};

/// A warpgroup's share of a block's work.
/// @param a         what is computed
/// @param block     of queries
/// @param warpgroup which
//! [share]
template <class Tile, class T>
__device__ TileRange tile_range(const Attention<T>& a, int block,
                                int warpgroup) {
  const int query0 = block * Tile::block_m + warpgroup * kQueries;
  const int seen =
      query0 < a.length_q ? visible_keys(a, query0 + kQueries - 1) : 0;
  const int tiles = ceil_div(seen, Tile::block_n);
  return {query0, tiles_of<Tile>(a, block) - tiles, tiles,
          visible_keys(a, query0) / Tile::block_n,
          seen - (tiles - 1) * Tile::block_n <= kNarrow};
}
//! [share]

/// A consumer, and what it has in its registers.
template <class Tile>
struct MmaWarpgroup {
  using T = typename Tile::T;          ///< half or bfloat16
  PersistentShared<Tile>& shared;      ///< the block's
  const Attention<T>& a;               ///< what is computed
  const int warpgroup;                 ///< which
  PipelineState<Tile::stages> k_at{};  ///< of K
  PipelineState<Tile::stages> v_at{};  ///< of V
  WarpgroupProbs<Tile> p{};            ///< weights, rounded
  WarpgroupOutput<Tile> o{};           ///< sums
  RowState rows{};                     ///< of this lane

  /// This warp is done with the stage of K.
  __device__ void release_k() {
    if (threadIdx.x % kWarp == 0) shared.k_pipe.consumer_release(k_at);
    k_at.advance();
  }
  /// This warp is done with the stage of V.
  __device__ void release_v() {
    if (threadIdx.x % kWarp == 0) shared.v_pipe.consumer_release(v_at);
    v_at.advance();
  }
  /// Lets a tile pass, and a turn.
  //! [skip]
  __device__ void skip() {
    shared.k_pipe.consumer_wait(k_at);
    release_k();
    scheduler_barrier_sync<Tile>(warpgroup);
    scheduler_barrier_arrive<Tile>(warpgroup);
    shared.v_pipe.consumer_wait(v_at);
    release_v();
  }
  //! [skip]

  /// The first tile, or its first half: there are no values beside its scores.
  /// @tparam keys of the tile that are taken
  /// @param share the warpgroup's
  /// @param q     its queries
  /// @param last  O of the block before
  //! [start]
  template <int keys>
  __device__ void start(const TileRange& range, const typename Tile::QTile& q,
                        PendingStore<Tile>& last) {
    float s[keys / 2], nothing_before[2];
    shared.k_pipe.consumer_wait(k_at);
    scheduler_barrier_sync<Tile>(warpgroup);
    issue_qk(s, q, shared.k[k_at.stage]);
    scheduler_barrier_arrive<Tile>(warpgroup);
    last.release_q();
    wgmma_wait<0>(s);
    release_k();
    if (range.tiles > range.whole) {
      apply_mask(s, a, range.query0, (range.tiles - 1) * Tile::block_n);
    }
    online_softmax<true>(s, rows, nothing_before, a.scale * kLog2E);
    round_to_operand<T>(reinterpret_cast<std::uint32_t(&)[keys / 16][4]>(p),
                        s);
#pragma unroll
    for (int i = keys / 16; i < Tile::block_n / 16; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) p[i][j] = 0;  // the other half
    }
  }
  //! [start]

  /// The scores of a tile, under the values of the one before.
  /// @tparam hidden whether there is something to hide
  template <bool masked>
  __device__ void step(const TileRange& range, const typename Tile::QTile& q,
                       int tile) {
    WarpgroupScores<Tile> s;
    float rescale[2];
    shared.k_pipe.consumer_wait(k_at);
    scheduler_barrier_sync<Tile>(warpgroup);
    issue_qk(s, q, shared.k[k_at.stage]);
    shared.v_pipe.consumer_wait(v_at);
    issue_pv(o, p, shared.v[v_at.stage]);
    scheduler_barrier_arrive<Tile>(warpgroup);
    wgmma_wait<1>(s);
    release_k();
    if constexpr (masked) {
      apply_mask(s, a, range.query0, tile * Tile::block_n);
    }
    const bool rescaled = online_softmax<masked, kRescaleThreshold>(
        s, rows, rescale, a.scale * kLog2E);
    wgmma_wait<0>(o, p);
    release_v();
    round_to_operand<T>(p, s);
    pin(p);  // as in rung 11
    if (rescaled) rescale_o(o, rescale);
  }

  /// A share, from its scores to its sums.
  /// @param share the warpgroup's
  /// @param q     its queries
  /// @param last  O of the block before
  __device__ void run(const TileRange& range, const typename Tile::QTile& q,
                      PendingStore<Tile>& last) {
#pragma unroll
    for (float& x : o) x = 0;
    rows = empty_row_state();
    for (int i = 0; i < range.skipped; ++i) skip();
    if (range.tiles == 0) return;
    if (range.narrow) {
      start<kNarrow>(range, q, last);
    } else {
      start<Tile::block_n>(range, q, last);
    }
    int tile = range.tiles - 2;
    for (; tile >= range.whole; --tile) step<true>(range, q, tile);
    for (; tile >= 0; --tile) step<false>(range, q, tile);
    shared.v_pipe.consumer_wait(v_at);
    issue_pv(o, p, shared.v[v_at.stage]);
    wgmma_wait<0>(o, p);
    release_v();
  }
};

/// Launch: as flash_persistent().
/// @tparam Tile HopperTile
/// @param maps  what is computed
/// @param scheduler
//! [shares]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_warpgroup_tiles(const __grid_constant__ TmaAttention<T> maps,
                          const TileScheduler scheduler) {
  auto& shared = *dynamic_shared<PersistentShared<Tile>>();
  init_barriers(shared);
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {
    setmaxnreg_dec<kProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) producer_loop(shared, maps, scheduler);
    return;
  }
  setmaxnreg_inc<kConsumerRegisters<Tile>>();
  const Attention<T>& a = maps.a;
  MmaWarpgroup<Tile> consumer{shared, a, warpgroup};
  PipelineState<2> at;
  PipelineState<Tile::q_stages> q_at;
  if (warpgroup == Tile::consumers - 1)
    scheduler_barrier_arrive<Tile>(warpgroup);
  PendingStore<Tile> last{shared, warpgroup};
  for (;; at.advance(), q_at.advance()) {
    WorkTile work;
    if (!next_work_tile(shared, at, work)) break;
    const TileRange range = tile_range<Tile>(a, work.block, warpgroup);
    auto& q = shared.q[q_at.stage][warpgroup];
    shared.q_pipe[warpgroup].consumer_wait(q_at);
    consumer.run(range, q, last);
    last.release_q();  // if there was no tile
    last.left(write_output<Tile>(maps, consumer.o, consumer.rows, q,
                                 range.query0, work.head, work.batch),
              q_at);
  }
  last.release_q();
  if (warpgroup == 0)
    scheduler_barrier_sync<Tile>(warpgroup);  // the last one given
}
//! [shares]

}  // namespace fa::FA_TARGET
