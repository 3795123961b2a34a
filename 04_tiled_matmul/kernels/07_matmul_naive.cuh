/// @file
/// Matmul, one thread per element of C. Neighbouring lanes compute neighbouring rows: each of their
/// loads from A and stores to C touches another sector.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// C = A B or A B^T in float32; a thread computes one element, the lanes of a warp go down a column
/// of C.
//! [naive]
template <bool b_transposed>
__global__ void matmul_naive(MatmulParams<float> p) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int col = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= p.m || col >= p.n) return;
  float acc = 0;
  for (int kk = 0; kk < p.k; ++kk) {
    acc += element_of_a(p, row, kk) * element_of_b<b_transposed>(p, kk, col);
  }
  p.c[std::int64_t{row} * p.ldc + col] = acc;
}
//! [naive]

/// Launches matmul_naive(): a thread for each element of C.
template <bool b_transposed>
void launch_matmul_naive(const MatmulParams<float>& p) {
  const Size block(16, 16);
  const Size grid(ceil_div(p.m, 16), ceil_div(p.n, 16));
  launch(matmul_naive<b_transposed>, {grid, block}, p);
}

FA_STEP_ROW(tiled, 7) {
  return row("07_matmul_naive", "a thread for each element")
      .tile(16, 16)
      .matmul(float{},
              [](auto bt, const auto& p) { launch_matmul_naive<bt>(p); });
}

}  // namespace fa::FA_TARGET
