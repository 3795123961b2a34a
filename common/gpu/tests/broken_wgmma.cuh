/// @file
/// Broken kernels that multiply by wgmma: see broken_hopper.cuh.
#pragma once

#include <vector>

#include "common/gpu/tests/broken_hopper_base.cuh"

namespace fa::FA_TARGET {

/// Multiplies a tile by itself.
__device__ inline float squared(HopperTile& tile) {
  float sum[32];
  wgmma_fence(sum);
  const auto rows = tile.by_rows(0, 0);
  wgmma<half>(sum, rows, rows, false);  // squared: begins
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
  return sum[0];
}

/// Where the fence is.
enum class Fence { kRight, kNone, kBehindTheBarrier, kBeforeTheWrites };

/// A warpgroup writes a tile and another one multiplies it. What threads write with ordinary stores
/// must be made visible to wgmma: the fence orders the writes of the thread that calls it, before it
/// arrives at the barrier.
__global__ inline void __launch_bounds__(2 * kWarpgroup) fenced_wgmma(Fence how, float* out) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  if (threadIdx.x >= kWarpgroup) {
    if (how == Fence::kBeforeTheWrites) fence_async_proxy();
    for (unsigned i = threadIdx.x - kWarpgroup; i < 64 * 64; i += kWarpgroup) {
      tile.data[i] = from_float<half>(1);  // fenced: written
    }
    if (how == Fence::kRight) fence_async_proxy();
    named_barrier_arrive(1, 2 * kWarpgroup);
    if (how == Fence::kBehindTheBarrier) fence_async_proxy();
    return;
  }
  named_barrier_wait(1, 2 * kWarpgroup);
  out[threadIdx.x] = squared(tile);
}

/// What is wrong with the accumulators of two wgmma.
enum class Sums { kRight, kNoFence, kNoWait, kScaled, kAtTheEnd };

/// A thread sets accumulators and adds to them, then uses those of two groups.
__global__ inline void __launch_bounds__(kWarpgroup) two_groups(Sums how, float* out) {
  HopperTile& tile = tile_of_ones();
  float s[32], o[32];
  for (float& x : s) x = 1;
  if (how != Sums::kNoFence) wgmma_fence(s, o);
  const auto rows = tile.by_rows(0, 0);
  wgmma<half>(s, rows, rows, true);  // sums: first
  wgmma_commit(s);
  wgmma<half>(o, rows, rows, false);  // sums: second
  wgmma_commit(o);
  if (how == Sums::kScaled || how == Sums::kAtTheEnd) wgmma_wait<1>(s);
  if (how == Sums::kRight || how == Sums::kNoFence) wgmma_wait<0>(s, o);
  const float first = s[0];  // sums: used
  out[threadIdx.x] = first;
  if (how == Sums::kAtTheEnd) return;
  for (float& x : o) {
    x *= first;  // sums: scaled
  }
  wgmma_wait<0>(o);
  out[threadIdx.x] = first + o[0];
}

/// The left operand in registers is changed while the wgmma is in flight.
__global__ inline void __launch_bounds__(kWarpgroup) overwritten_operand(bool broken, float* out) {
  HopperTile& tile = tile_of_ones();
  float sum[32];
  std::uint32_t frag[2][4];
  for (int k = 0; k < 2; ++k) {
    std::uint32_t* const of_k = frag[broken ? 0 : k];
    for (int i = 0; i < 4; ++i) {
      of_k[i] = pack2<half>(k > 0 ? 1.0f : 3.0f, 2.0f);  // operand: written
    }
    wgmma_fence(sum, frag[broken ? 0 : k]);
    const auto cols = tile.by_columns(16 * k, 0);
    wgmma<half>(sum, frag[broken ? 0 : k], cols, k > 0);  // operand: wgmma
  }
  wgmma_commit(sum, frag[0], frag[1]);
  wgmma_wait<0>(sum);
  out[threadIdx.x] = sum[0];
}

