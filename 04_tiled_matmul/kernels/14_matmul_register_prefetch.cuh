/// @file
/// Larger tiles for each thread, and numbers that are loaded one step ahead. 8 x 16 results of a thread need 24
/// loaded numbers for 128 multiplications, where 8 x 8 need 16 for 64: shared memory keeps up. While one
/// step is multiplied, the next one's numbers come into other registers. Tiles lie in shared memory with the
/// rows of a step side by side; what does not lie so in global memory is turned by 4-byte copies.
#pragma once

#include "04_tiled_matmul/kernels/13_matmul_double_buffer.cuh"

namespace fa::FA_TARGET {

/// Sizes of matmul_register_prefetch(): 2 x 4 warps, each with 64 x 64 results, a lane with 8 x 16.
struct RegisterTile {
  static constexpr int rows = 128;              ///< of C
  static constexpr int cols = 256;              ///< of C
  static constexpr int depth = 16;              ///< of the tiles of A and B
  static constexpr int threads = 256;           ///< of a block
  static constexpr int stages = 3;              ///< in shared memory
  static constexpr int a_ld = rows + 4;         ///< distance of steps in A
  static constexpr int b_ld = cols + 4;         ///< distance of steps in B
  static constexpr int a_size = depth * a_ld;   ///< elements of A's tile
  static constexpr int b_size = depth * b_ld;   ///< elements of B's tile
  static constexpr int size = a_size + b_size;  ///< elements of one stage
  /// Dynamic shared memory of a block.
  static constexpr std::size_t shared_bytes = sizeof(float) * stages * size;
};

/// Begins to copy a tile and turns it: tile[l][row] = matrix[row0 + row][l0 + l].
template <int tile_rows, int tile_depth, int tile_ld, int threads>
__device__ void copy_transposed(float* tile, const float* matrix, int row0,
                                int l0, int rows, int depth, int ld,
                                int thread) {
  // 8 lanes read a sector; 4 rows of them fill the 32 banks
  const int row = thread / 8 % tile_rows, l = thread % 8;
  constexpr int at_once = threads / 8;
#pragma unroll
  for (int e = 0; e < tile_rows * tile_depth / 8; e += at_once) {
    const int i = row + e % tile_rows, s = l + e / tile_rows * 8;
    const bool valid = row0 + i < rows && l0 + s < depth;
    cp_async4(tile + s * tile_ld + i,
              matrix + std::int64_t{row0 + i} * ld + l0 + s, valid);
  }
}

/// What a thread multiplies in one step.
struct StepNumbers {
  float a[8];   ///< rows 0..3 and 32..35 from its first
  float b[16];  ///< columns 0..3, 16..19, 32..35 and 48..51 from its first
};

/// Reads count numbers, four at a time, the fours as far apart as `distance`.
template <int count, int distance>
__device__ void load_fours(float (&to)[count], const float* from) {
#pragma unroll
  for (int i = 0; i < count / 4; ++i) {
    const float4 four = load4(from + i * distance);
    to[4 * i] = four.x;
    to[4 * i + 1] = four.y;
    to[4 * i + 2] = four.z;
    to[4 * i + 3] = four.w;
  }
}

/// The product p of float32 matrices; a thread has 8 x 16 elements of C.
/// Launch: blocks of 256; grid of ceil(n / 256) x ceil(m / 128); RegisterTile::shared_bytes.
//! [register_prefetch]
template <bool b_transposed>
__global__ void __launch_bounds__(256, 1)
    matmul_register_prefetch(MatmulParams<float> p) {
  using Tile = RegisterTile;
  float* memory = dynamic_shared<float>();
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int row0 = blockIdx.y * Tile::rows, col0 = blockIdx.x * Tile::cols;
  // Bits 0 and 2 of a lane's number say its column, the others its row: lane
  // pairs share each load, which then takes 2 wavefronts instead of up to 4.
  const int lane_row = lane / 2 % 2 + lane / 8 * 2;
  const int lane_col = lane % 2 + lane / 4 % 2 * 2;
  const int row = warp / 4 * 64 + lane_row * 4;
  const int col = warp % 4 * 64 + lane_col * 4;
  const int tiles = ceil_div(p.k, Tile::depth);
  const auto stage_of = [&](int tile) {
    return memory + tile % Tile::stages * Tile::size;
  };
  const auto fetch = [&](int tile) {
    if (tile < tiles) {
      const int l0 = tile * Tile::depth;
      float *a_smem = stage_of(tile), *b_smem = a_smem + Tile::a_size;
      copy_transposed<Tile::rows, Tile::depth, Tile::a_ld, Tile::threads>(
          a_smem, p.a, row0, l0, p.m, p.k, p.lda, thread);
      if constexpr (b_transposed) {
        copy_transposed<Tile::cols, Tile::depth, Tile::b_ld, Tile::threads>(
            b_smem, p.b, col0, l0, p.n, p.k, p.ldb, thread);
      } else {
        copy_tile<Tile::depth, Tile::cols, Tile::b_ld, Tile::threads>(
            b_smem, p.b, l0, col0, p.k, p.n, p.ldb, thread);
      }
    }
    cp_async_commit();  // an empty group keeps the count
  };
  const auto load = [&](StepNumbers& to, const float* stage, int l) {
    load_fours<8, 32>(to.a, stage + l * Tile::a_ld + row);
    load_fours<16, 16>(to.b, stage + Tile::a_size + l * Tile::b_ld + col);
  };
  float sum[8][16] = {};
  StepNumbers numbers[2];
  for (int tile = 0; tile < Tile::stages - 1; ++tile) fetch(tile);
  cp_async_wait<Tile::stages - 2>();
  __syncthreads();  // the first tile is there
  load(numbers[0], stage_of(0), 0);
  for (int tile = 0; tile < tiles; ++tile) {
    const int next = tile + 1 < tiles ? tile + 1 : tile;  // no branch below
#pragma unroll
    for (int l = 0; l < Tile::depth; ++l) {
      if (l + 1 < Tile::depth) {
        load(numbers[(l + 1) % 2], stage_of(tile), l + 1);
      } else {
        cp_async_wait<Tile::stages - 2>();
        __syncthreads();  // the next tile is there; nobody reads this one
        load(numbers[0], stage_of(next), 0);
      }
      if (l == 0) fetch(tile + Tile::stages - 1);
      const StepNumbers& now = numbers[l % 2];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 16; ++j) sum[i][j] += now.a[i] * now.b[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int c_row = row0 + row + i / 4 * 32 + i % 4;
    if (c_row >= p.m) continue;
#pragma unroll
    for (int j = 0; j < 16; j += 4) {
      const int c_col = col0 + col + 4 * j;
      if (c_col < p.n) {  // ld leaves room for the other three
        store4(p.c + std::int64_t{c_row} * p.ldc + c_col,
               make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2],
                           sum[i][j + 3]));
      }
    }
  }
}
//! [register_prefetch]

}  // namespace fa::FA_TARGET
