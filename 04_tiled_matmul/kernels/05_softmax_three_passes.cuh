/// @file
/// Softmax of rows, one warp for each: the three passes of lesson 02. Lanes take every 32nd element and
/// agree on maximum and sum by shuffles.
#pragma once

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Warps in a block of the softmax kernels: rows that a block works on.
constexpr int kSoftmaxWarps = 4;

/// Each row of y is the softmax of that row of x; zeros for a row of -infinity.
/// Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 2.
/// Launch: blocks of 32 x kSoftmaxWarps; ceil(rows / kSoftmaxWarps) blocks.
/// @param x [rows, cols], finite or -infinity
/// @param y [rows, cols]
/// @param rows how many
/// @param cols elements of each
//! [three_passes]
__global__ void softmax_three_passes(const float* x, float* y, int rows,
                                     int cols) {
  const int row = blockIdx.x * kSoftmaxWarps + threadIdx.y;
  if (row >= rows) return;  // the whole warp
  const float* in = x + std::int64_t{row} * cols;
  float* out = y + std::int64_t{row} * cols;

  float m = -INFINITY;
  for (int j = threadIdx.x; j < cols; j += kWarp) m = fmaxf(m, in[j]);
  m = warp_max(m);
  if (m == -INFINITY) m = 0;  // -inf - -inf would be NaN

  float l = 0;
  for (int j = threadIdx.x; j < cols; j += kWarp) l += expf(in[j] - m);
  l = warp_sum(l);
  if (l == 0) l = 1;  // no key seen: 0 / 1, not 0 / 0

  for (int j = threadIdx.x; j < cols; j += kWarp) {
    out[j] = expf(in[j] - m) / l;
  }
}
//! [three_passes]

}  // namespace fa::FA_TARGET
