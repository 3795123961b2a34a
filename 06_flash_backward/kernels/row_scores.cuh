/// @file
/// P and dS of scores that are not transposed, S = Q K^T: a lane needs LSE and delta of its two
/// rows of queries only.
#pragma once

#include "06_flash_backward/kernels/hopper_backward.cuh"

namespace fa::FA_TARGET {

/// P = exp2(scale S - LSE).
/// @param s          S; P on return
/// @param lse_base_2 of this lane's two rows
/// @param scale      of the scores / ln 2
template <int r>
__device__ void recompute_prob_rows(float (&s)[r],
                                    const float (&lse_base_2)[2],
                                    float scale) {
#pragma unroll
  for (int i = 0; i < r; ++i) {
    s[i] = exp2_approx(s[i] * scale - lse_base_2[element_row(i)]);
  }
}

/// dS = P * (dP - delta), elementwise.
/// @param d_p   dP; dS on return
/// @param p     P
/// @param delta of this lane's two rows
template <int r>
__device__ void score_gradient_rows(float (&d_p)[r], const float (&p)[r],
                                    const float (&delta)[2]) {
#pragma unroll
  for (int i = 0; i < r; ++i) {
    d_p[i] = p[i] * (d_p[i] - delta[element_row(i)]);
  }
}

/// A value of each of this lane's two rows.
struct RowPair {
  float of[2];
};
/// Reads both from a column of values, one for each row.
__device__ inline RowPair row_pair(const float* rows) {
  return {{rows[lane_row(0)], rows[lane_row(1)]}};
}

}  // namespace fa::FA_TARGET
