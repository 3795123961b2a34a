// wgmma. Compiled for the lab, for the watched lab, which must find nothing, and for the GPU: where
// all pass, all agree. Where a GPU, or its code, is of another architecture, they are skipped.
#include <cmath>
#include <cstdint>

#include <doctest/doctest.h>

#include "common/gpu/fragment.cuh"
#include "common/gpu/hopper.cuh"
#include "common/gpu/tests/surface.cuh"

namespace fa::FA_TARGET {
namespace {

// Where A is.
enum class Left { kRows, kColumns, kRegisters };

constexpr int kM = 2 * 64;  // two warpgroups
constexpr int kK = 64;      // four wgmma, or two with operands of 8 bits

// d = A B or d += A B, A 128 x 64, B 64 x 2 sums.
template <class T, int sums, Left left, Major major_b, int panel_bytes>
__global__ void __launch_bounds__(2 * kWarpgroup)
    multiply(const float* a, const float* b, float* d, bool adds) {
  constexpr int n = 2 * sums;
  using A = std::conditional_t<left == Left::kColumns, SwizzledTile<T, kK, kM, panel_bytes>,
                               SwizzledTile<T, kM, kK, panel_bytes>>;
  using B = std::conditional_t<major_b == Major::kMN, SwizzledTile<T, kK, n, panel_bytes>,
                               SwizzledTile<T, n, kK, panel_bytes>>;
  A& a_smem = *dynamic_shared<A>();
  B& b_smem = *reinterpret_cast<B*>(&a_smem + 1);
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread / kWarpgroup, lane = thread % kWarp;
  const int g = lane / 4, t = lane % 4;
  const int first_row = thread / kWarp * 16;
  fill_from(a_smem, a, kK, left == Left::kColumns);
  fill_from(b_smem, b, n, major_b == Major::kK);  // MN-major B has its rows summed over
  fence_async_proxy();
  __syncthreads();

  const auto row_of = [&](int i) { return first_row + g + 8 * (i / 2 % 2); };
  const auto col_of = [&](int i) { return 8 * (i / 4) + 2 * t + i % 2; };
  float sum[sums];
#pragma unroll
  for (int i = 0; i < sums; ++i) {
    sum[i] = adds ? d[row_of(i) * n + col_of(i)] : NAN;
  }
  constexpr int depth = 32 / sizeof(T), parts = kK / depth;
  std::uint32_t frag[parts][4];
#pragma unroll
  for (int k = 0; k < parts; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* from = a + (first_row + g + 8 * (i % 2)) * kK + depth * k + depth / 2 * (i / 2);
      if constexpr (sizeof(T) == 1) {
        from += 4 * t;
        frag[k][i] = pack4<T>(from[0], from[1], from[2], from[3]);
      } else {
        from += 2 * t;
        frag[k][i] = pack2<T>(from[0], from[1]);
      }
    }
  }
  wgmma_fence(sum, frag);
#pragma unroll
  for (int k = 0; k < parts; ++k) {
    const auto of_b = operand<major_b == Major::kMN>(b_smem, depth * k);
    if constexpr (left == Left::kRegisters) {
      wgmma<T>(sum, frag[k], of_b, adds || k > 0);
    } else {
      const auto of_a = operand<left == Left::kColumns>(a_smem, depth * k, 64 * group);
      wgmma<T>(sum, of_a, of_b, adds || k > 0);
    }
  }
  wgmma_commit(sum, frag);
  wgmma_wait<0>(sum);
#pragma unroll
  for (int i = 0; i < sums; ++i) d[row_of(i) * n + col_of(i)] = sum[i];
}

template <class T, int sums, Left left, Major major_b, int panel_bytes = kPanelBytes>
void check_matmul(bool adds) {
  constexpr int n = 2 * sums;
  CAPTURE(static_cast<int>(left));
  CAPTURE(static_cast<int>(major_b));
  check_product(kM, kK, n, adds, [&](auto... pointers) {
    launch(multiply<T, sums, left, major_b, panel_bytes>,
           {{1}, {2 * kWarpgroup}, 2 * (kM * kK + kK * ceil_div(n, 64) * 64)}, pointers..., adds);
  });
}

template <int sums>
void check_size() {
  static_assert(wgmma_takes(sums));
  check_matmul<half, sums, Left::kRows, Major::kK>(false);
  check_matmul<bfloat16, sums, Left::kColumns, Major::kMN>(true);
  check_matmul<half, sums, Left::kRegisters, Major::kMN>(true);
  check_matmul<bfloat16, sums, Left::kRegisters, Major::kK>(false);
  check_matmul<e4m3, sums, Left::kRows, Major::kK>(false);
  check_matmul<e4m3, sums, Left::kRegisters, Major::kK>(true);
}

template <int... sums>
void check_sizes() {
  (check_size<sums>(), ...);
}

TEST_CASE("wgmma multiplies with every number of columns") {
  FA_EACH_TEST;
  check_sizes<16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 128>();
}

template <class T>
void check_kinds() {
  for (const bool adds : {false, true}) {
    check_matmul<T, 64, Left::kRows, Major::kK>(adds);
    check_matmul<T, 64, Left::kRows, Major::kMN>(adds);
    check_matmul<T, 64, Left::kColumns, Major::kK>(adds);
    check_matmul<T, 64, Left::kColumns, Major::kMN>(adds);
    check_matmul<T, 64, Left::kRegisters, Major::kK>(adds);
    check_matmul<T, 64, Left::kRegisters, Major::kMN>(adds);
  }
}

TEST_CASE("wgmma multiplies both types, with K-major and MN-major operands") {
  FA_EACH_TEST;
  check_kinds<half>();
  check_kinds<bfloat16>();
}

TEST_CASE("wgmma reads operands in narrow panels") {
  FA_EACH_TEST;
  constexpr int narrow = kNarrowPanelBytes;
  for (const bool adds : {false, true}) {
    check_matmul<half, 48, Left::kRows, Major::kK, narrow>(adds);
    check_matmul<bfloat16, 48, Left::kRows, Major::kMN, narrow>(adds);
    check_matmul<bfloat16, 16, Left::kColumns, Major::kK, narrow>(adds);
    check_matmul<half, 32, Left::kColumns, Major::kMN, narrow>(adds);
    check_matmul<half, 48, Left::kRegisters, Major::kMN, narrow>(adds);
    check_matmul<e4m3, 96, Left::kRows, Major::kK, narrow>(adds);
    check_matmul<e4m3, 64, Left::kRegisters, Major::kK, narrow>(adds);
  }
}

// What is added to 1 in a matmul.
enum class Added { kToProduct, kToSum, kManyToSum };

// d[k] = 1 + 2^-k, where 1 is another product or the sum so far; or 1 + 32 2^-k.
__global__ void __launch_bounds__(kWarpgroup) add_powers(float* d, Added added) {
  using Tile = SwizzledTile<e4m3, 64, 64>;
  Tile* tiles = dynamic_shared<Tile>();
  // Column 0 of A and B is 1; the others are 2^-(k / 2) and 2^-((k + 1) / 2) in row k, or 0.
  const int first = added == Added::kToProduct ? 1 : 32,
            last = added == Added::kManyToSum ? 63 : first;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < 64 * 64; i += kWarpgroup) {
    const int row = i / 64, col = i % 64;
    for (int of_b = 0; of_b < 2; ++of_b) {
      const float power = exp2f(-static_cast<float>((row + of_b) / 2));
      const float x = col == 0 ? 1.0f : col >= first && col <= last ? power : 0.0f;
      tiles[of_b].at(row, col / 16 * 16)[col % 16] = from_float<e4m3>(x);
    }
  }
  fence_async_proxy();
  __syncthreads();
  float sum[32];
  wgmma_fence(sum);
#pragma unroll
  for (int k = 0; k < 64; k += 32) {
    wgmma<e4m3>(sum, tiles[0].by_rows(0, k), tiles[1].by_rows(0, k), k > 0);
  }
  wgmma_commit(sum);
  wgmma_wait<0>(sum);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int row = lane_row(h);
      if (row == lane_column() + element_column(i)) d[row] = row_element(sum, h, i);
    }
  }
}

