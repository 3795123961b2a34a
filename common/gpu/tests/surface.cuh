/// @file
/// What the tests of the CUDA surface share.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/gpu/tests/gpus.hpp"
#include "common/tensor/random.hpp"
#include "common/tensor/tensor.hpp"
#include "common/testing/process.hpp"

// What stands at the beginning of each test for Hopper; leaves it where there is nothing to test.
#ifndef FA_EACH_TEST
#define FA_EACH_TEST FA_SKIP_WHERE_MISSING(device_properties(), kNeedsHopper)
#endif

namespace fa::FA_TARGET {

using testing::contains;
using testing::message_of;

/// The elements of a buffer on the host, as an H of the same size.
template <class H, class T>
std::vector<H> bits_of(const DeviceBuffer<T>& buffer) {
  std::vector<H> result(static_cast<std::size_t>(buffer.count()));
  buffer.download(result.data());
  return result;
}

/// The elements of a buffer on the host.
template <class T>
std::vector<T> values(const DeviceBuffer<T>& buffer) {
  return bits_of<T>(buffer);
}

/// Launches one block of a kernel whose last parameter is its output.
/// @param count elements of the output
template <class Out, class Kernel, class... In>
std::vector<Out> output_of(Kernel kernel, unsigned threads, std::int64_t count,
                           const DeviceBuffer<In>&... in) {
  DeviceBuffer<Out> out(count);
  launch(kernel, {{1}, {threads}}, in.data()..., out.data());
  return values(out);
}

/// Fills a SwizzledTile from a matrix of `ld` columns, or its transpose, with NaN beyond. All
/// threads of a block call it.
template <class Tile>
__device__ void fill_from(Tile& tile, const float* from, int ld, bool transposed) {
  for (int i = static_cast<int>(threadIdx.x); i < Tile::rows * Tile::cols;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / Tile::cols, col = i % Tile::cols;
    const bool inside = (transposed ? row : col) < ld;
    constexpr int piece = Tile::piece_cols;
    tile.at(row, col / piece * piece)[col % piece] = from_float<typename Tile::Element>(
        !inside ? NAN : from[transposed ? col * ld + row : row * ld + col]);
  }
}

/// Integers from -most to most, whose matmuls are exact in all types as long as they are small.
inline Tensor<float, 2> small_integers(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                                       unsigned most = 4) {
  Tensor<float, 2> result({rows, cols});
  fill_with(result.view(), [=](std::uint64_t i) {
    return static_cast<double>(random_bits(seed, i) % (2 * most + 1)) - most;
  });
  return result;
}

/// An element of A B: exact for small integers, in any order.
inline double product(const Tensor<float, 2>& a, const Tensor<float, 2>& b, std::int64_t row,
                      std::int64_t col) {
  double sum = 0;
  for (std::int64_t k = 0; k < a.size(1); ++k) sum += static_cast<double>(a(row, k)) * b(k, col);
  return sum;
}

/// Checks a kernel that computes d = A B, or adds it to d, of small integers: run(a, b, d).
template <class Run>
void check_product(int rows, int depth, int cols, bool adds, Run run) {
  CAPTURE(cols);
  CAPTURE(adds);
  const auto a = small_integers(rows, depth, 1), b = small_integers(depth, cols, 2),
             c = small_integers(rows, cols, 3);
  const DeviceBuffer<float> device_a(a), device_b(b);
  DeviceBuffer<float> d(c.count());
  if (adds) d.upload(c.data());
  run(device_a.data(), device_b.data(), d.data());
  const auto result = d.template tensor<float, 2>({rows, cols});
  int wrong = 0;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      const double expected = (adds ? c(i, j) : 0) + product(a, b, i, j);
      wrong += !(static_cast<double>(result(i, j)) == expected);
    }
  }
  CHECK(wrong == 0);
}

/// A part of a tile as an operand of a matmul, `k` elements deep.
template <bool mn_major, class Tile>
__device__ auto operand(Tile& tile, int k, int first = 0) {
  if constexpr (mn_major) {
    return tile.by_columns(k, first);
  } else {
    return tile.by_rows(first, k);
  }
}

}  // namespace fa::FA_TARGET
