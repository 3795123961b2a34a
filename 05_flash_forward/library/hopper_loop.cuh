/// @file
/// The loop of a consumer warpgroup of a Hopper kernel over tiles of keys: ping-pong scheduling, lazy
/// rescaling, and policies for what differs between plain attention, packed sequences and functors:
/// which tiles, and which scores. The ladder explains each of its parts.
#pragma once

#include "05_flash_forward/kernels/persistent.cuh"
#include "05_flash_forward/kernels/scheduler_barrier.cuh"

namespace fa::FA_TARGET {

/// Which tiles of keys a warpgroup computes, of those that its block loads.
enum class KeyTiles {
  kAll,  ///< all of them; masked at the end
  kOwn,  ///< those that it needs, or none; of the first one, half may suffice
  kRange,  ///< likewise, one at least; masked at the beginning, too, where half may suffice
  kListed,  ///< those that scores.first_tile() and next_tile() give; any may be masked
};

/// The tiles of keys of a warpgroup, from the first one down to the last one; none if first < last.
struct KeyRange {
  int first, last;
  int edge;  ///< from here on tiles are masked
  /// @{ KeyTiles::kOwn and kRange: tiles of the block that come before, and whether the first half of
  /// the first tile suffices.
  int skipped;
  bool first_half;
  /// @}
  /// @{ KeyTiles::kRange: below `whole` tiles are masked; tiles of the block that come after; and
  /// whether of the last tile, which is another one, the second half suffices.
  int whole, skipped_after;
  bool last_half;
  /// @}
};

/// Keys of half a tile.
constexpr int kHalfKeys = 64;

/// m as scores are compared with it: 0 where all keys are masked.
__device__ inline float finite_max(float m) {
  return m == -INFINITY ? 0.0f : m;
}

/// raise_max() for scores of any size.
__device__ inline void raise_wide_max(RowState& rows,
                                      const float (&largest)[2],
                                      float (&rescale)[2],
                                      float exponent_scale) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float m = warp_max<4>(fmaxf(rows.m[h], largest[h]));
    rescale[h] = exp2_approx((rows.m[h] - finite_max(m)) * exponent_scale);
    rows.m[h] = m;
    rows.l[h] *= rescale[h];
  }
}

/// From here on exponent_scale m, rounded, is too far from it for exp_scores(): powers of two.
constexpr float kFarScore = 1024;

/// Counts scores from m on where that is far from 0: the differences are exact near m.
/// @return rows, with m of the scores as they are now
template <int r>
__device__ RowState near_scores(float (&s)[r], const RowState& rows,
                                float exponent_scale) {
  RowState near = rows;
  const auto is_far = [&](int h) {  // -infinity is far, too
    return !(fabsf(rows.m[h] * exponent_scale) < kFarScore);
  };
  if (__any_sync(kAllLanes, is_far(0) || is_far(1))) {  // rare
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float m = finite_max(rows.m[h]);
      near.m[h] = 0;
#pragma unroll
      for (int i = 0; i < r / 2; ++i) row_element(s, h, i) -= m;
    }
  }
  return near;
}

/// One step of the online softmax: S becomes P. A maximum that grows by no more than the threshold is
/// left as it is.
/// @tparam exponent  P is stored times 2^exponent
/// @tparam masked    whether scores may be -infinity
/// @tparam wide      whether scores have any size, -infinity as well
/// @param  rescale   on return the factors of rescale_o(), if the result is true
/// @param  threshold in powers of two
/// @return whether O must be rescaled
template <int exponent, bool masked, bool wide, int r>
__device__ bool online_softmax(float (&s)[r], RowState& rows,
                               float (&rescale)[2], float exponent_scale,
                               float threshold) {
  float largest[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) largest[h] = lane_max(s, h);
  const auto grows = [&](int h) {
    return (largest[h] - rows.m[h]) * exponent_scale > threshold;
  };
  const bool rescaled = __any_sync(kAllLanes, grows(0) || grows(1));
  if constexpr (wide) {
    if (rescaled) raise_wide_max(rows, largest, rescale, exponent_scale);
    RowState near = near_scores(s, rows, exponent_scale);
    exp_scores<false>(s, near, exponent_scale);
    for (int h = 0; h < 2; ++h) rows.l[h] = near.l[h];
  } else {
    if (rescaled) raise_max<masked>(rows, largest, rescale, exponent_scale);
    exp_scores<masked>(s, rows, exponent_scale, exponent);
  }
  return rescaled;
}

