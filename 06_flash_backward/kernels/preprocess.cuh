/// @file
/// The kernels before a backward pass: they compute what the gradients need of each row, delta and,
/// in 16 bits, LSE in base 2, and zero the accumulator of dQ where there is one.
#pragma once

#include <cfloat>

#include "06_flash_backward/kernels/gradient.cuh"

namespace fa::FA_TARGET {

/// Threads of a block that computes delta.
constexpr int kPreprocessThreads = 256;

/// Lanes that share a row of d columns, of which each has 8: a power of two.
template <int d>
constexpr int kRowLanes = d <= 32    ? 4
                          : d <= 64  ? 8
                          : d <= 128 ? 16
                                     : 32;

/// Reads 8 neighbours as floats; the address is a multiple of 16.
template <class T>
__device__ void load8(float (&to)[8], const T* from) {
  constexpr int at_once = 16 / sizeof(T);
#pragma unroll
  for (int i = 0; i < 8; i += at_once) {
    const float4 sixteen_bytes = load4(from + i);
    T values[at_once];
    memcpy(static_cast<void*>(values), &sixteen_bytes, 16);
#pragma unroll
    for (int j = 0; j < at_once; ++j) to[i + j] = to_float(values[j]);
  }
}

/// The row sum of dO * O, given to the lanes that share a row. All lanes call it.
/// @param row beyond the last one the sum is 0
/// @param col this lane's first column, a multiple of 8
template <int d, class T>
__device__ float row_delta(const AttentionGradient<T>& a,
                           const GradientHead<T>& head, int row, int col) {
  float sum = 0;
  if (row < a.length_q && col < a.head_dim_v) {
    float o[8], d_o[8];
    load8(o, head.o + row * a.o_strides.row + col);
    load8(d_o, head.d_o + row * a.d_o_strides.row + col);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += o[i] * d_o[i];
  }
  return warp_sum<kRowLanes<d>>(sum);
}

/// The rows of a block that preprocesses: of a head, from the first one on.
struct RowBlock {
  int first;
  int head;
  int batch;
};
/// Those of this block in the grid of preprocess_launch().
template <int d>
__device__ RowBlock row_block() {
  constexpr int rows = kPreprocessThreads / kRowLanes<d>;
  return {static_cast<int>(blockIdx.x) * rows, static_cast<int>(blockIdx.y),
          static_cast<int>(blockIdx.z)};
}

/// Calls store(head, row, col, delta) in the lanes that share a row of the workspace; col is the
/// lane's first column.
template <int d, class T, class Store>
__device__ void with_row_delta(const AttentionGradient<T>& a, Store store,
                               const RowBlock& block = row_block<d>()) {
  constexpr int lanes = kRowLanes<d>;
  const int row = block.first + static_cast<int>(threadIdx.x) / lanes;
  const int col = threadIdx.x % lanes * 8;
  const auto head = gradient_head(a, block.batch, block.head);
  const float delta = row_delta<d>(a, head, row, col);
  if (row < padded_rows(a)) store(head, row, col, delta);
}

/// delta = rowsum(dO * O).
template <int d>
__global__ void preprocess(AttentionGradient<float> a) {
  with_row_delta<d>(a, [&](const auto& head, int row, int col, float delta) {
    if (col == 0) a.delta[head.padded_row + row] = delta;
  });
}

/// Zeroes eight columns of d_q_accum, if it has them.
template <int d, class T>
__device__ void zero_d_q_accum(const AttentionGradient<T>& a,
                               std::int64_t padded_row, int col) {
  if (col >= d) return;
  float* const to = a.d_q_accum + padded_row * d + col;
  store4(to, make_float4(0, 0, 0, 0));
  store4(to + 4, make_float4(0, 0, 0, 0));
}

/// Stores delta and LSE of a row.
template <class T>
__device__ void store_row_statistics(const AttentionGradient<T>& a,
                                     const GradientHead<T>& head, int row,
                                     float delta) {
  const std::int64_t padded_row = head.padded_row + row;
  const float lse = row < a.length_q ? head.lse[row] : -INFINITY;
  a.delta[padded_row] = delta;
  // Finite, whatever LSE is: an infinite one is of a row without keys.
  a.lse_base_2[padded_row] =
      lse == -INFINITY ? INFINITY : fmaxf(lse * kLog2E, -FLT_MAX);
}

/// delta = rowsum(dO * O), LSE in base 2, and zeros for d_q_accum where there is one.
/// @tparam d columns of d_q_accum, at least head_dim
template <int d, class T>
__device__ void preprocess_rows(const AttentionGradient<T>& a,
                                const RowBlock& block = row_block<d>()) {
  const auto store = [&](const auto& head, int row, int col, float delta) {
    if (a.d_q_accum != nullptr) {
      zero_d_q_accum<d>(a, head.padded_row + row, col);
    }
    if (col == 0) store_row_statistics(a, head, row, delta);
  };
  with_row_delta<d>(a, store, block);
}
/// The kernel that computes them.
template <int d, class T>
__global__ void preprocess_16_bit(AttentionGradient<T> a) {
  preprocess_rows<d>(a);
}

/// Blocks that cover all rows of the workspace, kRowLanes<d> threads for each.
template <int d, class T>
Launch preprocess_launch(const Attention<T>& a) {
  constexpr int rows = kPreprocessThreads / kRowLanes<d>;
  return {{static_cast<unsigned>(ceil_div(padded_rows(a), rows)),
           static_cast<unsigned>(a.heads), static_cast<unsigned>(a.batch)},
          {kPreprocessThreads}};
}

}  // namespace fa::FA_TARGET
