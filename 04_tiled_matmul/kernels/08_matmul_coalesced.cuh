/// @file
/// As matmul_naive(), with x along the columns of C: the lanes of a warp read neighbours of B and
/// the same element of A, and write neighbours of C. Only the two indices and the shape of the
/// block change.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// C = A B or A B^T in float32; a thread computes one element, the lanes of a warp go along a row
/// of C.
//! [coalesced]
template <bool b_transposed>
__global__ void matmul_coalesced(MatmulParams<float> p) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= p.m || col >= p.n) return;
  float acc = 0;
  for (int kk = 0; kk < p.k; ++kk) {
    acc += element_of_a(p, row, kk) * element_of_b<b_transposed>(p, kk, col);
  }
  p.c[std::int64_t{row} * p.ldc + col] = acc;
}
//! [coalesced]

/// Launches matmul_coalesced(): a thread for each element of C.
template <bool b_transposed>
void launch_matmul_coalesced(const MatmulParams<float>& p) {
  const Size block(32, 8);
  const Size grid(ceil_div(p.n, 32), ceil_div(p.m, 8));
  launch(matmul_coalesced<b_transposed>, {grid, block}, p);
}

FA_STEP_ROW(tiled, 8) {
  return row("08_matmul_coalesced", "lanes along the columns")
      .tile(8, 32)
      .matmul(float{},
              [](auto bt, const auto& p) { launch_matmul_coalesced<bt>(p); });
}

}  // namespace fa::FA_TARGET
