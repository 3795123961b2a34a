/// @file
/// Broken kernels that copy by TMA: see broken_hopper.cuh.
#pragma once

#include <vector>

#include "common/gpu/tests/broken_hopper_base.cuh"

namespace fa::FA_TARGET {

/// A tile is loaded and copied to the output.
template <bool broken>
__global__ void no_wait(const __grid_constant__ TensorMap map, half* out) {
  const auto [tile, full] = first_stage();
  const unsigned i = threadIdx.x;
  if (i == 0) {
    full.init(1);
    fence_barrier_init();
    full.arrive_and_expect(HopperTile::bytes);
    load_tile(tile, map, full, 0, 0);  // no wait: begun
  }
  __syncthreads();
  if (!broken) full.wait(0);
  out[i] = tile.data[i];  // no wait: used
}

/// One thread loads tiles through one buffer, a warp sums them.
template <bool broken>
__global__ void wrong_parity(const __grid_constant__ TensorMap map, float* out) {
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
enum class Skip { kAllWait, kOneWaits, kWarpBarrier };
/// A warp skips tiles that another one loads. Where all lanes wait and one releases at once, the
/// next tile may have arrived before the other lanes look, and they wait for a phase that has
/// ended.
template <Skip how>
__global__ void skipped_tiles(const __grid_constant__ TensorMap map, float* out) {
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
template <bool broken>
__global__ void surplus_arrivals(float* out) {
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

/// The parity of the phase before the first one is computed as -1.
template <bool broken>
__global__ void parity_below_zero(float* out) {
  __shared__ Mbarrier ready;
  const int use = 0;
  if (threadIdx.x == 0) {
    ready.init(kWarp);  // below zero: the barrier
    fence_barrier_init();
  }
  __syncthreads();
  ready.wait(broken ? (use - 1) % 2 : (use + 1) % 2);  // below zero: waits
  ready.arrive();
  ready.wait(use);
  out[threadIdx.x] = 1;
}

/// The barrier expects twice as many bytes as arrive.
template <bool broken>
__global__ void too_many_bytes(const __grid_constant__ TensorMap map, half* out) {
  const auto [tile, full] = first_stage();
  const unsigned i = threadIdx.x;
  if (i == 0) {
    full.init(1);
    fence_barrier_init();
    full.arrive_and_expect(broken ? 2 * HopperTile::bytes : HopperTile::bytes);
    load_tile(tile, map, full, 0, 0);
  }
  __syncthreads();
  full.wait(0);  // too many bytes: waits
  out[i] = tile.data[i];
}

/// The barrier expects half of the bytes that arrive.
template <bool broken>
__global__ void too_few_bytes(const __grid_constant__ TensorMap map, half* out) {
  const auto [tile, full] = first_stage();
  const unsigned i = threadIdx.x;
  if (i == 0) {
    full.init(1);  // too few bytes: the barrier
    fence_barrier_init();
    full.arrive_and_expect(HopperTile::bytes / (broken ? 2 : 1));
    load_tile(tile, map, full, 0, 0);  // too few bytes: begun
  }
  __syncthreads();
  full.wait(0);
  out[i] = tile.data[i];
}

/// Copies report to a barrier that they may not see.
template <bool broken>
__global__ void no_barrier_fence(const __grid_constant__ TensorMap map, half* out) {
  const auto [tile, full] = first_stage();
  const unsigned i = threadIdx.x;
  if (i == 0) {
    full.init(1);  // no barrier fence: the barrier
    if (!broken) fence_barrier_init();
  }
  __syncthreads();
  if (i == 0) {
    full.arrive_and_expect(HopperTile::bytes);
    load_tile(tile, map, full, 0, 0);  // no barrier fence: begun
  }
  full.wait(0);
  out[i] = tile.data[i];
}

/// A warp waits at a barrier that another warp may not have initialised yet.
template <bool broken>
__global__ void no_sync_after_init(float* out) {
  __shared__ Mbarrier ready;
  const unsigned i = threadIdx.x;
  if (i == 0) {
    ready.init(1);  // no sync: the barrier
    fence_barrier_init();
  }
  if (!broken) __syncthreads();
  if (i == 0) ready.arrive();
  ready.wait(0);  // no sync: waits
  out[i] = 1;
}

/// No thread waits for the second tile, which is not needed.
template <bool broken>
__global__ void copy_at_the_end(const __grid_constant__ TensorMap map, half* out) {
  auto& [tiles, full, empty, pipe] = *dynamic_shared<HopperShared>();
  const unsigned i = threadIdx.x;
  if (i == 0) {
    for (int t = 0; t < 2; ++t) full[t].init(1);
    fence_barrier_init();
    for (int t = 0; t < 2; ++t) {
      full[t].arrive_and_expect(HopperTile::bytes);
      load_tile(tiles[t], map, full[t], 64 * t, 0);  // at the end
    }
  }
  __syncthreads();
  full[0].wait(0);
  if (!broken) full[1].wait(0);
  out[i] = tiles[0].data[i];
}
/// A tile is written and then stored, by one thread.
template <bool broken>
__global__ void no_fence_before_store(const __grid_constant__ TensorMap map) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  for (unsigned i = threadIdx.x; i < 64 * 64; i += kWarp) {
    tile.data[i] = from_float<half>(1);  // store: written
  }
  if (!broken) fence_async_proxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    store_tile(map, tile, 0, 0);  // store: stored
    bulk_commit();
    bulk_wait_read<0>();
  }
}

/// The same for two tiles through one buffer.
template <bool broken>
__global__ void overwritten_store(const __grid_constant__ TensorMap map) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  for (int t = 0; t < 2; ++t) {
    for (unsigned i = threadIdx.x; i < 64 * 64; i += kWarp) {
      tile.data[i] = from_float<half>(1);  // overwritten: written
    }
    fence_async_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
      store_tile(map, tile, 64 * t, 0);  // overwritten: stored
      bulk_commit();
      if (!broken) bulk_wait_read<0>();
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
enum class Forgets { kNegInf, kArrival, kRelease, kAcquire, kProxyFence };

/// The first block stores a row, the second one adds to it.
template <Forgets forgets>
__global__ void store_then_add(const float* in, float* out, unsigned* turn) {
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
inline auto ordered(void (*broken)(const float*, float*, unsigned*)) {
  return [=](bool is_broken) {
    DeviceBuffer<unsigned> turn(1);
    device_zero(turn.data(), sizeof(unsigned));
    launch_plain(is_broken ? broken : store_then_add<Forgets::kNegInf>, {{2}, {32}}, 32, 32,
                 turn.data());
  };
}

/// All of this file.
inline std::vector<BrokenHopperKernel> broken_copies() {
  return in_file(
      "broken_copies.cuh",
      {
          {{"no_wait", "A tile is used before it has arrived.", "copy", "no wait: used",
            "no wait: begun", hopper(no_wait<true>, no_wait<false>, 128)}},
          {{"wrong_parity", "A wait has the parity of an old phase.", "barrier", "parity: released",
            "parity: the barriers", hopper(wrong_parity<true>, wrong_parity<false>, 64)}},
          {{"skipped_at_once", "A lane releases what others still wait for.", "barrier",
            "skipped: waits", "skipped: begun",
            hopper(skipped_tiles<Skip::kAllWait>, skipped_tiles<Skip::kOneWaits>, 64)}},
          {{"skipped_together", "The same, beside a warp barrier.", "barrier", "skipped: waits",
            "skipped: begun",
            hopper(skipped_tiles<Skip::kAllWait>, skipped_tiles<Skip::kWarpBarrier>, 64)}},
          {{"surplus_arrivals", "More threads arrive than a phase needs.", "barrier",
            "surplus: arrives", "surplus: the barrier",
            hopper(surplus_arrivals<true>, surplus_arrivals<false>, 64)}},
          {{"parity_below_zero", "A wait has a parity other than 0 and 1.", "barrier",
            "below zero: waits", "below zero: the barrier",
            hopper(parity_below_zero<true>, parity_below_zero<false>, 32)},
           "for the parity -1"},
          {{"too_many_bytes", "A barrier expects more bytes than arrive.", "deadlock",
            "too many bytes: waits", "", hopper(too_many_bytes<true>, too_many_bytes<false>, 128)},
           "waits for 8192 bytes more than copies bring"},
          {{"too_few_bytes", "A barrier expects too few bytes.", "copy", "too few bytes: begun",
            "too few bytes: the barrier", hopper(too_few_bytes<true>, too_few_bytes<false>, 128)}},
          {{"no_barrier_fence", "Copies do not see the barrier yet.", "barrier",
            "no barrier fence: begun", "no barrier fence: the barrier",
            hopper(no_barrier_fence<true>, no_barrier_fence<false>, 128)}},
          {{"no_sync_after_init", "Other threads do not see the barrier yet.", "barrier",
            "no sync: waits", "no sync: the barrier",
            hopper(no_sync_after_init<true>, no_sync_after_init<false>, 64)}},
          {{"copy_at_the_end", "A block ends before a copy to it.", "copy", "at the end", "",
            hopper(copy_at_the_end<true>, copy_at_the_end<false>, 128)}},
          {{"no_fence_before_store", "A store does not see what was written.", "proxy",
            "store: stored", "store: written",
            hopper(no_fence_before_store<true>, no_fence_before_store<false>, 32)}},
          {{"overwritten_store", "A tile is written while it is stored.", "race",
            "overwritten: written", "overwritten: stored",
            hopper(overwritten_store<true>, overwritten_store<false>, 32)}},
          {{"store_at_the_end", "A block ends before a copy from it.", "copy", "store at the end",
            "", launches(store_at_the_end<true>, store_at_the_end<false>, {{1}, {32}}, 32, 32)},
           "a bulk_wait_read<0>() is missing"},
          {{"counts_too_early", "The store was read, but is not in memory.", "race",
            "ordered: added", "ordered: stored", ordered(store_then_add<Forgets::kArrival>)},
           "(and a bulk_wait<0>() before that where a copy writes)"},
          {{"counts_without_a_fence", "A counter says nothing of the store.", "race",
            "ordered: added", "ordered: stored", ordered(store_then_add<Forgets::kRelease>)}},
          {{"waits_without_acquiring", "A thread that polls the counter may not see it.", "race",
            "ordered: added", "ordered: stored", ordered(store_then_add<Forgets::kAcquire>)}},
          {{"no_fence_before_bulk_add", "A thread is ordered, its copies are not.", "proxy",
            "ordered: added", "ordered: stored", ordered(store_then_add<Forgets::kProxyFence>)}},
      });
}

}  // namespace fa::FA_TARGET
