// Steps 19 to 22 with both types, tiles of other sizes, and few blocks, so that each of them has
// several tiles. And the two kernels that the appendix of small kernels shows: a ring of stages
// between a producer and a consumer, and wgmma on one tile.
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "04_tiled_matmul/kernels/19_matmul_wgmma.cuh"
#include "04_tiled_matmul/kernels/20_matmul_stages.cuh"
#include "04_tiled_matmul/kernels/21_matmul_persistent.cuh"
#include "04_tiled_matmul/kernels/22_matmul_cluster.cuh"
#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"
#include "common/gpu/tests/gpus.hpp"
#include "common/tensor/random.hpp"

namespace fa::FA_TARGET {
namespace {

// Integers from -4 to 4: matmuls of them are exact in all types.
template <class H>
Tensor<H, 2> small_numbers(int rows, int cols, int ld, std::uint64_t seed) {
  Tensor<H, 2> result({rows, ld});  // NaN between cols and ld: TMA leaves it
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < ld; ++col) {
      const auto i = static_cast<std::uint64_t>(row * ld + col);
      result(row, col) =
          static_cast<H>(col < cols ? static_cast<float>(random_bits(seed, i) % 9) - 4 : NAN);
    }
  }
  return result;
}

// The elements of C that are not the sums of A B, or A B^T, of depth k.
template <class H>
int wrong_elements(const Tensor<H, 2>& a, const Tensor<H, 2>& b, bool b_transposed,
                   const Tensor<float, 2>& c, int n, int k) {
  int wrong = 0;
  for (std::int64_t i = 0; i < c.size(0); ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int kk = 0; kk < k; ++kk) {
        sum +=
            static_cast<float>(a(i, kk)) * static_cast<float>(b_transposed ? b(j, kk) : b(kk, j));
      }
      wrong += c(i, j) != sum;
    }
  }
  return wrong;
}

// Launches a kernel.
template <class T>
using LaunchStep = std::function<void(const MatmulParams<T>&)>;

// Checks a kernel on one matmul. H is the host's type of T.
template <class T, class H>
void check_matmul(bool b_transposed, int m, int n, int k, const LaunchStep<T>& launch_step) {
  CAPTURE(b_transposed);
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  const auto up = [](int size, int unit) { return ceil_div(size, unit) * unit; };
  MatmulParams<T> p{};
  p.m = m;
  p.n = n;
  p.k = k;
  p.lda = up(k, 8) + 8;
  p.ldb = up(b_transposed ? k : n, 8) + 8;
  p.ldc = up(n, 4);
  const auto a = small_numbers<H>(m, k, p.lda, 1);
  const auto b = b_transposed ? small_numbers<H>(n, k, p.ldb, 2) : small_numbers<H>(k, n, p.ldb, 2);
  const DeviceBuffer<T> device_a(a), device_b(b);
  DeviceBuffer<float> c(std::int64_t{m} * p.ldc);
  p.a = device_a.data();
  p.b = device_b.data();
  p.c = c.data();
  launch_step(p);
  const auto result = c.template tensor<float, 2>({std::int64_t{m}, std::int64_t{p.ldc}});
  CHECK(wrong_elements(a, b, b_transposed, result, n, k) == 0);
}

// Matmuls around the edges of tiles, of stages and of the pipeline.
template <class T, class H, bool b_transposed>
void check_matmuls(const LaunchStep<T>& launch_step) {
  check_matmul<T, H>(b_transposed, 1, 1, 1, launch_step);
  check_matmul<T, H>(b_transposed, 127, 130, 64, launch_step);
  check_matmul<T, H>(b_transposed, 129, 263, 65, launch_step);
  check_matmul<T, H>(b_transposed, 300, 9, 323, launch_step);
  check_matmul<T, H>(b_transposed, 67, 520, 257, launch_step);
}

