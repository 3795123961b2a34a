/// @file
/// As matmul_naive(), with x along the columns: lanes of a warp read neighbours of B and the same element
/// of A, and write neighbours of C. Only the two indices and the shape of the block have changed.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// The product p of float32 matrices; a thread has an element of C, lanes go along its rows.
/// Launch: blocks of 32 x 8; grid of ceil(n / 32) x ceil(m / 8).
//! [coalesced]
template <bool b_transposed>
__global__ void matmul_coalesced(MatmulParams<float> p) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= p.m || col >= p.n) return;
  float sum = 0;
  for (int l = 0; l < p.k; ++l) {
    sum += element_of_a(p, row, l) * element_of_b<b_transposed>(p, l, col);
  }
  p.c[std::int64_t{row} * p.ldc + col] = sum;
}
//! [coalesced]

}  // namespace fa::FA_TARGET
