/// @file
/// Softmax of rows in two passes: each lane keeps (m, l) of its own elements, and lesson 03's
/// operator merges the states of the lanes in a tree of five shuffles.
#pragma once

#include "04_tiled_matmul/kernels/05_softmax_three_passes.cuh"

namespace fa::FA_TARGET {

//! [exp_diff]
/// exp(a - b), and 0 when a is -infinity.
__device__ float exp_diff(float a, float b) {
  return a == -INFINITY ? 0.0f : expf(a - b);
}
//! [exp_diff]

/// As softmax_three_passes(), reading each row twice.
/// Source: Milakov and Gimelshein, 2018, algorithm 3 and section 3.1.
__global__ void softmax_online(const float* x, float* y, int rows, int cols) {
  const int row = blockIdx.x * kSoftmaxWarps + threadIdx.y;
  if (row >= rows) return;  // the whole warp
  const float* in = x + std::int64_t{row} * cols;
  float* out = y + std::int64_t{row} * cols;

  //! [online_lane]
  float m = -INFINITY, l = 0;  // of this lane's elements
  for (int j = threadIdx.x; j < cols; j += kWarp) {
    const float m_new = fmaxf(m, in[j]);
    l = exp_diff(m, m_new) * l + exp_diff(in[j], m_new);
    m = m_new;
  }
  //! [online_lane]
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const float other_m = __shfl_xor_sync(kAllLanes, m, distance);
    const float other_l = __shfl_xor_sync(kAllLanes, l, distance);
    const float m_new = fmaxf(m, other_m);  // lesson 03: merge
    l = exp_diff(m, m_new) * l + exp_diff(other_m, m_new) * other_l;
    m = m_new;
  }
  for (int j = threadIdx.x; j < cols; j += kWarp) {
    out[j] = l == 0 ? 0.0f : exp_diff(in[j], m) / l;
  }
}

/// Launches softmax_online(): one warp per row.
inline void launch_softmax_online(const float* x, float* y, int rows,
                                  int cols) {
  const Size block(kWarp, kSoftmaxWarps);
  const Size grid(ceil_div(rows, kSoftmaxWarps));
  launch(softmax_online, {grid, block}, x, y, rows, cols);
}

FA_STEP_ROW(tiled, 6) {
  return row("06_softmax_online", "lanes merge (m, l)")
      .tile(kSoftmaxWarps, kWarp)
      .softmax(launch_softmax_online);
}

}  // namespace fa::FA_TARGET