/// P of a part of a tile of keys, from a column on, rounded; that of the others is 0.
template <class T, int column, int parts, int r>
__device__ void set_probs(std::uint32_t (&p)[parts][4], const float (&s)[r]) {
  constexpr int first = column / 16, count = r / 8;
#pragma unroll
  for (int i = 0; i < parts; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (i < first || first + count <= i) p[i][j] = 0;
    }
  }
  round_to_operand<T>(reinterpret_cast<std::uint32_t(&)[count][4]>(p[first]),
                      s);
}

/// P of a tile of keys as left operands, and O += P V: what hopper_mainloop() does for a Tile, here
/// in 16 bits.
template <class Tile>
struct TilePv {
  /// Whether P V is in flight beside the next S; else issue() waits for it.
  static constexpr bool overlaps = true;
  static constexpr int exponent = 0;  ///< P is stored times 2^exponent
  /// The growth of a maximum that rescales, in powers of two: P up to 2^8 is
  /// as accurate in 16 bits as P up to 1.
  static constexpr float rescale_threshold = 8;
  WarpgroupProbs<Tile> p;

  /// Rounds P of a part of the tile, from a column on; the others' is 0.
  template <int column, int r>
  __device__ void set_probs(const float (&s)[r]) {
    fa::FA_TARGET::set_probs<typename Tile::T, column>(p, s);
  }
  /// Issues O += P V.
  template <class V, int r>
  __device__ void issue(float (&o)[r], const V& v) {
    issue_pv(o, p, v);
  }
  /// Waits for it.
  template <int r>
  __device__ void wait(float (&o)[r]) {
    wgmma_wait<0>(o, p);
  }
};

/// The scores of attention that are masked at most causally: a policy of hopper_mainloop().
template <class T, KeyTiles key_tiles = KeyTiles::kAll>
struct CausalScores {
  static constexpr KeyTiles tiles = key_tiles;
  static constexpr bool wide = false;
  const Attention<T>& a;
  int query0;  ///< the warpgroup's first query
  KeyRange range;

  /// Of S / ln 2.
  __device__ float exponent_scale() const { return a.scale * kLog2E; }
  /// Issues S = Q K^T for keys from a column on.
  template <class Q, class K, int r>
  __device__ void issue(float (&s)[r], const Q& q, const K& k, int column) {
    issue_gemm_nt(s, q, k, column);
  }
  /// Changes and masks S of keys from one on.
  template <int r>
  __device__ void change(float (&s)[r], int key0, bool masked) {
    if (masked) apply_mask(s, a, query0, key0);
  }
  /// Whether the first tile is masked.
  __device__ bool masks(int tile) const { return tile >= range.edge; }
  /// Before the softmax of a later tile: m in the units of its scores.
  __device__ int begin_tile(RowState&, int) const { return 0; }
  /// After it.
  __device__ void end_tile(RowState&, int) const {}
  /// What follows the last tile.
  template <class O>
  __device__ void end(O&, RowState&) const {}
};

/// A PendingStore where O is not stored from the place of Q.
struct NoStore {
  /// There is nothing to wait for.
  __device__ void release_q() const {}
};