/// A wgmma begins before its operand has arrived.
__global__ inline void __launch_bounds__(kWarpgroup)
    operand_not_there(bool broken, const __grid_constant__ TensorMap map, float* out) {
  const auto [tile, full] = first_stage();
  if (threadIdx.x == 0) {
    full.init(1);
    fence_barrier_init();
    full.arrive_and_expect(HopperTile::bytes);
    load_tile(tile, map, full, 0, 0);  // not there: begun
  }
  __syncthreads();
  if (!broken) full.wait(0);
  const float sum = squared(tile);
  full.wait(0);
  out[threadIdx.x] = sum;
}

/// How a pipeline is broken.
enum class Pipe {
  kRight,         ///< it is not
  kNoEmptyWait,   ///< the producer does not wait until a stage is free
  kFreedEarly,    ///< consumers free a stage before their wgmma have ended
  kFreedByOne,    ///< one warp frees it for all
  kTooManyFrees,  ///< the barrier waits for one more than come
};

/// One thread brings tiles through one buffer, a warpgroup multiplies them.
__global__ inline void __launch_bounds__(kWarpgroup + kWarp)
    pipeline(Pipe how, const __grid_constant__ TensorMap map, float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  Mbarrier &full = shared.full[0], &empty = shared.empty;
  const unsigned i = threadIdx.x;
  constexpr int tiles = 3;
  if (i == 0) {
    full.init(1);
    empty.init(how == Pipe::kFreedByOne ? 1 : how == Pipe::kTooManyFrees ? 5 : 4);
    fence_barrier_init();
  }
  __syncthreads();
  if (i == kWarpgroup) {
    for (int t = 0; t < tiles; ++t) {
      if (how != Pipe::kNoEmptyWait) {
        empty.wait(t % 2 ^ 1);  // pipeline: waits for empty
      }
      full.arrive_and_expect(HopperTile::bytes);
      load_tile(tile, map, full, 64 * t, 0);  // pipeline: begun
    }
  }
  if (i >= kWarpgroup) return;
  float sum[32];
  for (int t = 0; t < tiles; ++t) {
    full.wait(t % 2);
    wgmma_fence(sum);
    const auto rows = tile.by_rows(0, 0);
    wgmma<half>(sum, rows, rows, t > 0);  // pipeline: wgmma
    wgmma_commit(sum);
    if (how == Pipe::kFreedEarly && i % kWarp == 0) empty.arrive();
    wgmma_wait<0>(sum);
    if (how != Pipe::kFreedEarly && (how == Pipe::kFreedByOne ? i == 0 : i % kWarp == 0)) {
      empty.arrive();
    }
  }
  out[i] = sum[0];
}

/// A warpgroup brings its tiles itself: the next one must not come before the wgmma with this
/// one have ended.
//! [overwritten_tile]
__global__ inline void __launch_bounds__(kWarpgroup)
    refills(bool broken, const __grid_constant__ TensorMap map, float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  Mbarrier& full = shared.full[0];
  const auto fetch = [&](int t) {
    full.arrive_and_expect(HopperTile::bytes);
    load_tile(tile, map, full, 64 * t, 0);  // next: begun
  };
  if (threadIdx.x == 0) {
    full.init(1);
    fence_barrier_init();
    fetch(0);
  }
  __syncthreads();
  float sum[32];
  for (int t = 0; t < 3; ++t) {
    full.wait(t % 2);
    wgmma_fence(sum);
    const auto rows = tile.by_rows(0, 0);
    wgmma<half>(sum, rows, rows, t > 0);  // next: wgmma
    wgmma_commit(sum);
    if (!broken) wgmma_wait<0>(sum);
    __syncthreads();
    if (threadIdx.x == 0 && t < 2) fetch(t + 1);
    if (broken) wgmma_wait<0>(sum);
  }
  out[threadIdx.x] = sum[0];
}
//! [overwritten_tile]

/// Two warpgroups meet at a barrier, one of them with the wrong number.
__global__ inline void __launch_bounds__(2 * kWarpgroup)
    wrong_named_barrier(bool broken, float* out) {
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  named_barrier_wait(broken ? 1 + group : 1, 2 * kWarpgroup);  // named waits
  out[threadIdx.x] = 1;
}