template <class T, class H, bool b_transposed, int block_m, int block_n, int stages>
void check_tile() {
  CAPTURE(block_m);
  CAPTURE(block_n);
  CAPTURE(stages);
  using OneStage = WgmmaTile<T, b_transposed, block_m, block_n, 1>;
  using Tile = WgmmaTile<T, b_transposed, block_m, block_n, stages>;
  check_matmuls<T, H, b_transposed>(launch_matmul_wgmma<OneStage, T>);
  check_matmuls<T, H, b_transposed>(launch_matmul_stages<Tile, T>);
  // Tiles of a group, and most blocks. In the lab each number once: the two meet in tile_coord()
  // only, whose rasters are checked below.
  std::vector<std::pair<int, int>> orders{{1, 1000}, {2, 1}, {8, 2}};
  if (device_properties().compute_capability != 0) {
    orders.insert(orders.end(), {{1, 1}, {1, 2}, {2, 2}, {2, 1000}, {8, 1}, {8, 1000}});
  }
  for (const auto& order : orders) {
    const int group_m = order.first, max_blocks = order.second;
    CAPTURE(group_m);
    CAPTURE(max_blocks);
    check_matmuls<T, H, b_transposed>(
        [=](const MatmulParams<T>& p) { launch_matmul_persistent<Tile>(p, group_m, max_blocks); });
    check_matmuls<T, H, b_transposed>(
        [=](const MatmulParams<T>& p) { launch_matmul_cluster<Tile>(p, group_m, max_blocks); });
  }
}

TEST_CASE("steps for Hopper with tiles of other sizes, and both types") {
  FA_SKIP_WHERE_MISSING(device_properties(), kNeedsHopper);
  check_tile<half, fa::half, true, 128, 256, 4>();
  check_tile<half, fa::half, false, 128, 256, 4>();
  check_tile<bfloat16, fa::bfloat16, true, 128, 128, 3>();
  check_tile<bfloat16, fa::bfloat16, false, 128, 128, 3>();
  check_tile<bfloat16, fa::bfloat16, true, 256, 128, 2>();
  check_tile<bfloat16, fa::bfloat16, false, 256, 128, 2>();
}

TEST_CASE("every raster has each tile once, group by group") {
  for (const TileRaster raster : {TileRaster{1, 1, 8}, TileRaster{7, 5, 3}, TileRaster{16, 4, 8},
                                  TileRaster{3, 9, 8}, TileRaster{9, 3, 1}}) {
    CAPTURE(raster.tiles_m);
    CAPTURE(raster.tiles_n);
    CAPTURE(raster.group_m);
    std::vector<int> met(static_cast<std::size_t>(raster.tiles_m * raster.tiles_n));
    int last_group = 0;
    for (int i = 0; i < raster.tiles_m * raster.tiles_n; ++i) {
      const TileCoord tile = tile_coord(i, raster);
      REQUIRE(tile.m >= 0);
      REQUIRE(tile.m < raster.tiles_m);
      REQUIRE(tile.n >= 0);
      REQUIRE(tile.n < raster.tiles_n);
      ++met[static_cast<std::size_t>(tile.m * raster.tiles_n + tile.n)];
      CHECK(tile.m / raster.group_m >= last_group);
      last_group = tile.m / raster.group_m;
    }
    CHECK(met == std::vector<int>(met.size(), 1));
  }
}

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

TEST_CASE("the ring of the appendix sums every tile") {
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

TEST_CASE("the tile of the appendix is multiplied") {
  FA_SKIP_WHERE_MISSING(device_properties(), kNeedsHopper);
  const auto a = small_numbers<fa::bfloat16>(64, 64, 64, 1),
             b = small_numbers<fa::bfloat16>(64, 64, 64, 2);
  const DeviceBuffer<bfloat16> device_a(a), device_b(b);
  DeviceBuffer<float> c(64 * 64);
  launch(one_tile, {{1}, {kWarpgroup}, sizeof(OneTileStorage)},
         tensor_map(device_a.data(), 64, 64, 64, 64), tensor_map(device_b.data(), 64, 64, 64, 64),
         c.data());
  CHECK(wrong_elements(a, b, true, c.tensor<float, 2>({64, 64}), 64, 64) == 0);
}

}  // namespace
}  // namespace fa::FA_TARGET
