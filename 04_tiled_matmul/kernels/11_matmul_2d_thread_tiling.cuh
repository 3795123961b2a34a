/// @file
/// A block of 8 x 8 results for each thread: 16 numbers read from shared memory serve 64 products.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// The product p of float32 matrices; a thread has 8 x 8 elements of C.
/// Launch: blocks of 16 x 16; grid of ceil(n / 128) x ceil(m / 128).
//! [2d_thread_tiling]
template <bool b_transposed>
__global__ void __launch_bounds__(256)
    matmul_2d_thread_tiling(MatmulParams<float> p) {
  constexpr int tile = 128, depth = 8, side = 8, threads = 256;
  __shared__ float a_smem[depth][tile + 1], b_smem[depth][tile + 1];
  const int x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
  const int row0 = blockIdx.y * tile, col0 = blockIdx.x * tile;
  float sum[side][side] = {};
  for (int l0 = 0; l0 < p.k; l0 += depth) {
    for (int e = thread; e < tile * depth; e += threads) {
      const int i = e / depth, l = e % depth;
      a_smem[l][i] = element_of_a(p, row0 + i, l0 + l);
      if (b_transposed) {
        b_smem[l][i] = element_of_b<true>(p, l0 + l, col0 + i);
      } else {
        b_smem[e / tile][e % tile] =
            element_of_b<false>(p, l0 + e / tile, col0 + e % tile);
      }
    }
    __syncthreads();  // the tiles are there
#pragma unroll
    for (int l = 0; l < depth; ++l) {
      float a[side], b[side];
#pragma unroll
      for (int i = 0; i < side; ++i) a[i] = a_smem[l][y * side + i];
#pragma unroll
      for (int j = 0; j < side; ++j) b[j] = b_smem[l][x * side + j];
#pragma unroll
      for (int i = 0; i < side; ++i) {
#pragma unroll
        for (int j = 0; j < side; ++j) sum[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();  // nobody needs them any more
  }
#pragma unroll
  for (int i = 0; i < side; ++i) {
#pragma unroll
    for (int j = 0; j < side; ++j) {
      const int row = row0 + y * side + i, col = col0 + x * side + j;
      if (row < p.m && col < p.n) {
        p.c[std::int64_t{row} * p.ldc + col] = sum[i][j];
      }
    }
  }
}
//! [2d_thread_tiling]

}  // namespace fa::FA_TARGET
