/// @file
/// What the 16-bit kernels, rungs 05 to 14, need of each row: delta, LSE in base 2, and for those
/// that add to it, an accumulator of dQ that is zero.
#pragma once

#include "06_flash_backward/kernels/02_preprocess.cuh"

namespace fa::FA_TARGET {

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
  a.lse_base_2[padded_row] = lse == -INFINITY ? INFINITY : lse * kLog2E;
}

/// delta = rowsum(dO * O), LSE in base 2, and zeros for d_q_accum where there is one.
/// @tparam d columns of d_q_accum, at least head_dim
template <int d, class T>
__global__ void preprocess_16_bit(AttentionGradient<T> a) {
  constexpr int lanes = kRowLanes<d>;
  const int row = blockIdx.x * (kPreprocessThreads / lanes) +
                  static_cast<int>(threadIdx.x) / lanes;
  const int col = threadIdx.x % lanes * 8;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const float delta = row_delta<d>(a, head, row, col);
  if (row >= padded_rows(a)) return;
  if (a.d_q_accum != nullptr) {
    zero_d_q_accum<d>(a, head.padded_row + row, col);
  }
  if (col == 0) store_row_statistics(a, head, row, delta);
}

/// The same for rungs 11, 12 and 14, which need semaphores that are zero, and an accumulator that is
/// zero only for queries that see no key: for the others the first block stores.
/// @tparam d columns of d_q_accum, at least head_dim
template <int d, class T>
__global__ void preprocess_semaphores(AttentionGradient<T> a) {
  launch_dependents();  // for rung 15
  constexpr int lanes = kRowLanes<d>;
  const int row = blockIdx.x * (kPreprocessThreads / lanes) +
                  static_cast<int>(threadIdx.x) / lanes;
  const int col = threadIdx.x % lanes * 8;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const float delta = row_delta<d>(a, head, row, col);
  if (row >= padded_rows(a)) return;
  const std::int64_t padded = head.padded_row + row;
  const int next_tile = (row / kSemaphoreRows + 1) * kSemaphoreRows;
  if (visible_keys(a, next_tile - 1) <= 0) zero_d_q_accum<d>(a, padded, col);
  if (col > 0) return;
  if (padded == 0) *a.tile_counter = 0;
  if (row % kSemaphoreRows < 2) {
    a.d_q_semaphores[padded / kSemaphoreRows * 2 + row % kSemaphoreRows] = 0;
  }
  store_row_statistics(a, head, row, delta);
}

}  // namespace fa::FA_TARGET
