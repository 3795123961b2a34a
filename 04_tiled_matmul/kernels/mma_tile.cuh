/// @file
/// The tiles of the kernels with mma.sync: their layout in shared memory, fragments by ldmatrix,
/// mma, and the store of C. Rows are padded by 16 bytes, so that the eight rows of an 8 x 8 matrix
/// of ldmatrix lie in different banks.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// Sizes: a block computes 128 x block_n elements of C with 2 x 4 warps.
/// @tparam transposed B is [n, k]
/// @tparam n_size     block_n
/// @tparam k_size     block_k
/// @tparam stage_count tiles of A, and of B, in shared memory
template <bool transposed, int n_size, int k_size, int stage_count>
struct MmaTile {
  static constexpr bool b_transposed = transposed;
  static constexpr int block_m = 128, block_n = n_size, block_k = k_size;
  static constexpr int warp_m = block_m / 2, warp_n = block_n / 4;
  static constexpr int threads = 256, stages = stage_count;
  // Shared memory, in elements: leading dimensions, the tiles, a stage. B's tile is [block_k,
  // block_n], or transposed.
  static constexpr int pad = 8;
  static constexpr int a_ld = block_k + pad;
  static constexpr int b_ld = (b_transposed ? block_k : block_n) + pad;
  static constexpr int a_size = block_m * a_ld;
  static constexpr int b_size = (b_transposed ? block_n : block_k) * b_ld;
  static constexpr int stage_size = a_size + b_size;
  /// Shared memory of a block.
  static constexpr std::size_t smem_bytes =
      std::size_t{2} * stages * stage_size;
};

/// The accumulators of one lane: of each 16 x 8 elements of a warp it has 4.
template <class Tile>
using MmaAccumulators = float[Tile::warp_m / 16][Tile::warp_n / 8][4];

/// The fragments of one lane for 16 steps along k.
template <class Tile>
struct MmaFragments {
  std::uint32_t a[Tile::warp_m / 16][4];  ///< 16 x 16 each
  std::uint32_t b[Tile::warp_n / 16][4];  ///< 16 x 16: two of 16 x 8
};

/// Reads fragments from shared memory.
/// @param a_smem A's tile, from the warp's first row on
/// @param b_smem B's tile, from the warp's first column on
/// @param kk     first of the 16 steps
//! [load_fragments]
template <class Tile, class T>
__device__ void load_fragments(MmaFragments<Tile>& frag, const T* a_smem,
                               const T* b_smem, int kk, int lane) {
#pragma unroll
  for (int i = 0; i < Tile::warp_m / 16; ++i) {
    const int row = 16 * i + lane % 16, col = kk + lane / 16 * 8;
    ldmatrix_x4(frag.a[i], a_smem + row * Tile::a_ld + col);
  }
#pragma unroll
  for (int j = 0; j < Tile::warp_n / 16; ++j) {
    if (Tile::b_transposed) {
      const int row = 16 * j + lane % 8 + lane / 16 * 8;
      const int col = kk + lane / 8 % 2 * 8;
      ldmatrix_x4(frag.b[j], b_smem + row * Tile::b_ld + col);
    } else {
      const int row = kk + lane % 16, col = 16 * j + lane / 16 * 8;
      ldmatrix_x4_transposed(frag.b[j], b_smem + row * Tile::b_ld + col);
    }
  }
}
//! [load_fragments]

/// acc += A B for 16 steps.
//! [mma_fragments]
template <class T, class Tile>
__device__ void mma_fragments(MmaAccumulators<Tile>& acc,
                              const MmaFragments<Tile>& frag) {
#pragma unroll
  for (int i = 0; i < Tile::warp_m / 16; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::warp_n / 8; ++j) {
      const int n_half = j % 2;  // of 16 columns
      const std::uint32_t b[2] = {frag.b[j / 2][2 * n_half],
                                  frag.b[j / 2][2 * n_half + 1]};
      mma_m16n8k16<T>(acc[i][j], frag.a[i], b);
    }
  }
}
//! [mma_fragments]

/// Writes the accumulators of one warp, whose first element of C is (row0, col0).
template <class Tile, class T>
__device__ void store_warp_tile(const MatmulParams<T>& p,
                                const MmaAccumulators<Tile>& acc, int row0,
                                int col0, int lane) {
#pragma unroll
  for (int i = 0; i < Tile::warp_m / 8; ++i) {
    const int m_half = i % 2;  // of 16 rows
    const int row = row0 + 8 * i + lane / 4, col = col0 + lane % 4 * 2;
    if (row >= p.m) continue;
    float* to = p.c + std::int64_t{row} * p.ldc + col;
#pragma unroll
    for (int j = 0; j < Tile::warp_n / 8; ++j) {
      const float* pair = &acc[i / 2][j][2 * m_half];
      if (col + 8 * j < p.n) {  // up to ld there is room for the other one
        store2(to + 8 * j, pair[0], pair[1]);
      }
    }
  }
}

/// Calls copy(to, from, valid) for each 16 bytes of a tile that this thread copies to shared
/// memory. Outside of the matrix `valid` is false.
template <int tile_rows, int tile_cols, int tile_ld, int threads, class T,
          class Copy>
__device__ void copy_tile_with(Copy copy, T* tile, const T* matrix, int row0,
                               int col0, int rows, int cols, int ld,
                               int thread) {
  constexpr int per_row = tile_cols / 8, at_once = threads / per_row;
  static_assert(threads % per_row == 0 && tile_rows % at_once == 0,
                "as many copies for each thread");
  const int row = thread / per_row, col = thread % per_row * 8;
  const T* from = matrix + std::int64_t{row0 + row} * ld + col0 + col;
  T* to = tile + row * tile_ld + col;
#pragma unroll
  for (int i = 0; i < tile_rows; i += at_once) {
    const bool valid = row0 + row + i < rows && col0 + col < cols;
    copy(to + i * tile_ld, from + std::int64_t{i} * ld, valid);
  }
}

/// Both tiles of a stage, A's first: see copy_tile_with().
template <class Tile, class T, class Copy>
__device__ void copy_stage_with(Copy copy, T* stage, const MatmulParams<T>& p,
                                int row0, int col0, int k0, int thread) {
  T *a_smem = stage, *b_smem = stage + Tile::a_size;
  copy_tile_with<Tile::block_m, Tile::block_k, Tile::a_ld, Tile::threads>(
      copy, a_smem, p.a, row0, k0, p.m, p.k, p.lda, thread);
  if constexpr (Tile::b_transposed) {
    copy_tile_with<Tile::block_n, Tile::block_k, Tile::b_ld, Tile::threads>(
        copy, b_smem, p.b, col0, k0, p.n, p.k, p.ldb, thread);
  } else {
    copy_tile_with<Tile::block_k, Tile::block_n, Tile::b_ld, Tile::threads>(
        copy, b_smem, p.b, k0, col0, p.k, p.n, p.ldb, thread);
  }
}

}  // namespace fa::FA_TARGET
