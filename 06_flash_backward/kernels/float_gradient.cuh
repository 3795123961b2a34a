/// @file
/// What float32 kernels share: P as all of them recompute it, and zeros for the dQ that some add
/// to.
#pragma once

#include "06_flash_backward/kernels/gradient.cuh"

namespace fa::FA_TARGET {

/// LSE of a query, +infinity for one that does not exist, so that all its probabilities are 0.
__device__ inline float lse_of(const AttentionGradient<float>& a,
                               const GradientHead<float>& head, int query) {
  return query < a.length_q ? head.lse[query] : INFINITY;
}

/// exp(scale s - LSE), whose row sum is 1 but for rounding. The difference comes before the
/// factor log2(e): the difference of two large values is small, and so is the error of its product.
/// A fused multiply-add rounds the difference only, and the same way in each kernel.
__device__ inline float recomputed_prob(float s, float scale, float lse) {
  return exp2_approx(__fmaf_rn(s, scale, -lse) * kLog2E);
}

/// The same for a query that sees so many keys. P of the only key is 1, whatever the rounding
/// errors of S and LSE are.
__device__ inline float recomputed_prob(float s, float scale, float lse,
                                        int visible) {
  return visible == 1 ? 1.0f : recomputed_prob(s, scale, lse);
}

/// dS = P * (dP - delta). Where P is 1 the other keys of the row have less than a rounding error of
/// it, delta is dP, and what is left of the difference would be rounding errors only.
/// @param p before dropout
__device__ inline float float_score_gradient(float p, float d_p,
                                             float delta) {
  return p == 1 ? 0.0f : p * (d_p - delta);
}

/// Queries of a block of zero_d_q(), which has 8 threads for each.
constexpr int kZeroedRows = 32;

/// Zeroes dQ.
template <int d>
__global__ void zero_d_q(AttentionGradient<float> a) {
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const int query =
      blockIdx.x * kZeroedRows + static_cast<int>(threadIdx.x) / 8;
  if (query >= a.length_q) return;
#pragma unroll
  for (int c = 0; c < d / 32; ++c) {
    const int col = 32 * c + threadIdx.x % 8 * 4;
    if (col < a.head_dim) {
      store4(head.d_q + query * a.d_q_strides.row + col,
             make_float4(0, 0, 0, 0));
    }
  }
}

/// Launches zero_d_q().
template <int d>
void launch_zero_d_q(const AttentionGradient<float>& a,
                     const Stream& stream) {
  launch(stream, zero_d_q<d>, {grid_of(a, kZeroedRows), {8 * kZeroedRows}},
         a);
}

}  // namespace fa::FA_TARGET
