/// @file
/// Kernels for Hopper with one mistake each, beside their right twins: what the watched lab is
/// measured by. A line that takes part in a mistake has its name in a comment at its end. On a GPU
/// most of the broken ones give wrong numbers now and then, and some never end: run them in the
/// lab. For the same reason kernels stand here that a GPU ends with an error, after which a program
/// cannot use it any more.
#pragma once

#include <string>
#include <vector>

#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"
#include "common/gpu/tests/broken.cuh"

namespace fa::FA_TARGET {

/// An entry of the table. Its kind is that of a lab::Finding, or "deadlock": then the launch
/// throws.
struct BrokenHopperKernel : BrokenKernel {
  std::string says;  ///< words of the message
};

/// The tile of all of them.
using HopperTile = SwizzledTile<half, 64, 64>;
/// Shared memory of those that have barriers.
struct HopperShared {
  HopperTile tiles[2];
  Mbarrier full[2], empty;
  Pipeline<1> pipe;
};

// ---------------------------------------------------------------- copies

/// A tile comes, and is copied to where it is asked for.
//! [no_wait]
template <bool broken>
__global__ void no_wait(const __grid_constant__ TensorMap map, half* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  Mbarrier& full = shared.full[0];
  const unsigned i = threadIdx.x;
  if (i == 0) {
    full.init(1);
    fence_barrier_init();
    full.arrive_and_expect(HopperTile::bytes);
    load_tile(tile, map, full, 0, 0, 0);  // no wait: sent for
  }
  __syncthreads();
  if (!broken) full.wait(0);
  out[i] = tile.data[i];  // no wait: used
}
//! [no_wait]

/// One thread brings tiles through one buffer, a warp sums them.
template <bool broken>
__global__ void wrong_parity(const __grid_constant__ TensorMap map,
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
      load_tile(tile, map, full, 64 * t, 0, 0);
      at.advance();
    }
  }
  if (i >= kWarp) return;
  float sum = 0;
  for (int t = 0; t < 3; ++t) {
    pipe.consumer_wait(at);
    sum += to_float(tile.data[i]);
    pipe.consumer_release(at);  // parity: freed
    if (!broken) at.advance();
  }
  out[i] = sum;
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

/// The barrier is told of twice as many bytes as come.
template <bool broken>
__global__ void too_many_bytes(const __grid_constant__ TensorMap map,
                               half* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  Mbarrier& full = shared.full[0];
  const unsigned i = threadIdx.x;
  if (i == 0) {
    full.init(1);
    fence_barrier_init();
    full.arrive_and_expect(broken ? 2 * HopperTile::bytes
                                  : HopperTile::bytes);
    load_tile(tile, map, full, 0, 0, 0);
  }
  __syncthreads();
  full.wait(0);  // too many bytes: waits
  out[i] = tile.data[i];
}

/// The barrier is told of half of the bytes that come.
template <bool broken>
__global__ void too_few_bytes(const __grid_constant__ TensorMap map,
                              half* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  Mbarrier& full = shared.full[0];
  const unsigned i = threadIdx.x;
  if (i == 0) {
    full.init(1);  // too few bytes: the barrier
    fence_barrier_init();
    full.arrive_and_expect(HopperTile::bytes / (broken ? 2 : 1));
    load_tile(tile, map, full, 0, 0, 0);  // too few bytes: sent for
  }
  __syncthreads();
  full.wait(0);
  out[i] = tile.data[i];
}

/// Copies report to a barrier that they may not see.
template <bool broken>
__global__ void no_barrier_fence(const __grid_constant__ TensorMap map,
                                 half* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  Mbarrier& full = shared.full[0];
  const unsigned i = threadIdx.x;
  if (i == 0) {
    full.init(1);  // no barrier fence: the barrier
    if (!broken) fence_barrier_init();
  }
  __syncthreads();
  if (i == 0) {
    full.arrive_and_expect(HopperTile::bytes);
    load_tile(tile, map, full, 0, 0, 0);  // no barrier fence: sent for
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
__global__ void copy_at_the_end(const __grid_constant__ TensorMap map,
                                half* out) {
  auto& [tiles, full, empty, pipe] = *dynamic_shared<HopperShared>();
  const unsigned i = threadIdx.x;
  if (i == 0) {
    for (int t = 0; t < 2; ++t) full[t].init(1);
    fence_barrier_init();
    for (int t = 0; t < 2; ++t) {
      full[t].arrive_and_expect(HopperTile::bytes);
      load_tile(tiles[t], map, full[t], 64 * t, 0, 0);  // at the end
    }
  }
  __syncthreads();
  full[0].wait(0);
  if (!broken) full[1].wait(0);
  out[i] = tiles[0].data[i];
}

// ---------------------------------------------------------------- stores

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
    store_tile(map, tile, 0, 0, 0);  // store: stored
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
      store_tile(map, tile, 64 * t, 0, 0);  // overwritten: stored
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

/// What one of two blocks forgets.
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

// ---------------------------------------------------------------- products

/// Fills a tile with ones.
__device__ inline void fill_tile(HopperTile& tile) {
  for (unsigned i = threadIdx.x; i < 64 * 64; i += kWarpgroup) {
    tile.data[i] = from_float<half>(1);
  }
}

/// The product of two tiles. What threads write with ordinary stores must be made visible to wgmma.
template <bool broken>
__global__ void __launch_bounds__(kWarpgroup)
    no_fence_before_wgmma(float* out) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  for (unsigned i = threadIdx.x; i < 64 * 64; i += kWarpgroup) {
    tile.data[i] = from_float<half>(1);  // product: written
  }
  if (!broken) fence_async_proxy();
  __syncthreads();
  float sum[32];
  wgmma_fence(sum);
  const auto rows = tile.by_rows(0, 0);
  wgmma<half>(sum, rows, rows, false);  // product: begins
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
  out[threadIdx.x] = sum[0];
}

/// The same with a warpgroup that writes and another one that multiplies. The fence is for the
/// writes of the thread that calls it, before it comes to the barrier.
template <bool broken>
__global__ void __launch_bounds__(2 * kWarpgroup)
    fence_behind_the_barrier(float* out) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  if (threadIdx.x >= kWarpgroup) {
    for (unsigned i = threadIdx.x - kWarpgroup; i < 64 * 64;
         i += kWarpgroup) {
      tile.data[i] = from_float<half>(1);  // late fence: written
    }
    if (!broken) fence_async_proxy();
    named_barrier_arrive(1, 2 * kWarpgroup);
    if (broken) fence_async_proxy();
    return;
  }
  named_barrier_wait(1, 2 * kWarpgroup);
  float sum[32];
  wgmma_fence(sum);
  const auto rows = tile.by_rows(0, 0);
  wgmma<half>(sum, rows, rows, false);  // late fence: begins
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
  out[threadIdx.x] = sum[0];
}

