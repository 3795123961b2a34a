/// @file
/// The loop of a consumer warpgroup of a Hopper kernel over tiles of keys, for packed sequences and
/// functors: ping-pong scheduling, persistent blocks and lazy rescaling. The ladder explains it.
#pragma once

#include "05_flash_forward/kernels/persistent.cuh"
#include "05_flash_forward/kernels/scheduler_barrier.cuh"

namespace fa::FA_TARGET {

/// The growth of a maximum that rescales, in powers of two: P up to 2^8 is as accurate in 16 bits
/// as P up to 1.
constexpr int kLoopRescaleThreshold = 8;

/// m as scores are compared with it: 0 where all keys are masked.
__device__ inline float finite_max(float m) {
  return m == -INFINITY ? 0.0f : m;
}

/// raise_max() for scores of any size.
__device__ inline void raise_wide_max(RowState& rows,
                                      const float (&largest)[2],
                                      float (&rescale)[2], float scale) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float m = warp_max<4>(fmaxf(rows.m[h], largest[h]));
    rescale[h] = exp2_approx((rows.m[h] - finite_max(m)) * scale);
    rows.m[h] = m;
    rows.l[h] *= rescale[h];
  }
}

/// exp_scores() for scores of any size: the difference comes first, and is
/// exact near m.
template <int r>
__device__ void exp_wide_scores(float (&s)[r], RowState& rows, float scale) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float m = finite_max(rows.m[h]);
    float sums[2] = {rows.l[h], 0};
#pragma unroll
    for (int i = 0; i < r / 2; ++i) {
      float& x = row_element(s, h, i);
      x = exp2_approx((x - m) * scale);
      sums[i % 2] += x;
    }
    rows.l[h] = sums[0] + sums[1];
  }
}

/// online_softmax() that leaves a maximum that grows by no more than the threshold as it is.
/// @tparam masked whether scores may be -infinity
/// @tparam wide   whether scores have any size, -infinity as well
template <bool masked, bool wide = false, int r>
__device__ bool loop_online_softmax(float (&s)[r], RowState& rows,
                                    float (&rescale)[2], float scale) {
  float largest[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) largest[h] = lane_max(s, h);
  const auto grows = [&](int h) {
    return (largest[h] - rows.m[h]) * scale > kLoopRescaleThreshold;
  };
  const bool rescaled = __any_sync(kAllLanes, grows(0) || grows(1));
  if constexpr (wide) {
    if (rescaled) raise_wide_max(rows, largest, rescale, scale);
    exp_wide_scores(s, rows, scale);
  } else {
    if (rescaled) raise_max<masked>(rows, largest, rescale, scale);
    exp_scores<masked>(s, rows, scale);
  }
  return rescaled;
}

/// The loop of a consumer warpgroup over the tiles of keys, from the last one on: adds to O and to
/// the state of its rows.
/// @param query0 the warpgroup's first query
/// @param tiles  of keys, at least one
template <class Tile, class T>
__device__ void hopper_mainloop(WarpgroupOutput<Tile>& o, RowState& rows,
                                PersistentShared<Tile>& shared,
                                ConsumerState<Tile>& read,
                                const Attention<T>& a, int query0, int tiles,
                                PendingStore<Tile>& last_store,
                                int warpgroup) {
  const int unmasked_tiles = visible_keys(a, query0) / Tile::block_n;
  const float scale = a.scale * kLog2E;
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
  online_softmax<true>(s, rows, rescale, scale);
  round_to_operand<T>(p, s);
  const auto step = [&](auto edge) {
    constexpr bool masked = decltype(edge)::value;
    // S = Q K^T
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
    // P = exp2(scale (S - m))
    const bool rescaled =
        loop_online_softmax<masked>(s, rows, rescale, scale);
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

}  // namespace fa::FA_TARGET
