/// @file
/// Transpose through a tile in shared memory: global memory is read and written by whole rows, and
/// the tile is read by columns. Without a pad, a column of the tile lies in one bank.
#pragma once

#include "04_tiled_matmul/kernels/02_transpose_naive.cuh"

namespace fa::FA_TARGET {

/// As transpose_naive(), through a tile in shared memory.
/// @tparam pad columns that are added to the tile; with 1, neighbours in a column lie in
///         neighbouring banks
//! [shared]
template <int pad>
__global__ void transpose_shared(const float* in, float* out, int rows,
                                 int cols) {
  __shared__ float tile[kTransposeTile][kTransposeTile + pad];
  const int x = blockIdx.x * kTransposeTile + threadIdx.x;
  const int y = blockIdx.y * kTransposeTile + threadIdx.y;
  if (x < cols && y < rows) {
    tile[threadIdx.y][threadIdx.x] = in[std::int64_t{y} * cols + x];
  }
  __syncthreads();  // the tile is complete
  const int out_x = blockIdx.y * kTransposeTile + threadIdx.x;
  const int out_y = blockIdx.x * kTransposeTile + threadIdx.y;
  if (out_x < rows && out_y < cols) {
    out[std::int64_t{out_y} * rows + out_x] = tile[threadIdx.x][threadIdx.y];
  }
}
//! [shared]

/// Launches transpose_shared(): a block for each tile of `in`.
template <int pad>
void launch_transpose_shared(const float* in, float* out, int rows,
                             int cols) {
  const Size block(kTransposeTile, kTransposeTile);
  const Size grid(ceil_div(cols, kTransposeTile),
                  ceil_div(rows, kTransposeTile));
  launch(transpose_shared<pad>, {grid, block}, in, out, rows, cols);
}

FA_STEP_ROW(tiled, 3) {
  return row("03_transpose_shared", "a tile in shared memory")
      .tile(kTransposeTile, kTransposeTile)
      .transpose(launch_transpose_shared<0>)
      .variant("03_transpose_shared, padded", "33 columns")
      .transpose(launch_transpose_shared<1>);
}

}  // namespace fa::FA_TARGET
