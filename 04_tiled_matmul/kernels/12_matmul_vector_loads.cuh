/// @file
/// Loads and stores of four elements, in global and in shared memory. The 8 x 8 elements of a
/// thread are four groups of 4 x 4, so that the lanes of a warp read neighbours; a pad avoids bank
/// conflicts where a tile is stored transposed.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// Four neighbours of a row, 0 outside. They may reach beyond cols, up to ld.
__device__ inline float4 load4_or_zero(const float* matrix, int row, int col,
                                       int rows, int cols, int ld) {
  return row < rows && col < cols
             ? load4(matrix + std::int64_t{row} * ld + col)
             : make_float4(0, 0, 0, 0);
}

/// Reads a fragment from shared memory: groups of four elements, `distance` apart.
template <int distance, int count>
__device__ void load_groups(float (&frag)[count], const float* smem) {
#pragma unroll
  for (int i = 0; i < count / 4; ++i) {
    const float4 group = load4(smem + i * distance);
    frag[4 * i] = group.x;
    frag[4 * i + 1] = group.y;
    frag[4 * i + 2] = group.z;
    frag[4 * i + 3] = group.w;
  }
}

/// C = A B or A B^T in float32; a block computes 128 x 128 elements of C, a thread four groups of 4
/// x 4.
template <bool b_transposed>
__global__ void __launch_bounds__(256)
    matmul_vector_loads(MatmulParams<float> p) {
  constexpr int block_m = 128, block_n = 128, block_k = 8, pad = 4;
  constexpr int thread_m = 8, thread_n = 8;
  __shared__ __align__(16) float a_smem[block_k][block_m + pad];
  __shared__ __align__(16) float b_smem[block_k][block_n + pad];
  const int x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
  const int row0 = blockIdx.y * block_m, col0 = blockIdx.x * block_n;
  const int load_row = thread / 2, load_k = thread % 2 * 4;
  float acc[thread_m][thread_n] = {};
  for (int k0 = 0; k0 < p.k; k0 += block_k) {
    const float4 a =
        load4_or_zero(p.a, row0 + load_row, k0 + load_k, p.m, p.k, p.lda);
    a_smem[load_k][load_row] = a.x;
    a_smem[load_k + 1][load_row] = a.y;
    a_smem[load_k + 2][load_row] = a.z;
    a_smem[load_k + 3][load_row] = a.w;
    if (b_transposed) {
      const float4 b =
          load4_or_zero(p.b, col0 + load_row, k0 + load_k, p.n, p.k, p.ldb);
      b_smem[load_k][load_row] = b.x;
      b_smem[load_k + 1][load_row] = b.y;
      b_smem[load_k + 2][load_row] = b.z;
      b_smem[load_k + 3][load_row] = b.w;
    } else {
      const int row = thread / 32, col = thread % 32 * 4;
      store4(&b_smem[row][col],
             load4_or_zero(p.b, k0 + row, col0 + col, p.k, p.n, p.ldb));
    }
    __syncthreads();  // the tiles are complete

    //! [inner]
#pragma unroll
    for (int kk = 0; kk < block_k; ++kk) {  // C += A B
      float a_frag[thread_m], b_frag[thread_n];
      load_groups<64>(a_frag, &a_smem[kk][4 * y]);
      load_groups<64>(b_frag, &b_smem[kk][4 * x]);
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
    const int row = row0 + i / 4 * 64 + 4 * y + i % 4;
    if (row >= p.m) continue;
#pragma unroll
    for (int j = 0; j < thread_n; j += 4) {
      const int col = col0 + j / 4 * 64 + 4 * x;
      if (col < p.n) {  // up to ld there is room for the other three
        store4(p.c + std::int64_t{row} * p.ldc + col,
               make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2],
                           acc[i][j + 3]));
      }
    }
  }
}

/// Launches matmul_vector_loads(): a block for each 128 x 128 tile of C.
template <bool b_transposed>
void launch_matmul_vector_loads(const MatmulParams<float>& p) {
  const Size block(16, 16);
  const Size grid(ceil_div(p.n, 128), ceil_div(p.m, 128));
  launch(matmul_vector_loads<b_transposed>, {grid, block}, p);
}

FA_STEP_ROW(tiled, 12) {
  return row("12_matmul_vector_loads", "four elements at a time")
      .tile(128, 128, 8)
      .matmul(float{}, [](auto bt, const auto& p) {
        launch_matmul_vector_loads<bt>(p);
      });
}

}  // namespace fa::FA_TARGET
