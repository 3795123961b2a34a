// tcgen05 and tensor memory. Compiled for the lab, for the watched lab, which must find nothing,
// and for GPUs of sm_100a, elsewhere they are skipped. No such GPU has run them yet.
#include <cstdint>

#include <doctest/doctest.h>

#include "common/gpu/blackwell.cuh"
#include "common/gpu/tests/surface.cuh"

// As FA_EACH_TEST.
#ifndef FA_EACH_BLACKWELL_TEST
#define FA_EACH_BLACKWELL_TEST FA_SKIP_WHERE_MISSING(device_properties(), kNeedsBlackwell)
#endif

namespace fa::FA_TARGET {
namespace {

// Where A is.
enum class LeftOperand { kRows, kColumns, kTensorMemory };

constexpr int kRowsOfA = kTensorLanes, kDepthOfA = 64;  // four matmuls of depth 16

template <class A, class B>
struct MatmulShared {
  A a;
  B b;
  Mbarrier done;
  std::uint32_t columns;
};

// d = A B or d += A B, A 128 x 64, B 64 x n: accumulators from column `first` on.
template <class T, int n, LeftOperand left, Major major_b, int panel_bytes>
__global__ void __launch_bounds__(kWarpgroup)
    multiply_in_tensor_memory(const float* a, const float* b, float* d, bool adds, int first) {
  constexpr bool left_columns = left == LeftOperand::kColumns;
  constexpr bool in_tensor_memory = left == LeftOperand::kTensorMemory;
  using A = std::conditional_t<left_columns, SwizzledTile<T, kDepthOfA, kRowsOfA, panel_bytes>,
                               SwizzledTile<T, kRowsOfA, kDepthOfA, panel_bytes>>;
  using B = std::conditional_t<major_b == Major::kMN, SwizzledTile<T, kDepthOfA, n, panel_bytes>,
                               SwizzledTile<T, n, kDepthOfA, panel_bytes>>;
  auto& shared = *dynamic_shared<MatmulShared<A, B>>();
  fill_from(shared.a, a, kDepthOfA, left_columns);
  fill_from(shared.b, b, n, major_b == Major::kK);
  fence_async_proxy();
  if (threadIdx.x < kWarp) {
    tcgen05_alloc(&shared.columns, kTensorColumns);
    tcgen05_relinquish_alloc_permit();
  }
  if (threadIdx.x == 0) {
    shared.done.init(1);
    fence_barrier_init();
  }
  __syncthreads();
  const std::uint32_t sums = shared.columns + static_cast<std::uint32_t>(first);
  const std::uint32_t left_at = shared.columns + 480;
  const int row = static_cast<int>(threadIdx.x);
  if (adds) {
#pragma unroll
    for (int col = 0; col < n; col += 16) {
      float part[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) part[i] = d[row * n + col + i];
      tcgen05_st(tensor_quarter(sums, col), part);
    }
  }
  if (in_tensor_memory) {
    std::uint32_t packed[32];
#pragma unroll
    for (int i = 0; i < 32; ++i)
      packed[i] = pack2<T>(a[row * kDepthOfA + 2 * i], a[row * kDepthOfA + 2 * i + 1]);
    tcgen05_st(tensor_quarter(left_at, 0), packed);
  }
  tcgen05_wait_st();
  tcgen05_fence_before();
  __syncthreads();
  if (threadIdx.x == 0) {
    tcgen05_fence_after();
    constexpr std::uint32_t descriptor =
        tcgen05_descriptor<T>(n, left_columns ? Major::kMN : Major::kK, major_b);
#pragma unroll
    for (int k = 0; k < kDepthOfA; k += 16) {
      const auto of_b = operand<major_b == Major::kMN>(shared.b, k);
      const bool add = adds || k > 0;
      if constexpr (in_tensor_memory) {
        tcgen05_mma(sums, left_at + k / 2, of_b, descriptor, add);
      } else {
        tcgen05_mma(sums, operand<left_columns>(shared.a, k), of_b, descriptor, add);
      }
    }
    tcgen05_commit(shared.done);
  }
  shared.done.wait(0);
  tcgen05_fence_after();
#pragma unroll
  for (int col = 0; col < n; col += 16) {
    float part[16];
    tcgen05_ld(part, tensor_quarter(sums, col));
    tcgen05_wait_ld(part);
#pragma unroll
    for (int i = 0; i < 16; ++i) d[row * n + col + i] = part[i];
  }
  tcgen05_fence_before();
  __syncthreads();
  if (threadIdx.x < kWarp) tcgen05_dealloc(shared.columns, kTensorColumns);
}

template <class T, int n, LeftOperand left, Major major_b, int panel_bytes = kPanelBytes>
void check_tensor_matmul(bool adds, int first = 0) {
  CAPTURE(static_cast<int>(left));
  CAPTURE(static_cast<int>(major_b));
  check_product(kRowsOfA, kDepthOfA, n, adds, [&](auto... pointers) {
    constexpr int bytes = 2 * (kRowsOfA * kDepthOfA + kDepthOfA * ceil_div(n, 64) * 64) + 1024;
    launch(multiply_in_tensor_memory<T, n, left, major_b, panel_bytes>, {{1}, {kWarpgroup}, bytes},
           pointers..., adds, first);
  });
}

TEST_CASE("tcgen05_mma() multiplies with few and many columns, anywhere in tensor memory") {
  FA_EACH_BLACKWELL_TEST;
  check_tensor_matmul<half, 16, LeftOperand::kRows, Major::kK>(false, 48);
  check_tensor_matmul<bfloat16, 48, LeftOperand::kTensorMemory, Major::kMN>(true, 16);
  check_tensor_matmul<half, 112, LeftOperand::kColumns, Major::kMN>(true, 128);
  check_tensor_matmul<bfloat16, 208, LeftOperand::kRows, Major::kMN>(false, 32);
  check_tensor_matmul<half, 256, LeftOperand::kTensorMemory, Major::kK>(true, 224);
}

template <class T>
void check_tensor_kinds() {
  for (const bool adds : {false, true}) {
    check_tensor_matmul<T, 64, LeftOperand::kRows, Major::kK>(adds);
    check_tensor_matmul<T, 64, LeftOperand::kRows, Major::kMN>(adds);
    check_tensor_matmul<T, 64, LeftOperand::kColumns, Major::kK>(adds);
    check_tensor_matmul<T, 64, LeftOperand::kColumns, Major::kMN>(adds);
    check_tensor_matmul<T, 64, LeftOperand::kTensorMemory, Major::kK>(adds);
    check_tensor_matmul<T, 64, LeftOperand::kTensorMemory, Major::kMN>(adds);
  }
}

TEST_CASE("tcgen05_mma() multiplies both types, with A in shared and in tensor memory") {
  FA_EACH_BLACKWELL_TEST;
  check_tensor_kinds<half>();
  check_tensor_kinds<bfloat16>();
}

TEST_CASE("tcgen05_mma() reads operands in narrow panels") {
  FA_EACH_BLACKWELL_TEST;
  constexpr int narrow = kNarrowPanelBytes;
  check_tensor_matmul<half, 96, LeftOperand::kRows, Major::kK, narrow>(false);
  check_tensor_matmul<bfloat16, 96, LeftOperand::kColumns, Major::kMN, narrow>(true);
}

// Two allocations; in the second one words are stored by a warp and loaded by the warp of the next
// warpgroup that has the same quarter.
__global__ void __launch_bounds__(2 * kWarpgroup) pass_words(std::uint32_t* out) {
  __shared__ std::uint32_t columns[2];
  if (threadIdx.x < kWarp) {
    tcgen05_alloc(&columns[0], 64);
    tcgen05_alloc(&columns[1], 32);
  }
  __syncthreads();
  std::uint32_t words[32];
  if (threadIdx.x < kWarpgroup) {
#pragma unroll
    for (int i = 0; i < 32; ++i) words[i] = 100 * threadIdx.x + i;
    tcgen05_st(tensor_quarter(columns[1], 0), words);
    tcgen05_wait_st();
    tcgen05_fence_before();
  }
  __syncthreads();
  if (threadIdx.x >= kWarpgroup) {
    tcgen05_fence_after();
    tcgen05_ld(words, tensor_quarter(columns[1], 0));
    tcgen05_wait_ld(words);
#pragma unroll
    for (int i = 0; i < 32; ++i) out[32 * (threadIdx.x - kWarpgroup) + i] = words[i];
    tcgen05_fence_before();
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    tcgen05_dealloc(columns[1], 32);
    tcgen05_dealloc(columns[0], 64);
  }
}

TEST_CASE("a warp finds in tensor memory what one of the same quarter has stored") {
  FA_EACH_BLACKWELL_TEST;
  const auto words = output_of<std::uint32_t>(pass_words, 2 * kWarpgroup, 32 * kWarpgroup);
  int wrong = 0;
  for (std::uint32_t i = 0; i < words.size(); ++i) wrong += words[i] != 100 * (i / 32) + i % 32;
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace fa::FA_TARGET
