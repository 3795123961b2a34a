/// @file
/// Two stages of tiles: while one is multiplied, cp.async fills the other. One barrier for each tile is
/// enough, because nobody writes where others may still read. cp.async cannot turn a tile on its way, so A
/// stays as it lies in memory and is read four steps of the sum at a time.
#pragma once

#include "04_tiled_matmul/kernels/12_matmul_vector_loads.cuh"

namespace fa::FA_TARGET {

/// Depth of the tiles of matmul_double_buffer().
constexpr int kAsyncDepth = 16;
/// Elements at the end of each row that is kAsyncDepth long.
constexpr int kAsyncPad = 4;

/// Begins to copy a tile, 16 bytes at a time; zeros outside of the matrix.
template <int tile_rows, int tile_cols, int tile_ld, int threads = 256>
__device__ void copy_tile(float* tile, const float* matrix, int row0,
                          int col0, int rows, int cols, int ld, int thread) {
  constexpr int per_row = tile_cols / 4, at_once = threads / per_row;
  static_assert(threads % per_row == 0 && tile_rows % at_once == 0,
                "as many for each thread");
  const int row = thread / per_row, col = thread % per_row * 4;
  const float* from = matrix + std::int64_t{row0 + row} * ld + col0 + col;
  float* to = tile + row * tile_ld + col;
#pragma unroll
  for (int i = 0; i < tile_rows; i += at_once) {
    const bool valid = row0 + row + i < rows && col0 + col < cols;
    cp_async16(to + i * tile_ld, from + std::int64_t{i} * ld, valid);
  }
}

/// The product p of float32 matrices, with two stages of tiles.
/// Launch: blocks of 16 x 16; grid of ceil(n / 128) x ceil(m / 128).
//! [double_buffer]
template <bool b_transposed>
__global__ void __launch_bounds__(256, 2)
    matmul_double_buffer(MatmulParams<float> p) {
  constexpr int tile = kVectorTile, depth = kAsyncDepth;
  constexpr int long_ld = tile + kVectorPad, short_ld = depth + kAsyncPad;
  __shared__ __align__(16) float a_smem[2][tile * short_ld];
  __shared__ __align__(
      16) float b_smem[2][b_transposed ? tile * short_ld : depth * long_ld];
  const int x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
  const int row0 = blockIdx.y * tile, col0 = blockIdx.x * tile;
  const auto fetch = [&](int stage, int l0) {
    copy_tile<tile, depth, short_ld>(a_smem[stage], p.a, row0, l0, p.m, p.k,
                                     p.lda, thread);
    if (b_transposed) {
      copy_tile<tile, depth, short_ld>(b_smem[stage], p.b, col0, l0, p.n, p.k,
                                       p.ldb, thread);
    } else {
      copy_tile<depth, tile, long_ld>(b_smem[stage], p.b, l0, col0, p.k, p.n,
                                      p.ldb, thread);
    }
    cp_async_commit();
  };
  // A thread's rows are y, y + 16, ...; its columns x, x + 16, ... when B is
  // turned, else two groups of four.
  float sum[8][8] = {};
  fetch(0, 0);
  for (int l0 = 0, stage = 0; l0 < p.k; l0 += depth, stage ^= 1) {
    cp_async_wait<0>();
    __syncthreads();  // this stage is there, and nobody reads the other one
    if (l0 + depth < p.k) fetch(stage ^ 1, l0 + depth);
#pragma unroll
    for (int l = 0; l < depth; l += 4) {
      float4 a[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        a[i] = load4(&a_smem[stage][(16 * i + y) * short_ld + l]);
      }
      if (b_transposed) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const float4 b = load4(&b_smem[stage][(16 * j + x) * short_ld + l]);
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            sum[i][j] += a[i].x * b.x;
            sum[i][j] += a[i].y * b.y;
            sum[i][j] += a[i].z * b.z;
            sum[i][j] += a[i].w * b.w;
          }
        }
      } else {
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          const float* row = &b_smem[stage][(l + step) * long_ld];
          const float4 b0 = load4(row + 4 * x), b1 = load4(row + 64 + 4 * x);
          const float b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const float of_step[4] = {a[i].x, a[i].y, a[i].z, a[i].w};
#pragma unroll
            for (int j = 0; j < 8; ++j) sum[i][j] += of_step[step] * b[j];
          }
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = row0 + 16 * i + y;
    if (row >= p.m) continue;
    float* to = p.c + std::int64_t{row} * p.ldc + col0;
#pragma unroll
    for (int j = 0; j < 8; j += b_transposed ? 1 : 4) {
      const int col = b_transposed ? 16 * j + x : j / 4 * 64 + 4 * x;
      if (col0 + col >= p.n) continue;
      if (b_transposed) {
        to[col] = sum[i][j];
      } else {  // ld leaves room for the other three
        store4(to + col, make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2],
                                     sum[i][j + 3]));
      }
    }
  }
}
//! [double_buffer]

}  // namespace fa::FA_TARGET
