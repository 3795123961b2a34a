// Tensor cores and the types that they multiply. Compiled for the lab and for the GPU: where both
// pass, both agree.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/gpu/tests/surface.cuh"

namespace fa::FA_TARGET {
namespace {

// Element (row, col) of matrix m is coded as 1024 m + 8 row + col.
__global__ void load_fragments(std::uint32_t* out) {
  __shared__ __align__(16) std::uint16_t matrices[4][8][8];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) {
    matrices[i / 64][i / 8 % 8][i % 8] = static_cast<std::uint16_t>(i / 64 * 1024 + i % 64);
  }
  __syncthreads();
  std::uint32_t straight[4], transposed[4];
  ldmatrix_x4(straight, &matrices[lane / 8][lane % 8][0]);
  ldmatrix_x4_transposed(transposed, &matrices[lane / 8][lane % 8][0]);
  for (int m = 0; m < 4; ++m) {
    out[8 * lane + m] = straight[m];
    out[8 * lane + 4 + m] = transposed[m];
  }
}

TEST_CASE("ldmatrix gives each lane the elements of its fragment") {
  const auto result = output_of<std::uint32_t>(load_fragments, 32, 256);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t g = lane / 4, t = lane % 4;
    for (std::uint32_t m = 0; m < 4; ++m) {
      const std::uint32_t first = 1024 * m + 8 * g + 2 * t;
      CHECK(result[8 * lane + m] == ((first + 1) << 16 | first));
      const std::uint32_t above = 1024 * m + 8 * (2 * t) + g;
      CHECK(result[8 * lane + 4 + m] == ((above + 8) << 16 | above));
    }
  }
}

// Where this lane's element i of D is in the matrix, 16 x 8.
__device__ int place_in_d(int i) {
  const int lane = static_cast<int>(threadIdx.x);
  return 8 * (lane / 4 + 8 * (i / 2)) + lane % 4 * 2 + i % 2;
}

// D = C + A B of one warp, each lane filling its fragments as the comment of mma_m16n8k16 says.
template <class T>
__global__ void one_mma(const float* a, const float* b, float* d) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  const auto of_a = [&](int row, int col) {
    return pack2<T>(a[16 * row + col], a[16 * row + col + 1]);
  };
  const auto of_b = [&](int row, int col) {
    return pack2<T>(b[8 * row + col], b[8 * (row + 1) + col]);
  };
  const std::uint32_t a_frag[4] = {of_a(g, 2 * t), of_a(g + 8, 2 * t), of_a(g, 2 * t + 8),
                                   of_a(g + 8, 2 * t + 8)};
  const std::uint32_t b_frag[2] = {of_b(2 * t, g), of_b(2 * t + 8, g)};
  float d_frag[4];
  for (int i = 0; i < 4; ++i) d_frag[i] = d[place_in_d(i)];
  mma_m16n8k16<T>(d_frag, a_frag, b_frag);
  for (int i = 0; i < 4; ++i) d[place_in_d(i)] = d_frag[i];
}

// D = C + A B by a kernel of one warp.
using Mma = void (*)(const float* a, const float* b, float* d);
using Matrix = Tensor<float, 2>;

Matrix multiply(Mma kernel, const Matrix& a, const Matrix& b, const Matrix& c) {
  const DeviceBuffer<float> device_a(a), device_b(b);
  DeviceBuffer<float> d(c);
  launch(kernel, {{1}, {32}}, device_a.data(), device_b.data(), d.data());
  return d.tensor<float, 2>({16, 8});
}

void check_matmul(Mma kernel, const Matrix& a, const Matrix& b, const Matrix& c) {
  const Matrix result = multiply(kernel, a, b, c);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      CHECK(static_cast<double>(result(i, j)) == c(i, j) + product(a, b, i, j));
    }
  }
}

TEST_CASE("mma_m16n8k16 multiplies its fragments and adds") {
  FA_SKIP_WHERE_MISSING(device_properties(), kNeedsMma);
  for (const Mma kernel : {one_mma<half>, one_mma<bfloat16>}) {
    check_matmul(kernel, small_integers(16, 16, 1, 8), small_integers(16, 8, 2, 8),
                 small_integers(16, 8, 3, 8));
  }
}

__global__ void tf32_parts(const std::uint32_t* in, std::uint32_t* out) {
  const unsigned i = threadIdx.x;
  out[2 * i] = tf32_nearest(in[i]);
  out[2 * i + 1] = tf32_truncated(in[i]) & 0xffffe000u;
}

