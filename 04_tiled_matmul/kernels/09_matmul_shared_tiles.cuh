/// @file
/// Tiles of A and B in shared memory: a block reads each element from global memory once, instead
/// of once for each thread that needs it. Traffic falls by the size of the tile.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// Rows and columns of C that a block computes, and the depth of its tiles along k.
constexpr int kSharedTile = 32;

/// C = A B or A B^T in float32, through tiles of 32 x 32 in shared memory.
//! [shared_tiles]
template <bool b_transposed>
__global__ void matmul_shared_tiles(MatmulParams<float> p) {
  constexpr int tile = kSharedTile;
  __shared__ float a_smem[tile][tile], b_smem[tile][tile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row0 = blockIdx.y * tile, col0 = blockIdx.x * tile;
  float acc = 0;
  for (int k0 = 0; k0 < p.k; k0 += tile) {
    a_smem[y][x] = element_of_a(p, row0 + y, k0 + x);
    if (b_transposed) {  // lanes along the rows of B: along k
      b_smem[x][y] = element_of_b<true>(p, k0 + x, col0 + y);
    } else {
      b_smem[y][x] = element_of_b<false>(p, k0 + y, col0 + x);
    }
    __syncthreads();  // the tiles are complete
    //! [inner]
    // C += A B
    for (int kk = 0; kk < tile; ++kk) acc += a_smem[y][kk] * b_smem[kk][x];
    //! [inner]
    __syncthreads();  // all threads are done with the tiles
  }
  if (row0 + y < p.m && col0 + x < p.n) {
    p.c[std::int64_t{row0 + y} * p.ldc + col0 + x] = acc;
  }
}
//! [shared_tiles]

/// Launches matmul_shared_tiles(): a block for each tile of C.
template <bool b_transposed>
void launch_matmul_shared_tiles(const MatmulParams<float>& p) {
  const Size block(kSharedTile, kSharedTile);
  const Size grid(ceil_div(p.n, kSharedTile), ceil_div(p.m, kSharedTile));
  launch(matmul_shared_tiles<b_transposed>, {grid, block}, p);
}

FA_STEP_ROW(tiled, 9) {
  return row("09_matmul_shared_tiles", "tiles in shared memory")
      .tile(kSharedTile, kSharedTile, kSharedTile)
      .matmul(float{}, [](auto bt, const auto& p) {
        launch_matmul_shared_tiles<bt>(p);
      });
}

}  // namespace fa::FA_TARGET
