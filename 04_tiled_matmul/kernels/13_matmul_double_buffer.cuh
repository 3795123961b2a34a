/// @file
/// Double buffering: while the threads multiply one stage of tiles, cp.async fills the other. One
/// barrier per tile is enough, because no thread writes the stage that others may still read. A
/// 16-byte cp.async cannot transpose, so A is stored by rows, and a thread reads it for four steps
/// at a time.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// Begins to copy a tile, 16 bytes at a time, with 256 threads; zeros outside of the matrix.
template <int tile_rows, int tile_cols, int tile_ld>
__device__ void copy_tile(float* tile, const float* matrix, int row0,
                          int col0, int rows, int cols, int ld, int thread) {
  constexpr int per_row = tile_cols / 4, at_once = 256 / per_row;
  static_assert(256 % per_row == 0 && tile_rows % at_once == 0,
                "as many copies for each thread");
  const int row = thread / per_row, col = thread % per_row * 4;
  const float* from = matrix + std::int64_t{row0 + row} * ld + col0 + col;
  float* to = tile + row * tile_ld + col;
#pragma unroll
  for (int i = 0; i < tile_rows; i += at_once) {
    const bool valid = row0 + row + i < rows && col0 + col < cols;
    cp_async16(to + i * tile_ld, from + std::int64_t{i} * ld, valid);
  }
}

/// C = A B or A B^T in float32; a block computes 128 x 128 elements of C, a thread 8 x 8.
template <bool b_transposed>
__global__ void __launch_bounds__(256, 2)
    matmul_double_buffer(MatmulParams<float> p) {
  constexpr int block_m = 128, block_n = 128, block_k = 16, pad = 4;
  constexpr int thread_m = 8, thread_n = 8;
  constexpr int a_ld = block_k + pad;
  constexpr int b_ld = (b_transposed ? block_k : block_n) + pad;
  __shared__ __align__(16) float a_smem[2][block_m * a_ld];
  __shared__ __align__(
      16) float b_smem[2][(b_transposed ? block_n : block_k) * b_ld];
  const int x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
  const int row0 = blockIdx.y * block_m, col0 = blockIdx.x * block_n;
  const auto fetch = [&](int stage, int k0) {
    copy_tile<block_m, block_k, a_ld>(a_smem[stage], p.a, row0, k0, p.m, p.k,
                                      p.lda, thread);
    if constexpr (b_transposed) {
      copy_tile<block_n, block_k, b_ld>(b_smem[stage], p.b, col0, k0, p.n,
                                        p.k, p.ldb, thread);
    } else {
      copy_tile<block_k, block_n, b_ld>(b_smem[stage], p.b, k0, col0, p.k,
                                        p.n, p.ldb, thread);
    }
    cp_async_commit();
  };
  // A thread's rows are y, y + 16, ...; its columns are x, x + 16, ... when B
  // is transposed, else two groups of four.
  float acc[thread_m][thread_n] = {};
  //! [loop]
  fetch(0, 0);
  for (int k0 = 0, stage = 0; k0 < p.k; k0 += block_k, stage ^= 1) {
    cp_async_wait<0>();
    __syncthreads();  // this stage is complete, no thread reads the other one
    if (k0 + block_k < p.k) fetch(stage ^ 1, k0 + block_k);
      //! [loop]

#pragma unroll
    for (int kk = 0; kk < block_k; kk += 4) {  // C += A B
      float4 a_frag[thread_m];
#pragma unroll
      for (int i = 0; i < thread_m; ++i) {
        a_frag[i] = load4(&a_smem[stage][(16 * i + y) * a_ld + kk]);
      }
      if (b_transposed) {
#pragma unroll
        for (int j = 0; j < thread_n; ++j) {
          const float4 b = load4(&b_smem[stage][(16 * j + x) * b_ld + kk]);
#pragma unroll
          for (int i = 0; i < thread_m; ++i) {
            acc[i][j] += a_frag[i].x * b.x;
            acc[i][j] += a_frag[i].y * b.y;
            acc[i][j] += a_frag[i].z * b.z;
            acc[i][j] += a_frag[i].w * b.w;
          }
        }
      } else {
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          const float* row = &b_smem[stage][(kk + step) * b_ld];
          const float4 b0 = load4(row + 4 * x), b1 = load4(row + 64 + 4 * x);
          const float b_frag[thread_n] = {b0.x, b0.y, b0.z, b0.w,
                                          b1.x, b1.y, b1.z, b1.w};
#pragma unroll
          for (int i = 0; i < thread_m; ++i) {
            const float a[4] = {a_frag[i].x, a_frag[i].y, a_frag[i].z,
                                a_frag[i].w};
#pragma unroll
            for (int j = 0; j < thread_n; ++j)
              acc[i][j] += a[step] * b_frag[j];
          }
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < thread_m; ++i) {
    const int row = row0 + 16 * i + y;
    if (row >= p.m) continue;
    float* to = p.c + std::int64_t{row} * p.ldc + col0;
#pragma unroll
    for (int j = 0; j < thread_n; j += b_transposed ? 1 : 4) {
      const int col = b_transposed ? 16 * j + x : j / 4 * 64 + 4 * x;
      if (col0 + col >= p.n) continue;
      if (b_transposed) {
        to[col] = acc[i][j];
      } else {  // up to ld there is room for the other three
        store4(to + col, make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2],
                                     acc[i][j + 3]));
      }
    }
  }
}

/// Launches matmul_double_buffer(): a block for each 128 x 128 tile of C.
template <bool b_transposed>
void launch_matmul_double_buffer(const MatmulParams<float>& p) {
  const Size block(16, 16);
  const Size grid(ceil_div(p.n, 128), ceil_div(p.m, 128));
  launch(matmul_double_buffer<b_transposed>, {grid, block, 0, 2}, p);
}

FA_STEP_ROW(tiled, 13) {
  return row("13_matmul_double_buffer", "copies while multiplying")
      .needs(kNeedsCpAsync)
      .tile(128, 128, 16, 2)
      .matmul(float{}, [](auto bt, const auto& p) {
        launch_matmul_double_buffer<bt>(p);
      });
}

}  // namespace fa::FA_TARGET
