/// @file
/// Tiles for TMA and wgmma, shared by the Hopper kernels of lessons 05 and 06: maps of the tensors,
/// the matmuls of a warpgroup (64 rows; operands in swizzled tiles or registers), and the mask.
#pragma once

#include "common/attention/attention.cuh"
#include "common/gpu/fragment.cuh"
#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"

namespace fa::FA_TARGET {

/// Queries of a warpgroup: the rows of wgmma.
constexpr int kQueries = 64;

/// The TMA map of a tensor with a row for each query: q, o or a gradient of these.
/// @param cols     head_dim or head_dim_v
/// @param box_rows rows that a copy moves
/// @throws as tensor_map()
template <class T>
TensorMap map_of_queries(const Attention<T>& a, const T* data, const RowStrides& strides, int cols,
                         int box_rows) {
  return tensor_map(data, {a.batch, a.heads, a.length_q, cols},
                    {strides.batch, strides.head, strides.row}, box_rows);
}
/// The same for a tensor with a row for each key: k, v or a gradient of these.
template <class T>
TensorMap map_of_keys(const Attention<T>& a, const T* data, const RowStrides& strides, int cols,
                      int box_rows, int panel_bytes = kPanelBytes) {
  return tensor_map(data, {a.batch, a.kv_heads, a.length_k, cols},
                    {strides.batch, strides.head, strides.row}, box_rows, panel_bytes);
}

/// Issues D = A B^T (nt: A is not transposed, B is) behind wgmma_fence(): `d` holds 64 rows and
/// 2 r columns, both operands lie in shared memory.
/// @param b_row a multiple of 8: from there on b has 2 r rows, or more
template <class A, class B, int r>
__device__ void multiply_nt(float (&d)[r], const A& a, const B& b, int b_row) {
  FA_STAMP(kIssueScores, 0);  // for a timeline
#pragma unroll
  for (int kk = 0; kk < A::cols; kk += 2 * A::piece_cols) {
    wgmma<typename A::Element>(d, a.by_rows(0, kk), b.by_rows(b_row, kk), kk > 0);
  }
}
/// The same, with the fence, and closes the group.
template <class A, class B, int r>
__device__ void issue_gemm_nt(float (&d)[r], const A& a, const B& b, int b_row = 0) {
  wgmma_fence(d);
  multiply_nt(d, a, b, b_row);
  wgmma_commit(d);
}

/// Issues D += A B and closes the group: A is in registers, 16 columns in each part, and B in
/// shared memory (rs: registers, shared memory).
template <class B, int r, int parts>
__device__ void issue_gemm_rs(float (&d)[r], std::uint32_t (&a)[parts][4], const B& b) {
  FA_STAMP(kIssueOutput, 0);
  wgmma_fence(d, a);
#pragma unroll
  for (int i = 0; i < parts; ++i) {
    wgmma<typename B::Element>(d, a[i], b.by_columns(16 * i, 0), true);
  }
  wgmma_commit(d, a);
}

/// Masks the scores of keys that a query does not see, those beyond length_k, which are zeros,
/// among them.
template <class T, int r>
__device__ void apply_mask(float (&s)[r], const Attention<T>& a, int query0, int key0) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int visible = visible_keys(a, query0 + lane_row(h)) - key0 - lane_column();
#pragma unroll
    for (int i = 0; i < r / 2; ++i) {
      if (element_column(i) >= visible) row_element(s, h, i) = -INFINITY;
    }
  }
}

/// Rounds P to 16 bits: the accumulators of one GEMM are the left operand of the next one as they
/// stand.
template <class T, int parts, int r>
__device__ void round_to_operand(std::uint32_t (&p)[parts][4], const float (&s)[r]) {
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
