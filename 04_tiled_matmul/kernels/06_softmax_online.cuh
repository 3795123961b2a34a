/// @file
/// Softmax of rows in two passes: each lane keeps (m, l) of its own elements, and the lanes' states are
/// merged by lesson 03's operator, in a tree of five shuffles.
#pragma once

#include "04_tiled_matmul/kernels/05_softmax_three_passes.cuh"

namespace fa::FA_TARGET {

//! [power]
/// Lesson 03's power: exp(a - b), and 0 when a is -infinity.
__device__ float power(float a, float b) {
  return a == -INFINITY ? 0.0f : expf(a - b);
}
//! [power]

/// As softmax_three_passes(), reading each row twice.
/// Source: Milakov and Gimelshein, 2018, algorithm 3 and section 3.1.
//! [online]
__global__ void softmax_online(const float* x, float* y, int rows, int cols) {
  const int row = blockIdx.x * kSoftmaxWarps + threadIdx.y;
  if (row >= rows) return;  // the whole warp
  const float* in = x + std::int64_t{row} * cols;
  float* out = y + std::int64_t{row} * cols;

  float m = -INFINITY, l = 0;  // of this lane's elements
  for (int j = threadIdx.x; j < cols; j += kWarp) {
    const float m_new = fmaxf(m, in[j]);
    l = power(m, m_new) * l + power(in[j], m_new);
    m = m_new;
  }
  //! [warp_merge]
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const float other_m = __shfl_xor_sync(kAllLanes, m, distance);
    const float other_l = __shfl_xor_sync(kAllLanes, l, distance);
    const float m_new = fmaxf(m, other_m);  // lesson 03: merge
    l = power(m, m_new) * l + power(other_m, m_new) * other_l;
    m = m_new;
  }
  //! [warp_merge]
  for (int j = threadIdx.x; j < cols; j += kWarp) {
    out[j] = l == 0 ? 0.0f : power(in[j], m) / l;
  }
}
//! [online]

}  // namespace fa::FA_TARGET
