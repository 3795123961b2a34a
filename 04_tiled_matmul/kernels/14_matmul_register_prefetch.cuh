/// @file
/// Larger thread tiles, and fragments that are loaded one step ahead. A thread with 8 x 16 elements
/// of C loads 24 elements for 128 multiplications, with 8 x 8 it would be 16 for 64: shared memory
/// keeps up. While the threads multiply one step, the fragments of the next one arrive in other
/// registers. Shared memory holds both tiles step by step; 4-byte copies transpose an operand that
/// is not stored like this in global memory.
#pragma once

#include "04_tiled_matmul/kernels/12_matmul_vector_loads.cuh"
#include "04_tiled_matmul/kernels/13_matmul_double_buffer.cuh"

namespace fa::FA_TARGET {

/// Sizes of matmul_register_prefetch(): 2 x 4 warps compute 64 x 64 elements of C each, a thread 8
/// x 16.
struct RegisterTile {
  static constexpr int block_m = 128, block_n = 256, block_k = 16;
  static constexpr int thread_m = 8, thread_n = 16;
  static constexpr int threads = 256, stages = 3;
  // Shared memory, in elements: from one step to the next, the tiles, a stage.
  static constexpr int a_ld = block_m + 4, b_ld = block_n + 4;
  static constexpr int a_size = block_k * a_ld, b_size = block_k * b_ld;
  static constexpr int stage_size = a_size + b_size;
  /// Dynamic shared memory of a block.
  static constexpr std::size_t smem_bytes =
      sizeof(float) * stages * stage_size;
};

/// Begins to copy a tile and transposes it, with 256 threads: tile[l][row] = matrix[row0 + row][l0
/// + l].
template <int tile_rows, int tile_depth, int tile_ld>
__device__ void copy_transposed(float* tile, const float* matrix, int row0,
                                int l0, int rows, int depth, int ld,
                                int thread) {
  // 8 lanes read a sector; 4 rows of them fill the 32 banks
  const int row = thread / 8 % tile_rows, l = thread % 8;
  constexpr int at_once = 256 / 8;
#pragma unroll
  for (int e = 0; e < tile_rows * tile_depth / 8; e += at_once) {
    const int i = row + e % tile_rows, s = l + e / tile_rows * 8;
    const bool valid = row0 + i < rows && l0 + s < depth;
    cp_async4(tile + s * tile_ld + i,
              matrix + std::int64_t{row0 + i} * ld + l0 + s, valid);
  }
}

/// What a thread multiplies in one step.
struct RegisterFragments {
  float a[RegisterTile::thread_m];  ///< 2 groups of 4 rows, 32 apart
  float b[RegisterTile::thread_n];  ///< 4 groups of 4 columns, 16 apart
};

/// C = A B or A B^T in float32; a block computes 128 x 256 elements of C, a thread 8 x 16.
//! [register_prefetch]
template <bool b_transposed>
__global__ void __launch_bounds__(256, 1)
    matmul_register_prefetch(MatmulParams<float> p) {
  using Tile = RegisterTile;
  float* const smem = dynamic_shared<float>();
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp = thread / kWarp;
  const int row0 = blockIdx.y * Tile::block_m;
  const int col0 = blockIdx.x * Tile::block_n;
  // Bits 0 and 2 of the lane select its column, the others its row: pairs of
  // lanes share each load, which then takes 2 wavefronts instead of up to 4.
  const int lane_row = lane / 2 % 2 + lane / 8 * 2;
  const int lane_col = lane % 2 + lane / 4 % 2 * 2;
  const int row = warp / 4 * 64 + lane_row * 4;
  const int col = warp % 4 * 64 + lane_col * 4;
  const int tiles = ceil_div(p.k, Tile::block_k);
  const auto stage_of = [&](int tile) {
    return smem + tile % Tile::stages * Tile::stage_size;
  };
  const auto fetch = [&](int tile) {
    if (tile < tiles) {
      const int l0 = tile * Tile::block_k;
      float *a_smem = stage_of(tile), *b_smem = a_smem + Tile::a_size;
      copy_transposed<Tile::block_m, Tile::block_k, Tile::a_ld>(
          a_smem, p.a, row0, l0, p.m, p.k, p.lda, thread);
      if constexpr (b_transposed) {
        copy_transposed<Tile::block_n, Tile::block_k, Tile::b_ld>(
            b_smem, p.b, col0, l0, p.n, p.k, p.ldb, thread);
      } else {
        copy_tile<Tile::block_k, Tile::block_n, Tile::b_ld>(
            b_smem, p.b, l0, col0, p.k, p.n, p.ldb, thread);
      }
    }
    cp_async_commit();  // an empty group keeps the count
  };
  const auto load = [&](RegisterFragments& frag, const float* stage, int l) {
    load_groups<32>(frag.a, stage + l * Tile::a_ld + row);
    load_groups<16>(frag.b, stage + Tile::a_size + l * Tile::b_ld + col);
  };
  float acc[Tile::thread_m][Tile::thread_n] = {};
  //! [loop]
  RegisterFragments frags[2];
  for (int tile = 0; tile < Tile::stages - 1; ++tile) fetch(tile);
  cp_async_wait<Tile::stages - 2>();
  __syncthreads();  // the first tile is complete
  load(frags[0], stage_of(0), 0);
  for (int tile = 0; tile < tiles; ++tile) {
    const int next = tile + 1 < tiles ? tile + 1 : tile;  // no branch below

#pragma unroll
    for (int l = 0; l < Tile::block_k; ++l) {  // C += A B
      if (l + 1 < Tile::block_k) {
        load(frags[(l + 1) % 2], stage_of(tile), l + 1);
      } else {
        cp_async_wait<Tile::stages - 2>();
        __syncthreads();  // the next tile is complete, this one is free
        load(frags[0], stage_of(next), 0);
      }
      if (l == 0) fetch(tile + Tile::stages - 1);
      const RegisterFragments& frag = frags[l % 2];
      //! [loop]
#pragma unroll
      for (int i = 0; i < Tile::thread_m; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::thread_n; ++j) {
          acc[i][j] += frag.a[i] * frag.b[j];
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < Tile::thread_m; ++i) {
    const int c_row = row0 + row + i / 4 * 32 + i % 4;
    if (c_row >= p.m) continue;
#pragma unroll
    for (int j = 0; j < Tile::thread_n; j += 4) {
      const int c_col = col0 + col + j / 4 * 16;
      if (c_col < p.n) {  // up to ld there is room for the other three
        store4(p.c + std::int64_t{c_row} * p.ldc + c_col,
               make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2],
                           acc[i][j + 3]));
      }
    }
  }
}
//! [register_prefetch]

/// Launches matmul_register_prefetch(): a block for each 128 x 256 tile of C.
template <bool b_transposed>
void launch_matmul_register_prefetch(const MatmulParams<float>& p) {
  using Tile = RegisterTile;
  const Size block(Tile::threads);
  const Size grid(ceil_div(p.n, Tile::block_n), ceil_div(p.m, Tile::block_m));
  launch(matmul_register_prefetch<b_transposed>,
         {grid, block, Tile::smem_bytes, Tile::stages}, p);
}

}  // namespace fa::FA_TARGET