/// A warp stores its rows of a result over the left operand, of which other warps may still read
/// all rows.
__global__ inline void __launch_bounds__(kWarpgroup)
    overwritten_left_tile(bool broken, float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile &left = shared.tiles[0], &right = shared.tiles[1];
  fill_tile(left);
  fill_tile(right);
  fence_async_proxy();
  __syncthreads();
  float sum[32];
  wgmma_fence(sum);
  const auto a = left.by_rows(0, 0), b = right.by_rows(0, 0);
  wgmma<half>(sum, a, b, false);  // left tile: wgmma
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
  if (!broken) named_barrier_wait(1, kWarpgroup);
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  half* const row = left.at(static_cast<int>(16 * warp + lane % 16), 0);
  row[lane / 16] = from_float<half>(sum[0]);  // left tile: overwritten
  out[threadIdx.x] = sum[0];
}

/// All of this file.
inline std::vector<BrokenHopperKernel> broken_wgmma() {
  return in_file(
      "broken_wgmma.cuh",
      {
          {{"no_fence_before_wgmma", "A wgmma does not see what was written.", "proxy",
            "squared: begins", "fenced: written", hopper(fenced_wgmma, Fence::kNone, 256)}},
          {{"fence_behind_the_barrier", "The fence is for others' writes.", "proxy",
            "squared: begins", "fenced: written",
            hopper(fenced_wgmma, Fence::kBehindTheBarrier, 256)}},
          {{"fence_before_the_writes", "The fence comes before the writes.", "proxy",
            "squared: begins", "fenced: written",
            hopper(fenced_wgmma, Fence::kBeforeTheWrites, 256)}},
          {{"no_wgmma_wait", "Accumulators are used too early.", "wgmma", "sums: used",
            "sums: first", hopper(two_groups, Sums::kNoWait, 128)}},
          {{"touched_sums", "Accumulators are scaled in flight.", "wgmma", "sums: scaled",
            "sums: second", hopper(two_groups, Sums::kScaled, 128)}},
          {{"overwritten_operand", "A left operand is overwritten too early.", "wgmma",
            "operand: written", "operand: wgmma", hopper(overwritten_operand, true, 128)}},
          {{"no_wgmma_begin", "Accumulators are set before a wgmma.", "wgmma", "sums: first", "",
            hopper(two_groups, Sums::kNoFence, 128)}},
          {{"wgmma_at_the_end", "A kernel ends before a wgmma.", "wgmma", "sums: second", "",
            hopper(two_groups, Sums::kAtTheEnd, 128)}},
          {{"operand_not_there", "A wgmma begins without its operand.", "copy", "squared: begins",
            "not there: begun", hopper(operand_not_there, true, 128)}},
          {{"no_empty_wait", "A tile is overwritten before it is used.", "race", "pipeline: begun",
            "pipeline: begun", hopper(pipeline, Pipe::kNoEmptyWait, 160)}},
          {{"overwritten_tile", "A tile is overwritten while it is read.", "race", "next: begun",
            "next: wgmma", hopper(refills, true, 128)}},
          {{"freed_early", "A tile is freed before its wgmma ends.", "race", "pipeline: begun",
            "pipeline: wgmma", hopper(pipeline, Pipe::kFreedEarly, 160)}},
          {{"freed_by_one", "One warp frees what others still read.", "race", "pipeline: begun",
            "pipeline: wgmma", hopper(pipeline, Pipe::kFreedByOne, 160)}},
          {{"too_many_frees", "A barrier waits for one warp too many.", "deadlock",
            "pipeline: waits for empty", "", hopper(pipeline, Pipe::kTooManyFrees, 160)},
           "4 of 5 arrivals have come"},
          {{"wrong_named_barrier", "Two warpgroups wait at different barriers.", "deadlock",
            "named waits", "", hopper(wrong_named_barrier, true, 256)},
           "with 128 of 256 threads there"},
          {{"overwritten_left_tile", "A warp overwrites what others multiply.", "race",
            "left tile: wgmma", "left tile: overwritten",
            hopper(overwritten_left_tile, true, 128)}},
      });
}

}  // namespace fa::FA_TARGET
