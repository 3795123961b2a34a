// The two kernels that chapter 5 shows after its exercises: a ring of stages between a producer and
// a consumer, and wgmma on one tile.
#include <vector>

#include <doctest/doctest.h>

#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"
#include "common/gpu/tests/gpus.hpp"
#include "common/tensor/random.hpp"

namespace fa::FA_TARGET {
namespace {

constexpr int kStages = 3, kStageSize = 256;

struct RingStorage {
  __align__(16) float stages[kStages][kStageSize];
  Mbarrier full[kStages], empty[kStages];
};

// out[0] = the sum of so many tiles of x. One block of two warps.
//! [ring_sum]
__global__ void ring_sum(const float* x, float* out, int tiles) {
  auto& shared = *dynamic_shared<RingStorage>();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      shared.full[i].init(1);       // the producer, and bytes
      shared.empty[i].init(kWarp);  // all lanes of the consumer
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {  // the producer
    if (threadIdx.x != 0) return;
    const int bytes = kStageSize * static_cast<int>(sizeof(float));
    for (int t = 0; t < tiles; ++t) {
      const int stage = t % kStages, round = t / kStages;
      shared.empty[stage].wait((round + 1) % 2);
      shared.full[stage].arrive_and_expect(bytes);
      float* const to = shared.stages[stage];
      bulk_load(to, x + t * kStageSize, bytes, shared.full[stage]);
    }
    return;
  }
  const int lane = threadIdx.x % kWarp;
  float sum = 0;
  for (int t = 0; t < tiles; ++t) {
    const int stage = t % kStages, round = t / kStages;
    shared.full[stage].wait(round % 2);
    for (int i = lane; i < kStageSize; i += kWarp) {
      sum += shared.stages[stage][i];
    }
    shared.empty[stage].arrive();
  }
  sum = warp_sum(sum);
  if (lane == 0) *out = sum;
}
//! [ring_sum]

struct OneTileStorage {
  SwizzledTile<bfloat16, 64, 64> a, b;
  Mbarrier full;
};

// C = A B^T, all sizes 64. One block, which is one warpgroup.
//! [one_tile]
__global__ void __launch_bounds__(kWarpgroup)
    one_tile(const __grid_constant__ TensorMap a_map,  // 64 x 64, of A
             const __grid_constant__ TensorMap b_map, float* c) {
  auto& shared = *dynamic_shared<OneTileStorage>();
  if (threadIdx.x == 0) {
    shared.full.init(1);
    fence_barrier_init();
    shared.full.arrive_and_expect(2 * 64 * 64 * 2);
    load_tile(shared.a, a_map, shared.full, 0, 0);
    load_tile(shared.b, b_map, shared.full, 0, 0);
  }
  __syncthreads();  // the barrier is initialised
  shared.full.wait(0);
  float d[32] = {};
  wgmma_fence(d);
  const auto a = matrix_descriptor<Major::kK>(shared.a.data, 0);
  const auto b = matrix_descriptor<Major::kK>(shared.b.data, 0);
#pragma unroll
  for (int kk = 0; kk < 64; kk += 16) {  // 16 elements are 32 bytes
    wgmma<bfloat16>(d, a + 2 * kk, b + 2 * kk, true);
  }
  wgmma_commit();
  wgmma_wait<0>(d);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int row = 16 * warp + i / 2 % 2 * 8 + lane / 4;
    const int col = i / 4 * 8 + lane % 4 * 2 + i % 2;
    c[64 * row + col] = d[i];
  }
}
//! [one_tile]

TEST_CASE("the ring of chapter 5 sums every tile") {
  FA_SKIP_WHERE_MISSING(device_properties(), kNeedsHopper);
  for (const int tiles : {1, 2, 3, 4, 7, 12}) {
    CAPTURE(tiles);
    Tensor<float, 1> x({tiles * kStageSize});
    float expected = 0;
    for (int i = 0; i < x.count(); ++i) {
      x(i) = static_cast<float>(random_bits(3, static_cast<std::uint64_t>(i)) % 9) - 4;
      expected += x(i);
    }
    const DeviceBuffer<float> device_x(x);
    DeviceBuffer<float> out(1);
    launch(ring_sum, {{1}, {2 * kWarp}, sizeof(RingStorage)}, device_x.data(), out.data(), tiles);
    CHECK(out.tensor<float, 1>({1})(0) == expected);
  }
}

TEST_CASE("the tile of chapter 5 is multiplied") {
  FA_SKIP_WHERE_MISSING(device_properties(), kNeedsHopper);
  Tensor<fa::bfloat16, 2> a({64, 64}), b({64, 64});
  for (int i = 0; i < 64; ++i) {
    for (int kk = 0; kk < 64; ++kk) {
      const auto at = static_cast<std::uint64_t>(64 * i + kk);
      a(i, kk) = static_cast<fa::bfloat16>(static_cast<float>(random_bits(1, at) % 9) - 4);
      b(i, kk) = static_cast<fa::bfloat16>(static_cast<float>(random_bits(2, at) % 9) - 4);
    }
  }
  const DeviceBuffer<bfloat16> device_a(a), device_b(b);
  DeviceBuffer<float> c(64 * 64);
  launch(one_tile, {{1}, {kWarpgroup}, sizeof(OneTileStorage)},
         tensor_map(device_a.data(), 64, 64, 64, 64), tensor_map(device_b.data(), 64, 64, 64, 64),
         c.data());
  const auto result = c.tensor<float, 2>({64, 64});
  int wrong = 0;
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) {
      float sum = 0;
      for (int kk = 0; kk < 64; ++kk) {
        sum += static_cast<float>(a(i, kk)) * static_cast<float>(b(j, kk));
      }
      wrong += result(i, j) != sum;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace fa::FA_TARGET
