/// @file
/// 1D thread tiling: a thread computes 8 elements of a column of C in registers. An element of B
/// that is read from shared memory is used 8 times.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// C = A B or A B^T in float32; a block computes 64 x 64 elements of C, a thread 8 x 1.
template <bool b_transposed>
__global__ void matmul_1d_thread_tiling(MatmulParams<float> p) {
  constexpr int block_m = 64, block_n = 64, block_k = 8, thread_m = 8;
  __shared__ float a_smem[block_m][block_k], b_smem[block_k][block_n + 1];
  const int x = threadIdx.x, y = threadIdx.y, thread = y * 64 + x;
  const int row0 = blockIdx.y * block_m, col0 = blockIdx.x * block_n;
  float acc[thread_m] = {};
  for (int k0 = 0; k0 < p.k; k0 += block_k) {
    const int load_row = thread / block_k, load_k = thread % block_k;
    a_smem[load_row][load_k] = element_of_a(p, row0 + load_row, k0 + load_k);
    if (b_transposed) {
      b_smem[load_k][load_row] =
          element_of_b<true>(p, k0 + load_k, col0 + load_row);
    } else {
      b_smem[y][x] = element_of_b<false>(p, k0 + y, col0 + x);
    }
    __syncthreads();  // the tiles are complete

    //! [inner]
#pragma unroll
    for (int kk = 0; kk < block_k; ++kk) {  // C += A B
      const float b_frag = b_smem[kk][x];
#pragma unroll
      for (int r = 0; r < thread_m; ++r) {
        acc[r] += a_smem[y * thread_m + r][kk] * b_frag;
      }
    }
    //! [inner]
    __syncthreads();  // all threads are done with the tiles
  }
  for (int r = 0; r < thread_m; ++r) {
    const int row = row0 + y * thread_m + r;
    if (row < p.m && col0 + x < p.n) {
      p.c[std::int64_t{row} * p.ldc + col0 + x] = acc[r];
    }
  }
}

/// Launches matmul_1d_thread_tiling(): a block for each 64 x 64 tile of C.
template <bool b_transposed>
void launch_matmul_1d_thread_tiling(const MatmulParams<float>& p) {
  const Size block(64, 8);
  const Size grid(ceil_div(p.n, 64), ceil_div(p.m, 64));
  launch(matmul_1d_thread_tiling<b_transposed>, {grid, block}, p);
}

FA_STEP_ROW(tiled, 10) {
  return row("10_matmul_1d_thread_tiling", "8 elements a thread")
      .tile(64, 64, 8)
      .matmul(float{}, [](auto bt, const auto& p) {
        launch_matmul_1d_thread_tiling<bt>(p);
      });
}

}  // namespace fa::FA_TARGET