/// The loop of a consumer warpgroup over its tiles of keys: adds to O and to the state of its rows.
/// @param scores     a policy as CausalScores
/// @param last_store a PendingStore, or a NoStore
template <class Tile, class Scores, class Store>
__device__ void hopper_mainloop(WarpgroupOutput<Tile>& o, RowState& rows,
                                PersistentShared<Tile>& shared,
                                ConsumerState<Tile>& read, Scores& scores,
                                Store& last_store, int warpgroup) {
  using Pv = TilePv<Tile>;
  constexpr KeyTiles kind = Scores::tiles;
  constexpr bool is_range = kind == KeyTiles::kRange;
  const KeyRange range = scores.range;
  const float exponent_scale = scores.exponent_scale();
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
  // Tiles that only other warpgroups need.
  const auto skip = [&](int count) {
#pragma unroll(is_range ? 1 : 4)  // with these the main loop is shortest
    for (int i = 0; i < count; ++i) {
      shared.k_pipe.consumer_wait(read.k);
      __syncwarp();  // all lanes have seen the phase
      release_k();
      scheduler_barrier_sync<Tile>(warpgroup);
      scheduler_barrier_arrive<Tile>(warpgroup);
      shared.v_pipe.consumer_wait(read.v);
      __syncwarp();
      release_v();
    }
  };
  Pv pv;
  float rescale[2];
  int tile = range.first;
  // O += P V of the tile before, either beside the next S or ahead of it.
  const auto issue_pv = [&](bool beside_s) {
    if (beside_s != Pv::overlaps) return;
    shared.v_pipe.consumer_wait(read.v);
    pv.issue(o, shared.v[read.v.stage]);
  };
  const auto finish_pv = [&](bool beside_s) {
    if (beside_s != Pv::overlaps) return;
    pv.wait(o);
    release_v();
  };
  // The first tile, or its first half: there is no P V beside its S.
  const auto first = [&](auto keys) {
    float s[decltype(keys)::value / 2];
    shared.k_pipe.consumer_wait(read.k);
    scheduler_barrier_sync<Tile>(warpgroup);
    scores.issue(s, q, shared.k[read.k.stage], 0);
    scheduler_barrier_arrive<Tile>(warpgroup);
    last_store.release_q();
    wgmma_wait<0>(s);
    release_k();
    if (tile == range.last) release_q();
    scores.change(s, tile * Tile::block_n, scores.masks(tile));
    online_softmax<Pv::exponent, true, Scores::wide>(s, rows, rescale,
                                                     exponent_scale, 0);
    pv.template set_probs<0>(s);
  };
  const auto step = [&](auto edge, auto keys) {
    constexpr bool masked = decltype(edge)::value;
    constexpr int n = decltype(keys)::value, column = Tile::block_n - n;
    issue_pv(false);
    finish_pv(false);
    float s[n / 2];
    // S = Q K^T
    shared.k_pipe.consumer_wait(read.k);
    scheduler_barrier_sync<Tile>(warpgroup);
    scores.issue(s, q, shared.k[read.k.stage], column);
    issue_pv(true);
    scheduler_barrier_arrive<Tile>(warpgroup);
    wgmma_wait<Pv::overlaps ? 1 : 0>(s);  // S, but not P V
    release_k();
    if (tile == range.last) release_q();
    scores.change(
        s, tile * Tile::block_n + column,
        masked && (kind != KeyTiles::kListed || scores.masks(tile)));
    // P = exp2(exponent_scale (S - m))
    const auto frame = scores.begin_tile(rows, tile);
    const bool rescaled = online_softmax<Pv::exponent, masked, Scores::wide>(
        s, rows, rescale, exponent_scale, Pv::rescale_threshold);
    scores.end_tile(rows, frame);
    finish_pv(true);
    pv.template set_probs<column>(s);
    fence_operand(pv.p);  // among the exponentials, not after the branch
    if (rescaled) rescale_o(o, rescale);
  };
  constexpr std::integral_constant<int, Tile::block_n> whole_tile;
  constexpr std::integral_constant<int, kHalfKeys> half_tile;
  constexpr std::true_type with_mask;
  constexpr std::false_type without;
  if constexpr (kind == KeyTiles::kListed) {
    tile = scores.first_tile();
    first(whole_tile);
    for (tile = scores.next_tile(); scores.exists(tile);
         tile = scores.next_tile()) {
      step(with_mask, whole_tile);
    }
  } else {
    if constexpr (kind != KeyTiles::kAll) skip(range.skipped);
    if (kind == KeyTiles::kOwn && range.first < range.last) {
      return release_q();
    }
    if (kind != KeyTiles::kAll &&
        (Tile::block_n == kHalfKeys || range.first_half)) {
      first(half_tile);
    } else {
      first(whole_tile);
    }
    const bool last_half = is_range && range.last_half;
    const int end = range.last + (last_half ? 1 : 0);
    const int whole = is_range ? range.whole : end;
    for (--tile; tile >= range.edge; --tile) step(with_mask, whole_tile);
    for (; tile >= whole; --tile) step(without, whole_tile);
    if constexpr (is_range) {
      for (; tile >= end; --tile) step(with_mask, whole_tile);
      if (last_half) step(with_mask, half_tile);
    }
  }
  // O += P V of the last tile
  issue_pv(Pv::overlaps);
  finish_pv(Pv::overlaps);
  if constexpr (is_range) skip(range.skipped_after);
  scores.end(o, rows);
}

}  // namespace fa::FA_TARGET
