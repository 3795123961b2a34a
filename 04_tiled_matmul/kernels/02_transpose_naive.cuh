/// @file
/// Transpose, element by element: neighbouring lanes read neighbours, and write a whole row apart.
#pragma once

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Rows and columns that a block transposes.
constexpr int kTransposeTile = 32;

/// out[x][y] = in[y][x], both row-major.
/// Launch: blocks of 32 x 32; grid of the tiles of `in`, columns in x.
/// @param in  [rows, cols]
/// @param out [cols, rows]
/// @param rows of `in`
/// @param cols of `in`
//! [naive]
__global__ void transpose_naive(const float* in, float* out, int rows,
                                int cols) {
  const int x = blockIdx.x * kTransposeTile + threadIdx.x;
  const int y = blockIdx.y * kTransposeTile + threadIdx.y;
  if (x < cols && y < rows) {
    out[std::int64_t{x} * rows + y] = in[std::int64_t{y} * cols + x];
  }
}
//! [naive]

}  // namespace fa::FA_TARGET
