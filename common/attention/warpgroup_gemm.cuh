/// @file
/// The matmuls of a warpgroup by wgmma, shared by the Hopper kernels of lessons 05 and 06:
/// accumulators of 64 rows, and operands in swizzled tiles or in registers.
#pragma once

#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

/// Queries of a warpgroup: the rows of wgmma.
constexpr int kQueries = 64;

/// The first of this lane's two rows of an accumulator; the second is 8 below.
__device__ inline int lane_row() {
  return threadIdx.x / kWarp % 4 * 16 + threadIdx.x % kWarp / 4;
}

/// Element i of this lane's row h, 0 or 1, in an accumulator of wgmma. Of each 8 columns a lane
/// holds two neighbours of either row: column 8 j + threadIdx.x % 4 * 2 + e is i = 2 j + e.
template <int r>
__device__ float& row_element(float (&d)[r], int h, int i) {
  return d[i / 2 * 4 + 2 * h + i % 2];
}
/// The same of an accumulator that is only read.
template <int r>
__device__ float row_element(const float (&d)[r], int h, int i) {
  return d[i / 2 * 4 + 2 * h + i % 2];
}

/// Issues D = A B^T and closes the group: `d` holds 64 rows and 2 r columns, both operands lie in
/// shared memory.
/// @param a 64 rows
/// @param b at least 2 r rows, of which the first 2 r are used
template <class A, class B, int r>
__device__ void issue_gemm_nt(float (&d)[r], const A& a, const B& b) {
  FA_STAMP(kIssueScores, 0);
  wgmma_fence(d);
#pragma unroll
  for (int col = 0; col < A::cols; col += 16) {
    wgmma<typename A::Element>(d, a.by_rows(0, col), b.by_rows(0, col),
                               col > 0);
  }
  wgmma_commit(d);
}

/// Issues D += A B and closes the group: A is in registers, 16 columns in each part, and B in
/// shared memory.
template <class B, int r, int parts>
__device__ void issue_gemm_rs(float (&d)[r], std::uint32_t (&a)[parts][4],
                              const B& b) {
  FA_STAMP(kIssueOutput, 0);
  wgmma_fence(d, a);
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    wgmma<typename B::Element>(d, a[i], b.by_columns(16 * i, 0), true);
  }
  wgmma_commit(d, a);
}

/// Rounds P to 16 bits: the accumulators of one GEMM are the left operand of the next one as they
/// stand.
/// @tparam T half or bfloat16
template <class T, int parts, int r>
__device__ void round_to_operand(std::uint32_t (&p)[parts][4],
                                 const float (&s)[r]) {
  static_assert(r == 8 * parts, "a part has 16 keys");
#pragma unroll
  for (int i = 0; i < parts; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      p[i][j] = pack2<T>(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
    }
  }
}

}  // namespace fa::FA_TARGET