TEST_CASE("sums of 8-bit products keep kFp8FractionBits bits behind the point of the largest") {
  FA_EACH_TEST;
  for (const Added added : {Added::kToProduct, Added::kToSum, Added::kManyToSum}) {
    constexpr int most = 17;  // 2^-9 is the smallest e4m3
    DeviceBuffer<float> d(64);
    launch(add_powers, {{1}, {kWarpgroup}, 2 * 64 * 128}, d.data(), added);
    const auto sums = values(d);
    int kept = 0;
    while (kept < most && sums[static_cast<std::size_t>(kept + 1)] > 1) ++kept;
    CAPTURE(static_cast<int>(added));
    MESSAGE("bits behind the point that survive: " << kept);
    CHECK(kept == kFp8FractionBits);
  }
}

// s = A B, o = 2 A B: the sums of the first group are used while the second one and the third one,
// which adds to the sums of the second, are in flight.
__global__ void __launch_bounds__(kWarpgroup)
    three_groups(const float* a, const float* b, float* s, float* o) {
  using Tile = SwizzledTile<half, 64, 64>;
  Tile* tiles = dynamic_shared<Tile>();
  fill_from(tiles[0], a, 64, false);
  fill_from(tiles[1], b, 64, false);
  fence_async_proxy();
  __syncthreads();
  float of_s[32], of_o[32];
  wgmma_fence(of_s);
#pragma unroll
  for (int k = 0; k < 64; k += 16) {
    wgmma<half>(of_s, tiles[0].by_rows(0, k), tiles[1].by_columns(k, 0), k > 0);
  }
  wgmma_commit(of_s);
  wgmma_fence(of_o);
#pragma unroll
  for (int round = 0; round < 2; ++round) {
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
      wgmma<half>(of_o, tiles[0].by_rows(0, k), tiles[1].by_columns(k, 0), round + k > 0);
    }
    wgmma_commit();  // no thread touches its sums between the rounds
  }
  wgmma_wait<2>(of_s);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < 32; ++i) s[32 * thread + i] = of_s[i];
  wgmma_wait<0>(of_o);
#pragma unroll
  for (int i = 0; i < 32; ++i) o[32 * thread + i] = of_o[i];
}

TEST_CASE("wgmma groups end in order, and a later one may add to the same sums") {
  FA_EACH_TEST;
  const auto a = small_integers(64, 64, 1), b = small_integers(64, 64, 2);
  const DeviceBuffer<float> device_a(a), device_b(b);
  DeviceBuffer<float> s(64 * 64), o(64 * 64);
  launch(three_groups, {{1}, {kWarpgroup}, 4 * 64 * 64}, device_a.data(), device_b.data(), s.data(),
         o.data());
  const auto of_s = values(s), of_o = values(o);
  for (int thread = 0; thread < kWarpgroup; ++thread) {
    for (int i = 0; i < 32; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2);
      const int col = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
      const auto expected = static_cast<float>(product(a, b, row, col));
      const auto at = static_cast<std::size_t>(32 * thread + i);
      CHECK(of_s[at] == expected);
      CHECK(of_o[at] == 2 * expected);
    }
  }
}

}  // namespace
}  // namespace fa::FA_TARGET
