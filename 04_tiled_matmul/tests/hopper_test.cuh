// Steps 19 to 22 with both types, tiles of other sizes, and few blocks, so that each of them has
// several tiles.
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "04_tiled_matmul/kernels/19_matmul_wgmma.cuh"
#include "04_tiled_matmul/kernels/20_matmul_stages.cuh"
#include "04_tiled_matmul/kernels/21_matmul_persistent.cuh"
#include "04_tiled_matmul/kernels/22_matmul_cluster.cuh"
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
  int wrong = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int kk = 0; kk < k; ++kk) {
        sum +=
            static_cast<float>(a(i, kk)) * static_cast<float>(b_transposed ? b(j, kk) : b(kk, j));
      }
      wrong += result(i, j) != sum;
    }
  }
  CHECK(wrong == 0);
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

}  // namespace
}  // namespace fa::FA_TARGET
