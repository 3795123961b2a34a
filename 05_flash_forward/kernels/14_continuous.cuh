/// @file
/// No pause between two works: the first scores of the next are computed under the last values of this one. And
/// nothing that no row sees: each warpgroup counts its own tiles of keys, and takes half a tile where that suffices.
/// A maximum that grows by little is left as it was, so that O need not be corrected.
///
/// Source of the last idea: Zadouri et al., FlashAttention-4, 2026; the others are ours.
#pragma once

#include "05_flash_forward/kernels/13_persistent.cuh"

namespace fa::FA_TARGET {

/// Growth of a maximum that is not taken, in powers of two: weights up to 2^8 are no worse in 16 bits.
constexpr int kPatience = 8;
/// Keys of half a tile.
constexpr int kNarrow = 64;

/// What a warpgroup has to do for one work.
struct Share {
  Work work;        ///< of the block
  RingPlace<2> at;  ///< of its Q
  int query0;       ///< the warpgroup's first query
  int skipped;      ///< of the block's tiles of keys, from the last on
  int tiles;        ///< that it computes
  int whole;        ///< of them that all its queries see
  bool narrow;      ///< its first tile has keys in the first half only
};

/// A consumer and what it has in its registers.
template <class Tile>
struct Consumer {
  using T = typename Tile::T;      ///< half or bfloat16
  PersistentShared<Tile>& shared;  ///< the block's
  const MappedAttention<T>& maps;  ///< what is computed
  const WorkOrder& order;          ///< of work
  int warpgroup;                   ///< which
  RingPlace<2> at;                 ///< of tickets and Q
  RingPlace<Tile::stages> k_at;    ///< of K
  RingPlace<Tile::stages> v_at;    ///< of V
  WarpgroupScores<Tile> s;         ///< scores, then weights
  WarpgroupWeights<Tile> p;        ///< weights, rounded
  WarpgroupSums<Tile> o;           ///< sums of one share
  LaneRows rows;                   ///< of the share whose scores came last

  /// Takes this warpgroup's share of the block's next work.
  /// @return false when there is none
  //! [share]
  __device__ bool next(Share& share) {
    const Attention<T>& a = maps.a;
    shared.ticket_pipe.wait(at);
    const int ticket = shared.tickets[at.stage];
    __syncwarp();  // all lanes have read it
    if (threadIdx.x % kWarp == 0) shared.ticket_pipe.free(at);
    if (ticket >= order.all * order.blocks) return false;
    share.work = work_of(ticket, order);
    share.at = at;
    at.advance();
    share.query0 = share.work.block * Tile::block_m + warpgroup * kQueries;
    const int seen = share.query0 < a.length_q
                         ? keys_seen(a, share.query0 + kQueries - 1)
                         : 0;
    share.tiles = ceil_div(seen, Tile::block_n);
    share.skipped = tiles_of<Tile>(a, share.work.block) - share.tiles;
    share.whole = keys_seen(a, share.query0) / Tile::block_n;
    share.narrow = seen - (share.tiles - 1) * Tile::block_n <= kNarrow;
    return true;
  }
  //! [share]

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
  /// Lets tiles of K pass, and a turn for each.
  __device__ void skip_k(int tiles) {
    for (; tiles > 0; --tiles) {
      shared.k_pipe.wait(k_at);
      free_k();
      wait_for_turn<Tile>(warpgroup);
      give_turn<Tile>(warpgroup);
    }
  }
  /// Lets tiles of V pass.
  __device__ void skip_v(int tiles) {
    for (; tiles > 0; --tiles) {
      shared.v_pipe.wait(v_at);
      free_v();
    }
  }

  /// The scores of a share's first tile: all of them, or those of its first half.
  template <bool narrow>
  __device__ auto& first_scores() {
    constexpr int count = (narrow ? kNarrow : Tile::block_n) / 2;
    return reinterpret_cast<float(&)[count]>(s);
  }
  /// Waits for a share's first tile and the turn, and begins its scores.
  template <bool narrow>
  __device__ void begin_first(const Share& share) {
    shared.q_pipe[warpgroup].wait(share.at);
    skip_k(share.skipped);
    shared.k_pipe.wait(k_at);
    wait_for_turn<Tile>(warpgroup);
    begin_scores(first_scores<narrow>(), shared.q[share.at.stage][warpgroup],
                 shared.k[k_at.stage]);
  }
  /// The first scores become weights.
  template <bool narrow>
  __device__ void take_first(const Share& share) {
    auto& scores = first_scores<narrow>();
    float nothing_before[2];
    free_k();
    rows = no_keys();
    if (share.tiles > share.whole) {
      hide_scores(scores, maps.a, share.query0,
                  (share.tiles - 1) * Tile::block_n);
    }
    take_scores<true>(scores, rows, nothing_before, maps.a.scale * kLog2E);
  }
  /// Rounds them; weights of the other half are 0.
  template <bool narrow>
  __device__ void round_first() {
    constexpr int parts = (narrow ? kNarrow : Tile::block_n) / 16;
    round_weights<T>(reinterpret_cast<std::uint32_t(&)[parts][4]>(p),
                     first_scores<narrow>());
#pragma unroll
    for (int i = parts; i < Tile::block_n / 16; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) p[i][j] = 0;
    }
  }
  /// A share's first tile, with nothing to hide its scores under.
  template <bool narrow>
  __device__ void start(const Share& share) {
    begin_first<narrow>(share);
    give_turn<Tile>(warpgroup);
    wgmma_wait<0>(first_scores<narrow>());
    take_first<narrow>(share);
    round_first<narrow>();
    skip_v(share.skipped);
  }
  /// A share's first tile, under the last values of the one before.
  //! [join]
  template <bool narrow>
  __device__ void join(const Share& coming) {
    begin_first<narrow>(coming);
    shared.v_pipe.wait(v_at);
    begin_output(o, p, shared.v[v_at.stage]);
    give_turn<Tile>(warpgroup);
    wgmma_wait<1>(first_scores<narrow>());
    take_first<narrow>(coming);
    wgmma_wait<0>(o, p);
    free_v();
    round_first<narrow>();
    skip_v(coming.skipped);
  }
  //! [join]
  /// O is that of no keys.
  __device__ void clear() {
#pragma unroll
    for (float& x : o) x = 0;
  }

