/// @file
/// Broken kernels that copy by TMA: see broken_hopper.cuh.
#pragma once

#include <vector>

#include "common/gpu/tests/broken_hopper_base.cuh"

namespace fa::FA_TARGET {

/// What is wrong with a copy of one tile.
enum class OneTile {
  kRight,
  kNoWait,
  kNoUse,
  kTooMany,
  kTooFew,
  kNoBarrierFence,
  kNoSync,
  kParityBelowZero
};

/// A tile is loaded and copied to the output. Its barrier expects as many bytes as arrive, and
/// threads and copies see it.
__global__ inline void one_tile(OneTile how, const __grid_constant__ TensorMap map, half* out) {
  const auto [tile, full] = first_stage();
  const unsigned i = threadIdx.x;
  if (i == 0) {
    full.init(1);  // one tile: the barrier
    if (how != OneTile::kNoBarrierFence) fence_barrier_init();
    full.arrive_and_expect(how == OneTile::kTooMany  ? 2 * HopperTile::bytes
                           : how == OneTile::kTooFew ? HopperTile::bytes / 2
                                                     : HopperTile::bytes);
    load_tile(tile, map, full, 0, 0);  // one tile: begun
  }
  if (how != OneTile::kNoSync) __syncthreads();
  if (how == OneTile::kNoUse) return;
  const int phase = 0, before = how == OneTile::kParityBelowZero ? (phase - 1) % 2 : phase;
  if (how != OneTile::kNoWait) full.wait(before);  // one tile: waits
  out[i] = tile.data[i];                           // one tile: used
}

/// One thread loads tiles through one buffer, a warp sums them.
__global__ inline void wrong_parity(bool broken, const __grid_constant__ TensorMap map,
                                    float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  Pipeline<1>& pipe = shared.pipe;
  const unsigned i = threadIdx.x;
  if (i == 0) {
    pipe.init(kWarp);  // parity: the barriers
    fence_barrier_init();
  }
  __syncthreads();
  PipelineState<1> at;
  if (i == kWarp) {
    for (int t = 0; t < 3; ++t) {
      Mbarrier& full = pipe.producer_acquire(at, HopperTile::bytes);
      load_tile(tile, map, full, 64 * t, 0);
      at.advance();
    }
  }
  if (i >= kWarp) return;
  float sum = 0;
  for (int t = 0; t < 3; ++t) {
    pipe.consumer_wait(at);
    sum += to_float(tile.data[i]);
    pipe.consumer_release(at);  // parity: released
    if (!broken) at.advance();
  }
  out[i] = sum;
}

/// How a warp skips a tile.
enum class Skip { kOneWaits, kAllWait, kWarpBarrier };
/// A warp skips tiles that another one loads. Where all lanes wait and one releases at once, the
/// next tile may have arrived before the other lanes look, and they wait for a phase that has
/// ended.
__global__ inline void skipped_tiles(Skip how, const __grid_constant__ TensorMap map, float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  Pipeline<1>& pipe = shared.pipe;
  const int lane = threadIdx.x % kWarp;
  if (threadIdx.x == 0) {
    pipe.init(1);
    fence_barrier_init();
  }
  __syncthreads();
  PipelineState<1> at;
  if (threadIdx.x >= kWarp) {
    for (int t = 0; t < 4 && lane == 0; ++t, at.advance()) {
      Mbarrier& full = pipe.producer_acquire(at, HopperTile::bytes);
      load_tile(shared.tiles[0], map, full, 0, 0);  // skipped: begun
    }
    return;
  }
  for (int t = 0; t < 4; ++t, at.advance()) {
    if (how != Skip::kOneWaits || lane == 0) pipe.consumer_wait(at);  // skipped: waits
    if (how == Skip::kWarpBarrier) __syncwarp();
    if (lane == 0) pipe.consumer_release(at);
  }
  out[threadIdx.x] = 0;
}

/// A warp hands rows to another one through one stage. Three lanes release it
/// where one should: an odd number of phases ends, so each wait still finds the
/// parity that it expects.
__global__ inline void surplus_arrivals(bool broken, float* out) {
  __shared__ Mbarrier full, empty;
  __shared__ float row[kWarp];
  const int lane = threadIdx.x % kWarp;
  if (threadIdx.x == 0) {
    full.init(1);
    empty.init(1);  // surplus: the barrier
    fence_barrier_init();
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 3; ++i) {
    if (threadIdx.x < kWarp) {
      empty.wait((i + 1) % 2);
      row[lane] = static_cast<float>(i);
      __syncwarp();
      if (lane == 0) full.arrive();
    } else {
      full.wait(i % 2);
      sum += row[lane];
      __syncwarp();
      if (lane < (broken ? 3 : 1)) empty.arrive();  // surplus: arrives
    }
  }
  out[threadIdx.x] = sum;
}

/// What is wrong with a store of tiles.
enum class StoreTiles { kRight, kNoFence, kOverwritten };

/// Two tiles are written and then stored by one thread, through one buffer.
__global__ inline void store_tiles(StoreTiles how, const __grid_constant__ TensorMap map) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  for (int t = 0; t < 2; ++t) {
    for (unsigned i = threadIdx.x; i < 64 * 64; i += kWarp) {
      tile.data[i] = from_float<half>(1);  // stored tile: written
    }
    if (how != StoreTiles::kNoFence) fence_async_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
      store_tile(map, tile, 64 * t, 0);  // stored tile: stored
      bulk_commit();
      if (how != StoreTiles::kOverwritten) bulk_wait_read<0>();
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) bulk_wait_read<0>();
}

