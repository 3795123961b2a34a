/// @file
/// 2D thread tiling: a thread computes 8 x 8 elements of C. It reads 16 elements from shared memory
/// for 64 multiplications. The rest follows: 256 threads compute 128 x 128 elements, so each loads
/// four of either tile, and A's tile is stored transposed, so that a thread's rows are neighbours,
/// as its columns are.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// C = A B or A B^T in float32; a block computes 128 x 128 elements of C, a thread 8 x 8.
template <bool b_transposed>
__global__ void __launch_bounds__(256)
    matmul_2d_thread_tiling(MatmulParams<float> p) {
  constexpr int block_m = 128, block_n = 128, block_k = 8, threads = 256;
  constexpr int thread_m = 8, thread_n = 8;
  __shared__ float a_smem[block_k][block_m + 1], b_smem[block_k][block_n + 1];
  const int x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
  const int row0 = blockIdx.y * block_m, col0 = blockIdx.x * block_n;
  float acc[thread_m][thread_n] = {};
  for (int k0 = 0; k0 < p.k; k0 += block_k) {
    for (int e = thread; e < block_m * block_k; e += threads) {
      const int load_row = e / block_k, load_k = e % block_k;
      a_smem[load_k][load_row] =
          element_of_a(p, row0 + load_row, k0 + load_k);
      if (b_transposed) {
        b_smem[load_k][load_row] =
            element_of_b<true>(p, k0 + load_k, col0 + load_row);
      } else {
        b_smem[e / block_n][e % block_n] =
            element_of_b<false>(p, k0 + e / block_n, col0 + e % block_n);
      }
    }
    __syncthreads();  // the tiles are complete

    //! [inner]
#pragma unroll
    for (int kk = 0; kk < block_k; ++kk) {  // C += A B
      float a_frag[thread_m], b_frag[thread_n];
#pragma unroll
      for (int i = 0; i < thread_m; ++i) {
        a_frag[i] = a_smem[kk][y * thread_m + i];
      }
#pragma unroll
      for (int j = 0; j < thread_n; ++j) {
        b_frag[j] = b_smem[kk][x * thread_n + j];
      }
#pragma unroll
      for (int i = 0; i < thread_m; ++i) {
#pragma unroll
        for (int j = 0; j < thread_n; ++j) acc[i][j] += a_frag[i] * b_frag[j];
      }
    }
    //! [inner]
    __syncthreads();  // all threads are done with the tiles
  }
#pragma unroll
  for (int i = 0; i < thread_m; ++i) {
#pragma unroll
    for (int j = 0; j < thread_n; ++j) {
      const int row = row0 + y * thread_m + i, col = col0 + x * thread_n + j;
      if (row < p.m && col < p.n) {
        p.c[std::int64_t{row} * p.ldc + col] = acc[i][j];
      }
    }
  }
}

/// Launches matmul_2d_thread_tiling(): a block for each 128 x 128 tile of C.
template <bool b_transposed>
void launch_matmul_2d_thread_tiling(const MatmulParams<float>& p) {
  const Size block(16, 16);
  const Size grid(ceil_div(p.n, 128), ceil_div(p.m, 128));
  launch(matmul_2d_thread_tiling<b_transposed>, {grid, block}, p);
}

FA_STEP_ROW(tiled, 11) {
  return row("11_matmul_2d_thread_tiling", "8 x 8 elements a thread")
      .tile(128, 128, 8)
      .matmul(float{}, [](auto bt, const auto& p) {
        launch_matmul_2d_thread_tiling<bt>(p);
      });
}

}  // namespace fa::FA_TARGET