/// The same. The fence comes before the writes.
template <bool broken>
__global__ void __launch_bounds__(kWarpgroup)
    fence_before_the_writes(float* out) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  if (broken) fence_async_proxy();
  for (unsigned i = threadIdx.x; i < 64 * 64; i += kWarpgroup) {
    tile.data[i] = from_float<half>(1);  // early fence: written
  }
  if (!broken) fence_async_proxy();
  __syncthreads();
  float sum[32];
  wgmma_fence(sum);
  const auto rows = tile.by_rows(0, 0);
  wgmma<half>(sum, rows, rows, false);  // early fence: begins
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
  out[threadIdx.x] = sum[0];
}

/// Sums are used while the product is in flight.
//! [no_wgmma_wait]
template <bool broken>
__global__ void __launch_bounds__(kWarpgroup) no_wgmma_wait(float* out) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  fill_tile(tile);
  fence_async_proxy();
  __syncthreads();
  float sum[32];
  wgmma_fence(sum);
  const auto rows = tile.by_rows(0, 0);
  wgmma<half>(sum, rows, rows, false);  // no wait: product
  wgmma_commit(sum);
  if (!broken) wgmma_wait<0>(sum);
  out[threadIdx.x] = sum[0];  // no wait: sum
  wgmma_wait<0>(sum);
}
//! [no_wgmma_wait]

/// Two groups: the wait is for the first one, the sums of the second are scaled.
template <bool broken>
__global__ void __launch_bounds__(kWarpgroup) touched_sums(float* out) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  fill_tile(tile);
  fence_async_proxy();
  __syncthreads();
  float s[32], o[32];
  wgmma_fence(s, o);
  const auto rows = tile.by_rows(0, 0);
  wgmma<half>(s, rows, rows, false);
  wgmma_commit(s);
  wgmma<half>(o, rows, rows, false);  // touched: product
  wgmma_commit(o);
  if (broken) {
    wgmma_wait<1>(s);
  } else {
    wgmma_wait<0>(o);
  }
  for (int i = 0; i < 32; ++i) {
    o[i] *= s[0];  // touched: scaled
  }
  wgmma_wait<0>(o);
  out[threadIdx.x] = o[0];
}

/// The left operand in registers is changed while the product is in flight.
template <bool broken>
__global__ void __launch_bounds__(kWarpgroup)
    overwritten_operand(float* out) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  fill_tile(tile);
  fence_async_proxy();
  __syncthreads();
  float sum[32];
  std::uint32_t frag[2][4];
  for (int k = 0; k < 2; ++k) {
    std::uint32_t* const of_k = frag[broken ? 0 : k];
    for (int i = 0; i < 4; ++i) {
      of_k[i] = pack2<half>(k > 0 ? 1.0f : 3.0f, 2.0f);  // operand: written
    }
    wgmma_fence(sum, frag[broken ? 0 : k]);
    const auto cols = tile.by_columns(16 * k, 0);
    wgmma<half>(sum, frag[broken ? 0 : k], cols, k > 0);  // operand: product
  }
  wgmma_commit(sum, frag[0], frag[1]);
  wgmma_wait<0>(sum);
  out[threadIdx.x] = sum[0];
}

/// A product adds to sums that the thread has just set.
template <bool broken>
__global__ void __launch_bounds__(kWarpgroup) no_wgmma_begin(float* out) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  fill_tile(tile);
  fence_async_proxy();
  __syncthreads();
  float sum[32];
  for (int i = 0; i < 32; ++i) sum[i] = 1;
  if (!broken) wgmma_fence(sum);
  const auto rows = tile.by_rows(0, 0);
  wgmma<half>(sum, rows, rows, true);  // no begin: product
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
  out[threadIdx.x] = sum[0];
}