/// A block ends while its shared memory is still read.
template <bool broken>
__global__ void store_at_the_end(const float* in, float* out) {
  __shared__ __align__(16) float row[kWarp];
  row[threadIdx.x] = in[threadIdx.x];
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_add(out, row, sizeof row);  // store at the end
    bulk_commit();
    if (!broken) bulk_wait_read<0>();
  }
}

/// What one of two blocks leaves out.
enum class Forgets { kNothing, kArrival, kRelease, kAcquire, kProxyFence };

/// The first block stores a row, the second one adds to it.
__global__ inline void store_then_add(const float* in, float* out, unsigned* turn,
                                      Forgets forgets) {
  __shared__ __align__(16) float row[kWarp];
  row[threadIdx.x] = in[threadIdx.x];
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    bulk_store(out, row, sizeof row);  // ordered: stored
    bulk_commit();
    if (forgets == Forgets::kArrival) {
      bulk_wait_read<0>();
    } else {
      bulk_wait<0>();
    }
    if (forgets != Forgets::kRelease) __threadfence();
    atomicAdd(turn, 1u);
    return;
  }
  if (forgets == Forgets::kAcquire) {
    while (atomicAdd(turn, 0u) == 0) continue;
  } else {
    while (atomic_add_acquire(turn, 0) == 0) continue;
  }
  if (forgets != Forgets::kProxyFence) fence_async_proxy_global();
  bulk_add(out, row, sizeof row);  // ordered: added
  bulk_commit();
  bulk_wait_read<0>();
}

/// BrokenKernel::run of store_then_add().
inline auto ordered(Forgets forgets) {
  return [=](bool is_broken) {
    DeviceBuffer<unsigned> turn(1);
    turn.zero();
    launch_plain(store_then_add, {{2}, {32}}, 32, 32, turn.data(),
                 is_broken ? forgets : Forgets::kNothing);
  };
}

/// All of this file.
inline std::vector<BrokenHopperKernel> broken_copies() {
  return in_file(
      "broken_copies.cuh",
      {
          {{"no_wait", "A tile is used before it has arrived.", "copy", "one tile: used",
            "one tile: begun", hopper(one_tile, OneTile::kNoWait, 128)}},
          {{"wrong_parity", "A wait has the parity of an old phase.", "barrier", "parity: released",
            "parity: the barriers", hopper(wrong_parity, true, 64)}},
          {{"skipped_at_once", "A lane releases what others still wait for.", "barrier",
            "skipped: waits", "skipped: begun", hopper(skipped_tiles, Skip::kAllWait, 64)}},
          {{"skipped_together", "The same, beside a warp barrier.", "barrier", "skipped: waits",
            "skipped: begun", hopper(skipped_tiles, Skip::kAllWait, 64, 1, Skip::kWarpBarrier)}},
          {{"surplus_arrivals", "More threads arrive than a phase needs.", "barrier",
            "surplus: arrives", "surplus: the barrier", hopper(surplus_arrivals, true, 64)}},
          {{"parity_below_zero", "A wait has a parity other than 0 and 1.", "barrier",
            "one tile: waits", "one tile: the barrier",
            hopper(one_tile, OneTile::kParityBelowZero, 128)},
           "for the parity -1"},
          {{"too_many_bytes", "A barrier expects more bytes than arrive.", "deadlock",
            "one tile: waits", "", hopper(one_tile, OneTile::kTooMany, 128)},
           "lacks 8192 bytes of copies"},
          {{"too_few_bytes", "A barrier expects too few bytes.", "copy", "one tile: begun",
            "one tile: the barrier", hopper(one_tile, OneTile::kTooFew, 128)}},
          {{"no_barrier_fence", "Copies do not see the barrier yet.", "barrier", "one tile: begun",
            "one tile: the barrier", hopper(one_tile, OneTile::kNoBarrierFence, 128)}},
          {{"no_sync_after_init", "Other threads do not see the barrier yet.", "barrier",
            "one tile: waits", "one tile: the barrier", hopper(one_tile, OneTile::kNoSync, 128)}},
          {{"copy_at_the_end", "A block ends before a copy to it.", "copy", "one tile: begun", "",
            hopper(one_tile, OneTile::kNoUse, 128)}},
          {{"no_fence_before_store", "A store does not see what was written.", "proxy",
            "stored tile: stored", "stored tile: written",
            hopper(store_tiles, StoreTiles::kNoFence, 32)}},
          {{"overwritten_store", "A tile is written while it is stored.", "race",
            "stored tile: written", "stored tile: stored",
            hopper(store_tiles, StoreTiles::kOverwritten, 32)}},
          {{"store_at_the_end", "A block ends before a copy from it.", "copy", "store at the end",
            "", launches(FA_TWINS(store_at_the_end), {{1}, {32}}, 32, 32)},
           "a bulk_wait_read<0>() is missing"},
          {{"counts_too_early", "The store was read, but is not in memory.", "race",
            "ordered: added", "ordered: stored", ordered(Forgets::kArrival)},
           "(after a bulk_wait<0>() where a copy writes)"},
          {{"counts_without_a_fence", "A counter says nothing of the store.", "race",
            "ordered: added", "ordered: stored", ordered(Forgets::kRelease)}},
          {{"waits_without_acquiring", "A thread that polls the counter may not see it.", "race",
            "ordered: added", "ordered: stored", ordered(Forgets::kAcquire)}},
          {{"no_fence_before_bulk_add", "A thread is ordered, its copies are not.", "proxy",
            "ordered: added", "ordered: stored", ordered(Forgets::kProxyFence)}},
      });
}

}  // namespace fa::FA_TARGET