  /// The scores of a tile, under the values of the one before.
  /// @tparam hidden whether there is something to hide
  //! [step]
  template <bool hidden>
  __device__ void step(const Share& share, int tile) {
    float correction[2];
    shared.k_pipe.wait(k_at);
    wait_for_turn<Tile>(warpgroup);
    begin_scores(s, shared.q[share.at.stage][warpgroup],
                 shared.k[k_at.stage]);
    shared.v_pipe.wait(v_at);
    begin_output(o, p, shared.v[v_at.stage]);
    give_turn<Tile>(warpgroup);
    wgmma_wait<1>(s);
    free_k();
    if constexpr (hidden) {
      hide_scores(s, maps.a, share.query0, tile * Tile::block_n);
    }
    take_scores<hidden, kPatience>(s, rows, correction,
                                   maps.a.scale * kLog2E);
    wgmma_wait<0>(o, p);
    free_v();
    correct(o, correction);
    round_weights<T>(p, s);
  }
  //! [step]

  /// Writes a share's rows.
  __device__ void finish(const Share& share, const LaneRows& of_share) {
    const Attention<T>& a = maps.a;
    const Work& work = share.work;
    auto& q = shared.q[share.at.stage][warpgroup];
    const std::int64_t head = std::int64_t{work.batch} * a.heads + work.head;
    finish_rows<Tile>(o, of_share, a, a.lse + head * a.length_q, share.query0,
                      q);
    if (store_output(maps, q, share.query0, work.head, work.batch,
                     1 + warpgroup)) {
      bulk_wait_read<0>();  // O has left: the Q after the next may come
      shared.q_pipe[warpgroup].free(share.at);
    }
  }

  /// All shares of a warpgroup.
  //! [continuous]
  __device__ void run() {
    Share share, coming;
    bool more = next(share);
    while (more) {
      clear();
      if (share.tiles == 0) {
        shared.q_pipe[warpgroup].wait(share.at);
        rows = no_keys();
        skip_k(share.skipped);
        skip_v(share.skipped);
      } else if (share.narrow) {
        start<true>(share);
      } else {
        start<false>(share);
      }
      for (bool joined = true; joined; share = coming) {
        int tile = share.tiles - 2;
        for (; tile >= share.whole; --tile) step<true>(share, tile);
        for (; tile >= 0; --tile) step<false>(share, tile);
        const LaneRows of_share = rows;
        more = next(coming);
        // K of more tiles than there are stages cannot come before V leaves.
        joined = more && share.tiles > 0 && coming.tiles > 0 &&
                 coming.skipped < Tile::stages;
        if (joined && coming.narrow) {
          join<true>(coming);
        } else if (joined) {
          join<false>(coming);
        } else if (share.tiles > 0) {
          shared.v_pipe.wait(v_at);
          begin_output(o, p, shared.v[v_at.stage]);
          wgmma_wait<0>(o, p);
          free_v();
        }
        finish(share, of_share);
        clear();
      }
    }
  }
  //! [continuous]
};

/// Launch: as flash_persistent().
/// @tparam Tile HopperTile
/// @param maps  what is computed
/// @param order of work
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    flash_continuous(const __grid_constant__ MappedAttention<T> maps,
                     const WorkOrder order) {
  auto& shared = *dynamic_shared<PersistentShared<Tile>>();
  init_barriers(shared);
  const int warpgroup = threadIdx.x / kWarpgroup;
  if (warpgroup == Tile::consumers) {
    keep_registers<kProducerRegisters<Tile>>();
    if (threadIdx.x % kWarpgroup == 0) produce_all(shared, maps, order);
  } else {
    take_registers<kConsumerRegisters<Tile>>();
    Consumer<Tile> consumer{shared, maps, order, warpgroup};
    if (warpgroup == Tile::consumers - 1) give_turn<Tile>(warpgroup);
    consumer.run();
    if (warpgroup == 0) wait_for_turn<Tile>(warpgroup);  // the last one given
  }
}

}  // namespace fa::FA_TARGET