/// The last product is in a group that no thread waits for.
template <bool broken>
__global__ void __launch_bounds__(kWarpgroup) wgmma_at_the_end(float* out) {
  HopperTile& tile = *dynamic_shared<HopperTile>();
  fill_tile(tile);
  fence_async_proxy();
  __syncthreads();
  float s[32], o[32];
  wgmma_fence(s, o);
  const auto rows = tile.by_rows(0, 0);
  wgmma<half>(s, rows, rows, false);
  wgmma_commit(s);
  wgmma<half>(o, rows, rows, false);  // at the end: product
  wgmma_commit(o);
  wgmma_wait<broken ? 1 : 0>(s);
  out[threadIdx.x] = s[0];
}

/// A product begins before its operand has arrived.
template <bool broken>
__global__ void __launch_bounds__(kWarpgroup)
    operand_not_there(const __grid_constant__ TensorMap map, float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  Mbarrier& full = shared.full[0];
  if (threadIdx.x == 0) {
    full.init(1);
    fence_barrier_init();
    full.arrive_and_expect(HopperTile::bytes);
    load_tile(tile, map, full, 0, 0, 0);  // not there: sent for
  }
  __syncthreads();
  if (!broken) full.wait(0);
  float sum[32];
  wgmma_fence(sum);
  const auto rows = tile.by_rows(0, 0);
  wgmma<half>(sum, rows, rows, false);  // not there: product
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
  full.wait(0);
  out[threadIdx.x] = sum[0];
}

// ---------------------------------------------------------------- pipelines

/// How a pipeline is broken.
enum class Pipe {
  kRight,         ///< it is not
  kNoEmptyWait,   ///< the producer does not wait until a stage is free
  kFreedEarly,    ///< consumers free a stage before their products have ended
  kFreedByOne,    ///< one warp frees it for all
  kTooManyFrees,  ///< the barrier waits for one more than come
};

/// One thread brings tiles through one buffer, a warpgroup multiplies them.
template <Pipe how>
__global__ void __launch_bounds__(kWarpgroup + kWarp)
    pipeline(const __grid_constant__ TensorMap map, float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  Mbarrier &full = shared.full[0], &empty = shared.empty;
  const unsigned i = threadIdx.x;
  constexpr int tiles = 3;
  if (i == 0) {
    full.init(1);
    empty.init(how == Pipe::kFreedByOne     ? 1
               : how == Pipe::kTooManyFrees ? 5
                                            : 4);
    fence_barrier_init();
  }
  __syncthreads();
  if (i == kWarpgroup) {
    for (int t = 0; t < tiles; ++t) {
      if (how != Pipe::kNoEmptyWait) {
        empty.wait(t % 2 ^ 1);  // pipeline: waits for empty
      }
      full.arrive_and_expect(HopperTile::bytes);
      load_tile(tile, map, full, 64 * t, 0, 0);  // pipeline: sent for
    }
  }
  if (i >= kWarpgroup) return;
  float sum[32];
  for (int t = 0; t < tiles; ++t) {
    full.wait(t % 2);
    wgmma_fence(sum);
    const auto rows = tile.by_rows(0, 0);
    wgmma<half>(sum, rows, rows, t > 0);  // pipeline: product
    wgmma_commit(sum);
    if (how == Pipe::kFreedEarly && i % kWarp == 0) empty.arrive();
    wgmma_wait<0>(sum);
    if (how != Pipe::kFreedEarly &&
        (how == Pipe::kFreedByOne ? i == 0 : i % kWarp == 0)) {
      empty.arrive();
    }
  }
  out[i] = sum[0];
}

