// Rungs 19 to 21 with both types, tiles of other sizes, and few blocks, so that each of them has several tiles.
#include <vector>

#include <doctest/doctest.h>

#include "04_tiled_matmul/src/tma_launch.cuh"
#include "common/tensor/random.hpp"
#include "common/testing/skip.hpp"

namespace fa::FA_TARGET {
namespace {

// Whole numbers from -4 to 4, whose products and sums are exact in all types.
template <class H>
Tensor<H, 2> small_numbers(int rows, int cols, int ld, std::uint64_t seed) {
  Tensor<H, 2> result({rows, ld});  // NaN between cols and ld: TMA leaves it
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < ld; ++col) {
      const auto i = static_cast<std::uint64_t>(row * ld + col);
      result(row, col) = static_cast<H>(
          col < cols ? static_cast<float>(random_bits(seed, i) % 9) - 4
                     : NAN);
    }
  }
  return result;
}

// What launches a kernel for a product.
template <class T>
using Start = std::function<std::function<void()>(const MatmulParams<T>&)>;

// Checks a kernel on one product. H is the host's type of T.
template <class T, class H>
void check_product(bool b_transposed, int m, int n, int k,
                   const Start<T>& start) {
  CAPTURE(b_transposed);
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  const auto up = [](int size, int unit) {
    return ceil_div(size, unit) * unit;
  };
  MatmulParams<T> p{};
  p.m = m;
  p.n = n;
  p.k = k;
  p.lda = up(k, 8) + 8;
  p.ldb = up(b_transposed ? k : n, 8) + 8;
  p.ldc = up(n, 4);
  const auto a = small_numbers<H>(m, k, p.lda, 1);
  const auto b = b_transposed ? small_numbers<H>(n, k, p.ldb, 2)
                              : small_numbers<H>(k, n, p.ldb, 2);
  const DeviceBuffer<T> device_a(a), device_b(b);
  DeviceBuffer<float> c(std::int64_t{m} * p.ldc);
  p.a = device_a.data();
  p.b = device_b.data();
  p.c = c.data();
  start(p)();
  const auto result =
      c.template tensor<float, 2>({std::int64_t{m}, std::int64_t{p.ldc}});
  int wrong = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += static_cast<float>(a(i, l)) *
               static_cast<float>(b_transposed ? b(j, l) : b(l, j));
      }
      wrong += result(i, j) != sum;
    }
  }
  CHECK(wrong == 0);
}

// Products around the edges of tiles, of stages and of the ring.
template <class T, class H, bool b_transposed>
void check_products(const Start<T>& start) {
  check_product<T, H>(b_transposed, 1, 1, 1, start);
  check_product<T, H>(b_transposed, 127, 130, 64, start);
  check_product<T, H>(b_transposed, 129, 263, 65, start);
  check_product<T, H>(b_transposed, 300, 9, 323, start);
  check_product<T, H>(b_transposed, 67, 520, 257, start);
}

template <class T, class H, bool b_transposed, int rows, int cols, int stages>
void check_tile() {
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(stages);
  using OneStage = WgmmaTile<T, b_transposed, rows, cols, 1>;
  using Tile = WgmmaTile<T, b_transposed, rows, cols, stages>;
  check_products<T, H, b_transposed>([](const MatmulParams<T>& p) {
    return tma_launch<OneStage, OneStageShared<OneStage>>(
        p, matmul_wgmma<OneStage, T>);
  });
  check_products<T, H, b_transposed>([](const MatmulParams<T>& p) {
    return tma_launch<Tile, StagesShared<Tile>>(p, matmul_stages<Tile, T>);
  });
  for (const int group : {1, 2, 8}) {
    for (const int blocks : {1, 2, 1000}) {
      CAPTURE(group);
      CAPTURE(blocks);
      check_products<T, H, b_transposed>([=](const MatmulParams<T>& p) {
        return persistent_launch<Tile>(p, group, blocks);
      });
    }
  }
}

TEST_CASE("rungs for Hopper with tiles of other sizes, and both types") {
  FA_SKIP_WHERE_MISSING(device_properties(), kNeedsHopper);
  check_tile<half, fa::half, true, 128, 256, 4>();
  check_tile<half, fa::half, false, 128, 256, 4>();
  check_tile<bfloat16, fa::bfloat16, true, 128, 128, 3>();
  check_tile<bfloat16, fa::bfloat16, false, 128, 128, 3>();
  check_tile<bfloat16, fa::bfloat16, true, 256, 128, 2>();
  check_tile<bfloat16, fa::bfloat16, false, 256, 128, 2>();
}

TEST_CASE("in every order each tile comes once, and neighbours share rows") {
  for (const TileRasterOrder order :
       {TileRasterOrder{1, 1, 8}, TileRasterOrder{7, 5, 3},
        TileRasterOrder{16, 4, 8}, TileRasterOrder{3, 9, 8},
        TileRasterOrder{9, 3, 1}}) {
    CAPTURE(order.rows);
    CAPTURE(order.cols);
    CAPTURE(order.group);
    std::vector<int> met(static_cast<std::size_t>(order.rows * order.cols));
    int last_group = 0;
    for (int i = 0; i < order.rows * order.cols; ++i) {
      const TileOfC tile = tile_of(i, order);
      REQUIRE(tile.row >= 0);
      REQUIRE(tile.row < order.rows);
      REQUIRE(tile.col >= 0);
      REQUIRE(tile.col < order.cols);
      ++met[static_cast<std::size_t>(tile.row * order.cols + tile.col)];
      CHECK(tile.row / order.group >= last_group);
      last_group = tile.row / order.group;
    }
    CHECK(met == std::vector<int>(met.size(), 1));
  }
}

}  // namespace
}  // namespace fa::FA_TARGET
