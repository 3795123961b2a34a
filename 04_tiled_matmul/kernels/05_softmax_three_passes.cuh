/// @file
/// Softmax of rows, one warp per row: the three passes of lesson 02. A lane reads every 32nd
/// element; shuffles reduce maximum and sum over the warp.
#pragma once

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// Warps in a block of the softmax kernels: the rows that a block computes.
constexpr int kSoftmaxWarps = 4;

/// Each row of y is the softmax of that row of x; zeros for a row of -infinity.
/// Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 2.
/// @param x [rows, cols], finite or -infinity
/// @param y [rows, cols]
/// @param rows of x
/// @param cols of x
//! [three_passes]
__global__ void softmax_three_passes(const float* x, float* y, int rows,
                                     int cols) {
  const int row = blockIdx.x * kSoftmaxWarps + threadIdx.y;
  if (row >= rows) return;  // the whole warp
  const float* in = x + std::int64_t{row} * cols;
  float* out = y + std::int64_t{row} * cols;

  float m = -INFINITY;  // m = max_j x_j
  for (int j = threadIdx.x; j < cols; j += kWarp) m = fmaxf(m, in[j]);
  m = warp_max(m);
  if (m == -INFINITY) m = 0;  // -inf - -inf would be NaN

  float l = 0;  // l = sum_j exp(x_j - m)
  for (int j = threadIdx.x; j < cols; j += kWarp) l += expf(in[j] - m);
  l = warp_sum(l);
  if (l == 0) l = 1;  // all elements are -inf: 0 / 1, not 0 / 0

  for (int j = threadIdx.x; j < cols; j += kWarp) {
    out[j] = expf(in[j] - m) / l;
  }
}
//! [three_passes]

/// Launches softmax_three_passes(): one warp per row.
inline void launch_softmax_three_passes(const float* x, float* y, int rows,
                                        int cols) {
  const Size block(kWarp, kSoftmaxWarps);
  const Size grid(ceil_div(rows, kSoftmaxWarps));
  launch(softmax_three_passes, {grid, block}, x, y, rows, cols);
}

FA_STEP_ROW(tiled, 5) {
  return row("05_softmax_three_passes", "a warp for each row")
      .tile(kSoftmaxWarps, kWarp)
      .softmax(launch_softmax_three_passes);
}

}  // namespace fa::FA_TARGET
