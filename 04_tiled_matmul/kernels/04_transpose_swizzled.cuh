/// @file
/// Transpose through a swizzled tile: no bank conflicts, and no memory for a pad. Element (row,
/// col) is stored in column col ^ row, so that the elements of a column lie in 32 different banks.
#pragma once

#include "04_tiled_matmul/kernels/02_transpose_naive.cuh"

namespace fa::FA_TARGET {

/// As transpose_naive(), through a swizzled tile in shared memory.
//! [swizzled]
__global__ void transpose_swizzled(const float* in, float* out, int rows,
                                   int cols) {
  __shared__ float tile[kTransposeTile][kTransposeTile];
  const int x = blockIdx.x * kTransposeTile + threadIdx.x;
  const int y = blockIdx.y * kTransposeTile + threadIdx.y;
  if (x < cols && y < rows) {
    tile[threadIdx.y][threadIdx.x ^ threadIdx.y] =
        in[std::int64_t{y} * cols + x];
  }
  __syncthreads();  // the tile is complete
  const int out_x = blockIdx.y * kTransposeTile + threadIdx.x;
  const int out_y = blockIdx.x * kTransposeTile + threadIdx.y;
  if (out_x < rows && out_y < cols) {
    out[std::int64_t{out_y} * rows + out_x] =
        tile[threadIdx.x][threadIdx.y ^ threadIdx.x];
  }
}
//! [swizzled]

/// Launches transpose_swizzled(): a block for each tile of `in`.
inline void launch_transpose_swizzled(const float* in, float* out, int rows,
                                      int cols) {
  const Size block(kTransposeTile, kTransposeTile);
  const Size grid(ceil_div(cols, kTransposeTile),
                  ceil_div(rows, kTransposeTile));
  launch(transpose_swizzled, {grid, block}, in, out, rows, cols);
}

FA_STEP_ROW(tiled, 4) {
  return row("04_transpose_swizzled", "no memory for a pad")
      .tile(kTransposeTile, kTransposeTile)
      .transpose(launch_transpose_swizzled);
}

}  // namespace fa::FA_TARGET
