/// @file
/// Transpose, one element per thread: the lanes of a warp read neighbours, and write elements a
/// whole row apart.
#pragma once

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// Rows and columns that a block transposes.
constexpr int kTransposeTile = 32;

/// out[x][y] = in[y][x], both row-major.
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

/// Launches transpose_naive(): a block for each tile of `in`.
inline void launch_transpose_naive(const float* in, float* out, int rows,
                                   int cols) {
  const Size block(kTransposeTile, kTransposeTile);
  const Size grid(ceil_div(cols, kTransposeTile),
                  ceil_div(rows, kTransposeTile));
  launch(transpose_naive, {grid, block}, in, out, rows, cols);
}

FA_STEP_ROW(tiled, 2) {
  return row("02_transpose_naive", "element by element")
      .tile(kTransposeTile, kTransposeTile)
      .transpose(launch_transpose_naive);
}

}  // namespace fa::FA_TARGET
