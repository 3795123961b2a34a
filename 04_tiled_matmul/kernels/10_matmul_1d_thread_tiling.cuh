/// @file
/// Eight results for each thread, in registers: an element of B that was read from shared memory serves
/// eight products.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// The product p of float32 matrices; a thread has eight elements of a column of C.
/// Launch: blocks of 64 x 8; grid of ceil(n / 64) x ceil(m / 64).
//! [1d_thread_tiling]
template <bool b_transposed>
__global__ void matmul_1d_thread_tiling(MatmulParams<float> p) {
  constexpr int tile = 64, depth = 8, results = 8;
  __shared__ float a_smem[tile][depth], b_smem[depth][tile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const int thread = y * tile + x;  // 512 of them
  const int row0 = blockIdx.y * tile, col0 = blockIdx.x * tile;
  float sum[results] = {};
  for (int l0 = 0; l0 < p.k; l0 += depth) {
    const int i = thread / depth, l = thread % depth;  // one element each
    a_smem[i][l] = element_of_a(p, row0 + i, l0 + l);
    if (b_transposed) {
      b_smem[l][i] = element_of_b<true>(p, l0 + l, col0 + i);
    } else {
      b_smem[y][x] = element_of_b<false>(p, l0 + y, col0 + x);
    }
    __syncthreads();  // the tiles are there
#pragma unroll
    for (int step = 0; step < depth; ++step) {
      const float b = b_smem[step][x];
#pragma unroll
      for (int r = 0; r < results; ++r) {
        sum[r] += a_smem[y * results + r][step] * b;
      }
    }
    __syncthreads();  // nobody needs them any more
  }
  for (int r = 0; r < results; ++r) {
    const int row = row0 + y * results + r;
    if (row < p.m && col0 + x < p.n) {
      p.c[std::int64_t{row} * p.ldc + col0 + x] = sum[r];
    }
  }
}
//! [1d_thread_tiling]

}  // namespace fa::FA_TARGET
