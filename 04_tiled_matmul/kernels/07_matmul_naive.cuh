/// @file
/// Matrix product, one thread for each element of C. Neighbouring lanes have neighbouring rows: each of
/// their loads from A and stores to C touches another sector.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// The product p of float32 matrices; a thread has an element of C, lanes go along its columns.
/// Launch: blocks of 16 x 16; grid of ceil(m / 16) x ceil(n / 16).
//! [naive]
template <bool b_transposed>
__global__ void matmul_naive(MatmulParams<float> p) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  const int col = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= p.m || col >= p.n) return;
  float sum = 0;
  for (int l = 0; l < p.k; ++l) {
    sum += element_of_a(p, row, l) * element_of_b<b_transposed>(p, l, col);
  }
  p.c[std::int64_t{row} * p.ldc + col] = sum;
}
//! [naive]

}  // namespace fa::FA_TARGET
