/// @file
/// Nothing that no row sees: each warpgroup counts its own tiles of keys, lets those pass that the others alone need,
/// and takes half a tile where that suffices.
///
/// Source: the idea is ours.
#pragma once

#include "05_flash_forward/kernels/14_patience.cuh"

namespace fa::FA_TARGET {

/// Keys of half a tile.
constexpr int kNarrow = 64;

/// What a warpgroup has to do for a block of queries.
struct Share {
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
__device__ Share share_of(const Attention<T>& a, int block, int warpgroup) {
  const int query0 = block * Tile::block_m + warpgroup * kQueries;
  const int seen =
      query0 < a.length_q ? keys_seen(a, query0 + kQueries - 1) : 0;
  const int tiles = ceil_div(seen, Tile::block_n);
  return {query0, tiles_of<Tile>(a, block) - tiles, tiles,
          keys_seen(a, query0) / Tile::block_n,
          seen - (tiles - 1) * Tile::block_n <= kNarrow};
}
//! [share]

/// A consumer, and what it has in its registers.
template <class Tile>
struct Consumer {
  using T = typename Tile::T;      ///< half or bfloat16
  PersistentShared<Tile>& shared;  ///< the block's
  const Attention<T>& a;           ///< what is computed
  const int warpgroup;             ///< which
  RingPlace<Tile::stages> k_at{};  ///< of K
  RingPlace<Tile::stages> v_at{};  ///< of V
  WarpgroupWeights<Tile> p{};      ///< weights, rounded
  WarpgroupSums<Tile> o{};         ///< sums
  LaneRows rows{};                 ///< of this lane

  /// This warp is done with the stage of K.
  __device__ void free_k() {
    if (threadIdx.x % kWarp == 0) shared.k_pipe.free(k_at);
    k_at.advance();
  }
  /// This warp is done with the stage of V.
  __device__ void free_v() {
    if (threadIdx.x % kWarp == 0) shared.v_pipe.free(v_at);
    v_at.advance();
  }
  /// Lets a tile pass, and a turn.
  //! [skip]
  __device__ void skip() {
    shared.k_pipe.wait(k_at);
    free_k();
    wait_for_turn<Tile>(warpgroup);
    give_turn<Tile>(warpgroup);
    shared.v_pipe.wait(v_at);
    free_v();
  }
  //! [skip]

  /// The first tile, or its first half: there are no values beside its scores.
  /// @tparam keys of the tile that are taken
  /// @param share the warpgroup's
  /// @param q     its queries
  /// @param last  O of the block before
  //! [start]
  template <int keys>
  __device__ void start(const Share& share, const typename Tile::QTile& q,
                        LastOutput<Tile>& last) {
    float s[keys / 2], nothing_before[2];
    shared.k_pipe.wait(k_at);
    wait_for_turn<Tile>(warpgroup);
    begin_scores(s, q, shared.k[k_at.stage]);
    give_turn<Tile>(warpgroup);
    last.free_q();
    wgmma_wait<0>(s);
    free_k();
    if (share.tiles > share.whole) {
      hide_scores(s, a, share.query0, (share.tiles - 1) * Tile::block_n);
    }
    take_scores<true>(s, rows, nothing_before, a.scale * kLog2E);
    round_weights<T>(reinterpret_cast<std::uint32_t(&)[keys / 16][4]>(p), s);
#pragma unroll
    for (int i = keys / 16; i < Tile::block_n / 16; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) p[i][j] = 0;  // the other half
    }
  }
  //! [start]

  /// The scores of a tile, under the values of the one before.
  /// @tparam hidden whether there is something to hide
  template <bool hidden>
  __device__ void step(const Share& share, const typename Tile::QTile& q,
                       int tile) {
    WarpgroupScores<Tile> s;
    float correction[2];
    shared.k_pipe.wait(k_at);
    wait_for_turn<Tile>(warpgroup);
    begin_scores(s, q, shared.k[k_at.stage]);
    shared.v_pipe.wait(v_at);
    begin_output(o, p, shared.v[v_at.stage]);
    give_turn<Tile>(warpgroup);
    wgmma_wait<1>(s);
    free_k();
    if constexpr (hidden) {
      hide_scores(s, a, share.query0, tile * Tile::block_n);
    }
    const bool grown =
        take_scores<hidden, kPatience>(s, rows, correction, a.scale * kLog2E);
    wgmma_wait<0>(o, p);
    free_v();
    round_weights<T>(p, s);
    pin(p);  // as in rung 11
    if (grown) correct(o, correction);
  }

  /// A share, from its scores to its sums.
  /// @param share the warpgroup's
  /// @param q     its queries
  /// @param last  O of the block before
  __device__ void run(const Share& share, const typename Tile::QTile& q,
                      LastOutput<Tile>& last) {
#pragma unroll
    for (float& x : o) x = 0;
    rows = no_keys();
    for (int i = 0; i < share.skipped; ++i) skip();
    if (share.tiles == 0) return;
    if (share.narrow) {
      start<kNarrow>(share, q, last);
    } else {
      start<Tile::block_n>(share, q, last);
    }
    int tile = share.tiles - 2;
    for (; tile >= share.whole; --tile) step<true>(share, q, tile);
    for (; tile >= 0; --tile) step<false>(share, q, tile);
    shared.v_pipe.wait(v_at);
    begin_output(o, p, shared.v[v_at.stage]);
    wgmma_wait<0>(o, p);
    free_v();
  }
};

/// Launch: as flash_persistent().
/// @tparam Tile HopperTile
/// @param maps  what is computed
/// @param order of work
//! [shares]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_shares(const __grid_constant__ MappedAttention<T> maps,
                 const WorkOrder order) {
  auto& shared = *dynamic_shared<PersistentShared<Tile>>();
  init_barriers(shared);
  const int warpgroup = warpgroup_index();
  if (warpgroup == Tile::consumers) {
    keep_registers<kProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) produce_all(shared, maps, order);
    return;
  }
  take_registers<kConsumerRegisters<Tile>>();
  const Attention<T>& a = maps.a;
  Consumer<Tile> consumer{shared, a, warpgroup};
  RingPlace<2> at;
  RingPlace<Tile::q_stages> q_at;
  if (warpgroup == Tile::consumers - 1) give_turn<Tile>(warpgroup);
  LastOutput<Tile> last{shared, warpgroup};
  for (;; at.advance(), q_at.advance()) {
    Work work;
    if (!take_work(shared, at, work)) break;
    const Share share = share_of<Tile>(a, work.block, warpgroup);
    auto& q = shared.q[q_at.stage][warpgroup];
    shared.q_pipe[warpgroup].wait(q_at);
    consumer.run(share, q, last);
    last.free_q();  // if there was no tile
    last.left(write_output<Tile>(maps, consumer.o, consumer.rows, q,
                                 share.query0, work.head, work.batch),
              q_at);
  }
  last.free_q();
  if (warpgroup == 0) wait_for_turn<Tile>(warpgroup);  // the last one given
}
//! [shares]

}  // namespace fa::FA_TARGET