TEST_CASE("TF32 has the upper 19 bits of a float32, rounded or cut off") {
  const std::uint32_t one = 0x3f800000;
  const std::uint32_t nearest[][2] = {{0, 0},
                                      {one, one},
                                      {one + 0xfff, one},
                                      {one + 0x1000, one + 0x2000},
                                      {one + 0x1fff, one + 0x2000},
                                      {one + 0x7fffff, one + 0x800000},
                                      {0x80000000 | (one + 0x1000), 0x80000000 | (one + 0x2000)},
                                      {0x7f800000, 0x7f800000},
                                      {1, 0},
                                      {0x1000, 0x2000}};
  constexpr std::size_t count = std::size(nearest);
  Tensor<std::uint32_t, 1> given({count});
  for (std::size_t i = 0; i < count; ++i) given.data()[i] = nearest[i][0];
  const auto result =
      output_of<std::uint32_t>(tf32_parts, count, 2 * count, DeviceBuffer<std::uint32_t>(given));
  for (std::size_t i = 0; i < count; ++i) {
    CAPTURE(i);
    CHECK(result[2 * i] == nearest[i][1]);
    CHECK(result[2 * i + 1] == (nearest[i][0] & 0xffffe000u));
  }
}

// D = C + A B of one warp, as the comment of mma_m16n8k8 says.
__global__ void one_tf32_mma(const float* a, const float* b, float* d) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  std::uint32_t a_frag[4], b_frag[2];
  for (int i = 0; i < 4; ++i) {
    a_frag[i] = tf32_truncated(__float_as_uint(a[8 * (g + 8 * (i % 2)) + t + 4 * (i / 2)]));
  }
  for (int i = 0; i < 2; ++i) b_frag[i] = tf32_truncated(__float_as_uint(b[8 * (t + 4 * i) + g]));
  float d_frag[4];
  for (int i = 0; i < 4; ++i) d_frag[i] = d[place_in_d(i)];
  mma_m16n8k8(d_frag, a_frag, b_frag);
  for (int i = 0; i < 4; ++i) d[place_in_d(i)] = d_frag[i];
}

TEST_CASE("mma_m16n8k8 multiplies its fragments and adds") {
  FA_SKIP_WHERE_MISSING(device_properties(), kNeedsMma);
  // Exact, also in TF32.
  Matrix a = small_integers(16, 8, 1, 512), b = small_integers(8, 8, 2, 512);
  const Matrix c = small_integers(16, 8, 3, 512);
  check_matmul(one_tf32_mma, a, b, c);
  const Matrix result = multiply(one_tf32_mma, a, b, c);
  // The lower 13 bits are not read.
  for (Matrix* x : {&a, &b}) {
    for (std::int64_t i = 0; i < x->count(); ++i) {
      float& element = x->data()[i];
      element =
          Eigen::numext::bit_cast<float>(Eigen::numext::bit_cast<std::uint32_t>(element) | 0x1fff);
    }
  }
  const Matrix again = multiply(one_tf32_mma, a, b, c);
  CHECK(std::equal(again.data(), again.data() + again.count(), result.data()));
}

TEST_CASE("mma_m16n8k8 truncates its sums as an H200 does") {
  const DeviceProperties device = device_properties();
  FA_SKIP_WHERE_MISSING(device, kNeedsMma);
  const bool in_lab = device.compute_capability == 0;
  if (!in_lab && device.compute_capability != 90) return;  // may differ
  // One sum: c, plus the products of pairs.
  const auto sum = [](float given, const std::vector<std::pair<float, float>>& products) {
    Matrix a({16, 8}), b({8, 8}), c({16, 8});
    c(0, 0) = given;
    for (std::size_t k = 0; k < products.size(); ++k) {
      const auto col = static_cast<std::int64_t>(k);
      a(0, col) = products[k].first;
      b(col, 0) = products[k].second;
    }
    return multiply(one_tf32_mma, a, b, c)(0, 0);
  };
  const auto power = [](int exponent) { return std::ldexp(1.0f, exponent); };
  const auto eight = [](float x, float y) {
    return std::vector<std::pair<float, float>>(8, {x, y});
  };
  CHECK(sum(1, {{1.5f, power(-24)}}) == 1);               // to nearest it is more
  CHECK(sum(1, eight(1, power(-25))) == 1 + power(-22));  // 25 bits are kept
  CHECK(sum(1, eight(1, power(-26))) == 1);               // but no more
  // The exponent of 1.5 times 1.5 is 0, although it is more than 2.
  CHECK(sum(0, {{1.5f, 1.5f}, {-1.5f, 1.5f}, {1, power(-25)}}) == power(-25));
  CHECK(sum(0, {{2, 1}, {-2, 1}, {1, power(-25)}}) == 0);
  CHECK(sum(3, {}) == 3);
}

}  // namespace
}  // namespace fa::FA_TARGET
