/// @file
/// Four numbers at a time, from global and from shared memory. A thread's 8 x 8 results lie in four groups
/// of 4 x 4, so that the lanes of a warp read neighbours; a pad keeps the stores of transposed tiles apart.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// Rows and columns of C that a block computes.
constexpr int kVectorTile = 128;
/// Depth of the tiles of matmul_vector_loads().
constexpr int kVectorDepth = 8;
/// Elements at the end of each row of a tile.
constexpr int kVectorPad = 4;

/// Four neighbours of a row, 0 outside. They may reach into what lies between cols and ld.
__device__ inline float4 four_of_row(const float* matrix, int row, int col,
                                     int rows, int cols, int ld) {
  return row < rows && col < cols
             ? load4(matrix + std::int64_t{row} * ld + col)
             : make_float4(0, 0, 0, 0);
}

/// sum += a b^T for four-by-four groups: a thread's rows are 4 y.. and 64 + 4 y.., its columns likewise.
__device__ inline void multiply_groups(
    float (&sum)[8][8], const float (&a_smem)[kVectorTile + kVectorPad],
    const float (&b_smem)[kVectorTile + kVectorPad], int x, int y) {
  const float4 a0 = load4(&a_smem[4 * y]), a1 = load4(&a_smem[64 + 4 * y]);
  const float4 b0 = load4(&b_smem[4 * x]), b1 = load4(&b_smem[64 + 4 * x]);
  const float a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
  const float b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[i][j] += a[i] * b[j];
  }
}

/// Writes the results of multiply_groups().
__device__ inline void store_groups(const MatmulParams<float>& p,
                                    const float (&sum)[8][8], int row0,
                                    int col0, int x, int y) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = row0 + i / 4 * 64 + 4 * y + i % 4;
    if (row >= p.m) continue;
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const int col = col0 + group * 64 + 4 * x;
      float* to = p.c + std::int64_t{row} * p.ldc + col;
      const float* from = &sum[i][4 * group];
      if (col < p.n) {  // ld leaves room for the other three
        store4(to, make_float4(from[0], from[1], from[2], from[3]));
      }
    }
  }
}

/// The product p of float32 matrices; a thread has four groups of 4 x 4 elements of C.
/// Launch: blocks of 16 x 16; grid of ceil(n / 128) x ceil(m / 128).
//! [vector_loads]
template <bool b_transposed>
__global__ void __launch_bounds__(256)
    matmul_vector_loads(MatmulParams<float> p) {
  constexpr int tile = kVectorTile, depth = kVectorDepth;
  __shared__ __align__(16) float a_smem[depth][tile + kVectorPad];
  __shared__ __align__(16) float b_smem[depth][tile + kVectorPad];
  const int x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
  const int row0 = blockIdx.y * tile, col0 = blockIdx.x * tile;
  const int i = thread / 2, l = thread % 2 * 4;  // of tiles that are turned
  float sum[8][8] = {};
  for (int l0 = 0; l0 < p.k; l0 += depth) {
    const float4 a = four_of_row(p.a, row0 + i, l0 + l, p.m, p.k, p.lda);
    a_smem[l][i] = a.x;
    a_smem[l + 1][i] = a.y;
    a_smem[l + 2][i] = a.z;
    a_smem[l + 3][i] = a.w;
    if (b_transposed) {
      const float4 b = four_of_row(p.b, col0 + i, l0 + l, p.n, p.k, p.ldb);
      b_smem[l][i] = b.x;
      b_smem[l + 1][i] = b.y;
      b_smem[l + 2][i] = b.z;
      b_smem[l + 3][i] = b.w;
    } else {
      store4(&b_smem[thread / 32][thread % 32 * 4],
             four_of_row(p.b, l0 + thread / 32, col0 + thread % 32 * 4, p.k,
                         p.n, p.ldb));
    }
    __syncthreads();  // the tiles are there
#pragma unroll
    for (int step = 0; step < depth; ++step) {
      multiply_groups(sum, a_smem[step], b_smem[step], x, y);
    }
    __syncthreads();  // nobody needs them any more
  }
  store_groups(p, sum, row0, col0, x, y);
}
//! [vector_loads]

}  // namespace fa::FA_TARGET