/// A warpgroup brings its tiles itself: the next one must not come before the products with this
/// one have ended.
//! [overwritten_tile]
template <bool broken>
__global__ void __launch_bounds__(kWarpgroup)
    overwritten_tile(const __grid_constant__ TensorMap map, float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  Mbarrier& full = shared.full[0];
  const auto fetch = [&](int t) {
    full.arrive_and_expect(HopperTile::bytes);
    load_tile(tile, map, full, 64 * t, 0, 0);  // next: sent for
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
    wgmma<half>(sum, rows, rows, t > 0);  // next: product
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
template <bool broken>
__global__ void __launch_bounds__(2 * kWarpgroup)
    wrong_named_barrier(float* out) {
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  named_barrier_wait(broken ? 1 + group : 1, 2 * kWarpgroup);  // named waits
  out[threadIdx.x] = 1;
}

/// A warp leaves its rows of a product in the place of the left operand, of which other warps may
/// still read all rows.
template <bool broken>
__global__ void __launch_bounds__(kWarpgroup)
    overwritten_left_tile(float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile &left = shared.tiles[0], &right = shared.tiles[1];
  fill_tile(left);
  fill_tile(right);
  fence_async_proxy();
  __syncthreads();
  float sum[32];
  wgmma_fence(sum);
  const auto a = left.by_rows(0, 0), b = right.by_rows(0, 0);
  wgmma<half>(sum, a, b, false);  // left tile: product
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
  if (!broken) named_barrier_wait(1, kWarpgroup);
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  half* const row = left.at(static_cast<int>(16 * warp + lane % 16), 0);
  row[lane / 16] = from_float<half>(sum[0]);  // left tile: overwritten
  out[threadIdx.x] = sum[0];
}

// ---------------------------------------------------------------- addresses

/// Loads of 16 bytes begin at the second float.
template <bool broken>
__global__ void misaligned_load(const float* in, float* out) {
  const float4 four = load4(in + 4 * threadIdx.x + broken);  // load4: address
  out[threadIdx.x] = four.x + four.w;
}
/// The same in CUDA's own words.
template <bool broken>
__global__ void misaligned_vector(const float* in, float* out) {
  const auto* fours = reinterpret_cast<const float4*>(in + broken);
  const float4 four = fours[threadIdx.x];  // float4: address
  out[threadIdx.x] = four.x + four.w;
}
/// Stores of 8 bytes begin at the second float.
template <bool broken>
__global__ void misaligned_store(const float* in, float* out) {
  const float x = in[threadIdx.x];
  store2(out + 2 * threadIdx.x + broken, x, x);  // store2: address
}
/// Asynchronous copies of 16 bytes begin at the second float.
template <bool broken>
__global__ void misaligned_copy(const float* in, float* out) {
  __shared__ __align__(16) float row[4 * kWarp];
  const unsigned i = threadIdx.x;
  cp_async16(row + 4 * i, in + 4 * i + broken);  // cp.async: address
  cp_async_commit();
  cp_async_wait<0>();
  out[i] = row[4 * i];
}
/// Rows of 20 numbers are 40 bytes apart: every second one is no place for ldmatrix.
template <bool broken>
__global__ void misaligned_rows(const float* in, float* out) {
  constexpr unsigned ld = broken ? 20 : 24;
  __shared__ __align__(16) half tile[16 * ld];
  const unsigned i = threadIdx.x;
  for (unsigned e = i; e < 16 * ld; e += kWarp) {
    tile[e] = from_float<half>(in[i]);
  }
  __syncwarp();
  std::uint32_t r[4];
  ldmatrix_x4(r, tile + i % 16 * ld + i / 16 * 8);  // ldmatrix: row
  out[i] = static_cast<float>(r[0] + r[1] + r[2] + r[3]);
}
/// The same for stmatrix.
template <bool broken>
__global__ void misaligned_rows_out(const float* in, float* out) {
  constexpr unsigned ld = broken ? 20 : 24;
  __shared__ __align__(16) half tile[16 * ld];
  const unsigned i = threadIdx.x;
  const std::uint32_t pair = pack2<half>(in[i], in[i]);
  const std::uint32_t r[4] = {pair, pair, pair, pair};
  stmatrix_x4(tile + i % 16 * ld + i / 16 * 8, r);  // stmatrix: row
  __syncwarp();
  out[i] = to_float(tile[i % 16 * ld]);
}

// ---------------------------------------------------------------- warps

/// Two halves of a warp give their sums to each other, in two branches.
template <bool broken>
__global__ void shuffles_in_two_branches(const float* in, float* out) {
  const unsigned i = threadIdx.x;
  const float x = in[i];
  float other = 0;
  if (!broken) {
    other = __shfl_xor_sync(kAllLanes, x, 16);
  } else if (i < 16) {
    other = __shfl_xor_sync(kAllLanes, x, 16);  // branches: first half
  } else {
    other = __shfl_xor_sync(kAllLanes, x, 16);  // branches: second half
  }
  out[i] = x + other;
}
/// The lower half of a warp takes a value of the upper one.
template <bool broken>
__global__ void shuffle_from_outside(const float* in, float* out) {
  const unsigned i = threadIdx.x;
  const float x = in[i];
  if (i >= 16) return;
  out[i] = __shfl_sync(0xffffu, x, broken ? 20 : 4);  // outside: shuffle
}
/// An operand of a TF32 matmul keeps all bits of a float32, of which 13 are not read.
template <bool broken>
__global__ void raw_tf32_operand(const float* in, float* out) {
  const std::uint32_t x = __float_as_uint(in[threadIdx.x] / 3);
  const std::uint32_t part = broken ? x : tf32_nearest(x);
  const std::uint32_t a[4] = {part, part, part, part}, b[2] = {};
  float d[4] = {};
  mma_m16n8k8(d, a, b);  // raw: operand
  out[threadIdx.x] = d[0];
}
/// A warp waits for a flag that another warp sets behind a barrier, at which the first one does not
/// come.
template <bool broken>
__global__ void spins_before_the_barrier(unsigned* flag, float* out) {
  const unsigned i = threadIdx.x;
  if (i == 0) {
    while (load_acquire(flag) == 0) continue;  // spins: flag
  }
  if (broken) __syncthreads();
  if (i == kWarp) {
    __threadfence();
    atomicAdd(flag, 1u);
  }
  out[i] = 1;
}

// ---------------------------------------------------------------- dependent launches

/// Doubles each number, and lets the next kernel start before it does.
__global__ void previous_kernel(const float* in, float* out) {
  launch_dependents();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 2 * in[i];  // early: written
}
/// Turns the numbers of the kernel before it around. One thread waits for the block.
template <bool broken>
__global__ void early_kernel(const float* in, float* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (!broken && threadIdx.x == 0) grid_dependency_wait();
  __syncthreads();
  out[i] = in[gridDim.x * blockDim.x - 1 - i];  // early: read
}

// ---------------------------------------------------------------- clusters

/// All threads of the cluster meet.
__device__ inline void cluster_meet() {
  cluster_arrive();
  cluster_wait();
}

/// Each thread of a cluster of two reads what its twin in the other block has written.
template <bool broken>
__global__ void no_cluster_wait(float* out) {
  float* const row = dynamic_shared<float>();
  const unsigned i = threadIdx.x;
  row[i] = 1;  // peers: written
  if (broken) {
    __syncthreads();
  } else {
    cluster_meet();
  }
  const float* const from = peer_shared(row + i, 1 - cluster_rank());
  out[64 * blockIdx.x + i] = *from;  // peers: read
  cluster_meet();
}

/// The same, and a block ends while the other one may still read.
template <bool broken>
__global__ void peer_has_ended(float* out) {
  float* const row = dynamic_shared<float>();
  const unsigned i = threadIdx.x;
  row[i] = 1;
  cluster_meet();
  const float* const from = peer_shared(row + i, 1 - cluster_rank());
  out[64 * blockIdx.x + i] = *from;  // ended: read
  if (!broken) cluster_meet();
}

/// Block 1 arrives at a barrier of block 0.
template <bool broken>
__global__ void peer_barrier_not_made(float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  const unsigned i = threadIdx.x;
  const int rank = cluster_rank();
  if (i == 0) {
    shared.empty.init(1);  // peer: the barrier
    fence_barrier_init();
  }
  if (broken) {
    __syncthreads();
  } else {
    cluster_meet();
  }
  if (rank == 1 && i == 0) {
    shared.empty.arrive_at_peer(0);  // peer: arrives
  }
  if (rank == 0) shared.empty.wait(0);
  out[64 * rank + i] = 1;
  cluster_meet();
}

/// Block 1 arrives at a barrier of block 0, which does not wait for it.
template <bool broken>
__global__ void arrives_at_the_end(float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  const unsigned i = threadIdx.x;
  const int rank = cluster_rank();
  if (i == 0) {
    shared.empty.init(1);
    fence_barrier_init();
  }
  cluster_meet();
  out[64 * rank + i] = 1;
  if (rank == 1 && i == 0) {
    shared.empty.arrive_at_peer(0);  // end: arrives
  }
  if (!broken) cluster_meet();
}

/// Block 0 brings two tiles, one after the other, to both blocks. Each has released the first one
/// before the second one comes; or block 0 asks itself only.
template <bool broken>
__global__ void multicast_too_early(const __grid_constant__ TensorMap map,
                                    half* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  HopperTile& tile = shared.tiles[0];
  const unsigned i = threadIdx.x;
  const int rank = cluster_rank();
  if (i == 0) {
    shared.full[0].init(1);
    shared.empty.init(broken ? 64 : 128);  // of one block, or of two
    fence_barrier_init();
  }
  cluster_meet();
  for (int t = 0; t < 2; ++t) {
    if (i == 0) {
      shared.full[0].arrive_and_expect(HopperTile::bytes);
      if (rank == 0) {
        if (t > 0) shared.empty.wait(0);
        tma_load_multicast(  // multicast: begun
            tile.data, map, shared.full[0], 0, 64 * t, 0, 0, 3);
      }
    }
    shared.full[0].wait(t);
    out[64 * rank + i] = tile.data[i];
    if (t == 0 && (rank == 0 || !broken)) shared.empty.arrive_at_peer(0);
  }
  cluster_meet();
}

/// Block 0 sends rows to block 1, and writes the next one.
template <bool broken>
__global__ void overwritten_copy_to_peer(float* out) {
  auto& shared = *dynamic_shared<HopperShared>();
  auto* const row = reinterpret_cast<float*>(shared.tiles[0].data);
  auto* const sent = reinterpret_cast<float*>(shared.tiles[1].data);
  const unsigned i = threadIdx.x;
  const int rank = cluster_rank();
  if (i == 0) {
    shared.full[0].init(1);
    fence_barrier_init();
    if (rank == 1) shared.full[0].arrive_and_expect(4 * 64);
  }
  row[i] = 1;
  fence_async_proxy();
  cluster_meet();
  if (rank == 0 && i == 0) {
    bulk_copy_to_peer(sent, row, 4 * 64, shared.full[0], 1);  // sent: begun
  }
  if (rank == 1) {
    shared.full[0].wait(0);
    out[i] = sent[i];
  }
  if (!broken) cluster_meet();  // the row has been read
  if (rank == 0) row[i] = 2;    // sent: overwritten
  cluster_meet();
}

// ---------------------------------------------------------------- the table

/// Ones, as a tensor of three tiles.
struct HopperInput {
  DeviceBuffer<half> data{3 * 64 * 64};
  DeviceBuffer<half> out{64 * 64};
  DeviceBuffer<float> sums{2 * kWarpgroup};
  HopperInput() {
    data.zero();
    sums.zero();
  }
  TensorMap map() const {
    return tensor_map(data.data(), {1, 1, 3 * 64, 64}, {0, 0, 64}, 64);
  }
};

/// Launches `first` and then `second`, which may begin before the end of `first`. Both compute four
/// blocks of 32 numbers from as many.
inline void launch_early(void (*first)(const float*, float*),
                         void (*second)(const float*, float*)) {
  const auto in = ones(128);
  DeviceBuffer<float> middle(128), out(128);
  const Stream stream;
  device_synchronize();
  launch(stream, first, {{4}, {32}}, in.data(), middle.data());
  Launch early{{4}, {32}};
  early.with_pdl = true;
  launch(stream, second, early, middle.data(), out.data());
  device_synchronize();
}

/// All of them.
inline std::vector<BrokenHopperKernel> broken_hopper_kernels() {
  constexpr std::size_t bytes = sizeof(HopperShared);
  const auto with_out = [](auto broken, auto right, unsigned threads) {
    return [=](bool is_broken) {
      HopperInput in;
      launch(is_broken ? broken : right, {{1}, {threads}, bytes}, in.map(),
             in.out.data());
      device_synchronize();
    };
  };
  const auto with_sums = [](auto broken, auto right, unsigned threads) {
    return [=](bool is_broken) {
      HopperInput in;
      launch(is_broken ? broken : right, {{1}, {threads}, bytes}, in.map(),
             in.sums.data());
      device_synchronize();
    };
  };
  const auto with_map = [](auto broken, auto right) {
    return [=](bool is_broken) {
      HopperInput in;
      launch(is_broken ? broken : right, {{1}, {32}, bytes}, in.map());
      device_synchronize();
    };
  };
  const auto alone = [](auto broken, auto right, unsigned threads) {
    return [=](bool is_broken) {
      HopperInput in;
      launch(is_broken ? broken : right, {{1}, {threads}, bytes},
             in.sums.data());
      device_synchronize();
    };
  };
  const auto clustered = [](auto broken, auto right) {
    return [=](bool is_broken) {
      HopperInput in;
      launch(is_broken ? broken : right, {{2}, {64}, bytes, 0, false, 2},
             in.sums.data());
      device_synchronize();
    };
  };
  const auto ordered = [](auto broken) {
    return [=](bool is_broken) {
      DeviceBuffer<unsigned> turn(1);
      device_zero(turn.data(), sizeof(unsigned));
      launch_plain(is_broken ? broken : store_then_add<Forgets::kNegInf>,
                   {{2}, {32}}, 32, 32, turn.data());
    };
  };
  const auto plain = [](auto broken, auto right) {
    return [=](bool is_broken) {
      launch_plain(is_broken ? broken : right, {{1}, {kWarp}}, 4 * kWarp + 4,
                   2 * kWarp + 2);
    };
  };
  return {
      {{"no_wait", "A tile is used before it has arrived.", "copy",
        "no wait: used", "no wait: sent for",
        with_out(no_wait<true>, no_wait<false>, 128)},
       "its mbarrier was not waited for"},
      {{"wrong_parity", "A wait has the parity of an old phase.", "barrier",
        "parity: freed", "parity: the barriers",
        with_sums(wrong_parity<true>, wrong_parity<false>, 64)},
       "arrives twice in one phase"},
      {{"surplus_arrivals", "More threads arrive than a phase needs.",
        "barrier", "surplus: arrives", "surplus: the barrier",
        alone(surplus_arrivals<true>, surplus_arrivals<false>, 64)},
       "no thread has waited for the phase before it"},
      {{"parity_below_zero", "A wait has a parity other than 0 and 1.",
        "barrier", "below zero: waits", "below zero: the barrier",
        alone(parity_below_zero<true>, parity_below_zero<false>, 32)},
       "for the parity -1"},
      {{"too_many_bytes", "A barrier expects more bytes than arrive.",
        "deadlock", "too many bytes: waits", "",
        with_out(too_many_bytes<true>, too_many_bytes<false>, 128)},
       "waits for 8192 bytes more than copies bring"},
      {{"too_few_bytes", "A barrier expects too few bytes.", "copy",
        "too few bytes: sent for", "too few bytes: the barrier",
        with_out(too_few_bytes<true>, too_few_bytes<false>, 128)},
       "its phase ends before all of them have arrived"},
      {{"no_barrier_fence", "Copies do not see the barrier yet.", "barrier",
        "no barrier fence: sent for", "no barrier fence: the barrier",
        with_out(no_barrier_fence<true>, no_barrier_fence<false>, 128)},
       "fence_barrier_init() is missing"},
      {{"no_sync_after_init", "Other threads do not see the barrier yet.",
        "barrier", "no sync: waits", "no sync: the barrier",
        alone(no_sync_after_init<true>, no_sync_after_init<false>, 64)},
       "a __syncthreads() is probably missing"},
      {{"copy_at_the_end", "A block ends before a copy to it.", "copy",
        "at the end", "",
        with_out(copy_at_the_end<true>, copy_at_the_end<false>, 128)},
       "no thread has waited for its mbarrier"},
      {{"no_fence_before_store", "A store does not see what was written.",
        "proxy", "store: stored", "store: written",
        with_map(no_fence_before_store<true>, no_fence_before_store<false>)},
       "fence_async_proxy() is missing"},
      {{"overwritten_store", "A tile is written while it is stored.", "race",
        "overwritten: written", "overwritten: stored",
        with_map(overwritten_store<true>, overwritten_store<false>)},
       "a bulk_wait_read() is probably missing"},
      {{"store_at_the_end", "A block ends before a copy from it.", "copy",
        "store at the end", "",
        [](bool broken) {
          launch_plain(
              broken ? store_at_the_end<true> : store_at_the_end<false>,
              {{1}, {32}}, 32, 32);
        }},
       "a bulk_wait_read<0>() is missing"},
      {{"counts_too_early", "The store was read, but is not in memory.",
        "race", "ordered: added", "ordered: stored",
        ordered(store_then_add<Forgets::kArrival>)},
       "(and a bulk_wait<0>() before that where a copy writes)"},
      {{"counts_without_a_fence", "A counter says nothing of the store.",
        "race", "ordered: added", "ordered: stored",
        ordered(store_then_add<Forgets::kRelease>)},
       "with a __threadfence() before it in the one"},
      {{"waits_without_acquiring",
        "A thread that polls the counter may not see it.", "race",
        "ordered: added", "ordered: stored",
        ordered(store_then_add<Forgets::kAcquire>)},
       "an atomic_add_acquire() or load_acquire() in the other"},
      {{"no_fence_before_bulk_add",
        "A thread is ordered, its copies are not.", "proxy", "ordered: added",
        "ordered: stored", ordered(store_then_add<Forgets::kProxyFence>)},
       "fence_async_proxy_global() is missing before this line"},
      {{"no_fence_before_wgmma", "A wgmma does not see what was written.",
        "proxy", "product: begins", "product: written",
        alone(no_fence_before_wgmma<true>, no_fence_before_wgmma<false>,
              128)},
       "fence_async_proxy() is missing"},
      {{"fence_behind_the_barrier", "The fence is for others' writes.",
        "proxy", "late fence: begins", "late fence: written",
        alone(fence_behind_the_barrier<true>, fence_behind_the_barrier<false>,
              256)},
       "in the thread that writes and before the barrier"},
      {{"fence_before_the_writes", "The fence comes before the writes.",
        "proxy", "early fence: begins", "early fence: written",
        alone(fence_before_the_writes<true>, fence_before_the_writes<false>,
              128)},
       "fence_async_proxy() is missing"},
      {{"no_wgmma_wait", "Accumulators are used too early.", "wgmma",
        "no wait: sum", "no wait: product",
        alone(no_wgmma_wait<true>, no_wgmma_wait<false>, 128)},
       "a wgmma_wait() is probably missing before this line"},
      {{"touched_sums", "Accumulators are scaled in flight.", "wgmma",
        "touched: scaled", "touched: product",
        alone(touched_sums<true>, touched_sums<false>, 128)},
       "an accumulator of the wgmma() of the other line"},
      {{"overwritten_operand", "A left operand is overwritten too early.",
        "wgmma", "operand: written", "operand: product",
        alone(overwritten_operand<true>, overwritten_operand<false>, 128)},
       "writes the left operand, in registers,"},
      {{"no_wgmma_begin", "Accumulators are set before a wgmma.", "wgmma",
        "no begin: product", "",
        alone(no_wgmma_begin<true>, no_wgmma_begin<false>, 128)},
       "wgmma_fence() is missing"},
      {{"wgmma_at_the_end", "A kernel ends before a wgmma.", "wgmma",
        "at the end: product", "",
        alone(wgmma_at_the_end<true>, wgmma_at_the_end<false>, 128)},
       "without wgmma_wait() for this wgmma()"},
      {{"operand_not_there", "A wgmma begins without its operand.", "copy",
        "not there: product", "not there: sent for",
        with_sums(operand_not_there<true>, operand_not_there<false>, 128)},
       "its mbarrier was not waited for"},
      {{"no_empty_wait", "A tile is overwritten before it is used.", "race",
        "pipeline: sent for", "pipeline: sent for",
        with_sums(pipeline<Pipe::kNoEmptyWait>, pipeline<Pipe::kRight>, 160)},
       "a barrier at which all that use the old contents arrive"},
      {{"overwritten_tile", "A tile is overwritten while it is read.", "race",
        "next: sent for", "next: product",
        with_sums(overwritten_tile<true>, overwritten_tile<false>, 128)},
       "which the wgmma() of the other line may still read"},
      {{"freed_early", "A tile is freed before its wgmma ends.", "race",
        "pipeline: sent for", "pipeline: product",
        with_sums(pipeline<Pipe::kFreedEarly>, pipeline<Pipe::kRight>, 160)},
       "which the wgmma() of the other line may still read"},
      {{"freed_by_one", "One warp frees what others still read.", "race",
        "pipeline: sent for", "pipeline: product",
        with_sums(pipeline<Pipe::kFreedByOne>, pipeline<Pipe::kRight>, 160)},
       "a barrier at which all of its warps arrive after it"},
      {{"too_many_frees", "A barrier waits for one warp too many.",
        "deadlock", "pipeline: waits for empty", "",
        with_sums(pipeline<Pipe::kTooManyFrees>, pipeline<Pipe::kRight>,
                  160)},
       "waits for 1 of 5 arrivals"},
      {{"wrong_named_barrier", "Two warpgroups wait at different barriers.",
        "deadlock", "named waits", "",
        alone(wrong_named_barrier<true>, wrong_named_barrier<false>, 256)},
       "with 128 of 256 threads there"},
      {{"overwritten_left_tile", "A warp overwrites what others multiply.",
        "race", "left tile: product", "left tile: overwritten",
        alone(overwritten_left_tile<true>, overwritten_left_tile<false>,
              128)},
       "a barrier is probably missing between the two lines"},
      {{"no_cluster_wait", "Blocks of a cluster race.", "race",
        "peers: written", "peers: read",
        clustered(no_cluster_wait<true>, no_cluster_wait<false>)},
       "the two are in different blocks of the cluster"},
      {{"peer_has_ended", "A block ends while another reads its memory.",
        "cluster", "ended: read", "",
        clustered(peer_has_ended<true>, peer_has_ended<false>)},
       "nothing makes that block wait for it before it ends"},
      {{"peer_barrier_not_made", "A block may not have made its barrier yet.",
        "barrier", "peer: arrives", "peer: the barrier",
        clustered(peer_barrier_not_made<true>, peer_barrier_not_made<false>)},
       "a cluster_arrive() and cluster_wait() is probably missing"},
      {{"arrives_at_the_end", "A block ends before others arrive there.",
        "cluster", "end: arrives", "",
        clustered(arrives_at_the_end<true>, arrives_at_the_end<false>)},
       "nothing makes that block wait for it before it ends"},
      {{"multicast_too_early", "A copy comes before a peer is ready.", "race",
        "multicast: begun", "multicast: begun",
        [](bool broken) {
          HopperInput in;
          launch(
              broken ? multicast_too_early<true> : multicast_too_early<false>,
              {{2}, {64}, bytes, 0, false, 2}, in.map(), in.out.data());
          device_synchronize();
        }},
       "a barrier at which all that use the old contents arrive"},
      {{"overwritten_copy_to_peer", "A row is written while it is sent.",
        "race", "sent: overwritten", "sent: begun",
        clustered(overwritten_copy_to_peer<true>,
                  overwritten_copy_to_peer<false>)},
       "which the copy to another block of the other line may still read"},
      {{"misaligned_load", "16 bytes are loaded from a multiple of 4.",
        "misaligned", "load4: address", "",
        plain(misaligned_load<true>, misaligned_load<false>)},
       "at an address 4 bytes beyond a multiple of 16"},
      {{"misaligned_vector", "The same in CUDA's own words.", "misaligned",
        "float4: address", "",
        plain(misaligned_vector<true>, misaligned_vector<false>)},
       "at an address 4 bytes beyond a multiple of 16"},
      {{"misaligned_store", "8 bytes are stored to a multiple of 4.",
        "misaligned", "store2: address", "",
        plain(misaligned_store<true>, misaligned_store<false>)},
       "at an address 4 bytes beyond a multiple of 8"},
      {{"misaligned_copy", "16 bytes are copied from a multiple of 4.",
        "misaligned", "cp.async: address", "",
        plain(misaligned_copy<true>, misaligned_copy<false>)},
       "at an address 4 bytes beyond a multiple of 16"},
      {{"misaligned_rows", "Rows for ldmatrix are 40 bytes apart.",
        "misaligned", "ldmatrix: row", "",
        plain(misaligned_rows<true>, misaligned_rows<false>)},
       "at an address 8 bytes beyond a multiple of 16"},
      {{"misaligned_rows_out", "Rows for stmatrix are 40 bytes apart.",
        "misaligned", "stmatrix: row", "",
        plain(misaligned_rows_out<true>, misaligned_rows_out<false>)},
       "at an address 8 bytes beyond a multiple of 16"},
      {{"shuffles_in_two_branches", "Lanes shuffle in two branches.", "warp",
        "branches: second half", "branches: first half",
        plain(shuffles_in_two_branches<true>,
              shuffles_in_two_branches<false>)},
       "move it out of the branch"},
      {{"shuffle_from_outside", "A shuffle takes from outside of its mask.",
        "warp", "outside: shuffle", "",
        plain(shuffle_from_outside<true>, shuffle_from_outside<false>)},
       "takes the value of lane 20, which is not in the mask 0xffff"},
      {{"raw_tf32_operand", "A TF32 operand has 13 bits too many.", "operand",
        "raw: operand", "",
        plain(raw_tf32_operand<true>, raw_tf32_operand<false>)},
       "an operand with more bits than TF32 has"},
      {{"spins_before_the_barrier", "A flag is set behind a barrier.",
        "deadlock", "spins: flag", "",
        [](bool broken) {
          DeviceBuffer<unsigned> flag(1);
          flag.zero();
          DeviceBuffer<float> out(2 * kWarp);
          launch(broken ? spins_before_the_barrier<true>
                        : spins_before_the_barrier<false>,
                 {{1}, {2 * kWarp}}, flag.data(), out.data());
          device_synchronize();
        }},
       "reading a flag again and again"},
      {{"early_without_wait", "A kernel does not wait for the previous one.",
        "race", "early: read", "early: written",
        [](bool broken) {
          launch_early(previous_kernel,
                       broken ? early_kernel<true> : early_kernel<false>);
        }},
       "grid_dependency_wait() is missing before this line"},
  };
}

}  // namespace fa::FA_TARGET
