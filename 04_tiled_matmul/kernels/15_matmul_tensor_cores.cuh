/// @file
/// 16-bit factors on tensor cores: a warp multiplies 16 x 16 by 16 x 8 with one instruction, and sums in
/// float32. Fragments come from shared memory by ldmatrix; rows are padded by 16 bytes, so that the eight
/// rows of a matrix lie in different banks.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// Sizes of the tensor-core kernels: a block computes 128 x tile_cols with 2 x 4 warps.
/// @tparam b_transposed B is [n, k]
/// @tparam tile_cols    columns of C that a block computes
/// @tparam tile_depth   depth of the tiles of A and B
template <bool b_transposed, int tile_cols, int tile_depth>
struct MmaTile {
  static constexpr int rows = 128;            ///< of C
  static constexpr int cols = tile_cols;      ///< of C
  static constexpr int depth = tile_depth;    ///< of the tiles of A and B
  static constexpr int warp_rows = rows / 2;  ///< of C, for each warp
  static constexpr int warp_cols = cols / 4;  ///< of C, for each warp
  static constexpr int threads = 256;         ///< of a block
  static constexpr int pad = 8;  ///< elements at the end of each row
  static constexpr int a_ld = depth + pad;  ///< distance of rows of A's tile
  /// Distance of rows of B's tile, which is [depth, cols], or [cols, depth] when B is transposed.
  static constexpr int b_ld = (b_transposed ? depth : cols) + pad;
  /// Elements of A's tile.
  static constexpr int a_size = rows * a_ld;
  /// Elements of B's tile.
  static constexpr int b_size = (b_transposed ? cols : depth) * b_ld;
};

/// The results of one lane: 16 x 8 results of a warp are 4 of each lane.
template <class Tile>
using LaneResults = float[Tile::warp_rows / 16][Tile::warp_cols / 8][4];

/// What one lane holds of the factors for 16 steps of the sum.
template <class Tile>
struct Fragments {
  std::uint32_t a[Tile::warp_rows / 16][4];  ///< 16 x 16 each
  std::uint32_t b[Tile::warp_cols / 16][4];  ///< 16 x 16: two of 16 x 8
};

/// Reads fragments from shared memory.
/// @param f      this lane's fragments
/// @param a_smem A's tile, at the warp's first row
/// @param b_smem B's tile, at the warp's first column
/// @param l      first of the 16 steps
/// @param lane   in the warp
template <class Tile, bool b_transposed, class T>
__device__ void load_fragments(Fragments<Tile>& f, const T* a_smem,
                               const T* b_smem, int l, int lane) {
#pragma unroll
  for (int i = 0; i < Tile::warp_rows / 16; ++i) {
    const int row = 16 * i + lane % 16, col = l + lane / 16 * 8;
    ldmatrix_x4(f.a[i], a_smem + row * Tile::a_ld + col);
  }
#pragma unroll
  for (int j = 0; j < Tile::warp_cols / 16; ++j) {
    if (b_transposed) {
      const int col = 16 * j + lane % 8 + lane / 16 * 8;
      ldmatrix_x4(f.b[j], b_smem + col * Tile::b_ld + l + lane / 8 % 2 * 8);
    } else {
      const int row = l + lane % 16, col = 16 * j + lane / 16 * 8;
      ldmatrix_x4_transposed(f.b[j], b_smem + row * Tile::b_ld + col);
    }
  }
}

/// sum += A B for 16 steps.
template <class T, class Tile>
__device__ void multiply_fragments(LaneResults<Tile>& sum,
                                   const Fragments<Tile>& f) {
#pragma unroll
  for (int i = 0; i < Tile::warp_rows / 16; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::warp_cols / 8; ++j) {
      const std::uint32_t b[2] = {f.b[j / 2][j % 2 * 2],
                                  f.b[j / 2][j % 2 * 2 + 1]};
      mma_m16n8k16<T>(sum[i][j], f.a[i], b);
    }
  }
}

/// One warp's part of a tile: sum += A B.
template <class Tile, bool b_transposed, class T>
__device__ void multiply_warp_tile(LaneResults<Tile>& sum, const T* a_smem,
                                   const T* b_smem, int lane) {
#pragma unroll
  for (int l = 0; l < Tile::depth; l += 16) {
    Fragments<Tile> fragments;
    load_fragments<Tile, b_transposed>(fragments, a_smem, b_smem, l, lane);
    multiply_fragments<T, Tile>(sum, fragments);
  }
}

/// Writes one warp's results, whose first is (row0, col0).
template <class Tile, class T>
__device__ void store_warp_tile(const MatmulParams<T>& p,
                                const LaneResults<Tile>& sum, int row0,
                                int col0, int lane) {
#pragma unroll
  for (int i = 0; i < Tile::warp_rows / 8; ++i) {
    const int row = row0 + 8 * i + lane / 4, col = col0 + lane % 4 * 2;
    if (row >= p.m) continue;
    float* to = p.c + std::int64_t{row} * p.ldc + col;
#pragma unroll
    for (int j = 0; j < Tile::warp_cols / 8; ++j) {
      const float* pair = &sum[i / 2][j][i % 2 * 2];
      if (col + 8 * j < p.n) {  // ld leaves room for the other one
        store2(to + 8 * j, pair[0], pair[1]);
      }
    }
  }
}

/// Copies a tile of 16-bit numbers to shared memory, 16 bytes at a time, with `copy(to, from, valid)`.
/// Outside of the matrix `valid` is false.
template <int tile_rows, int tile_cols, int tile_ld, int threads, class T,
          class Copy>
__device__ void for_pieces(T* tile, const T* matrix, int row0, int col0,
                           int rows, int cols, int ld, int thread,
                           Copy copy) {
  constexpr int per_row = tile_cols / 8, at_once = threads / per_row;
  static_assert(threads % per_row == 0 && tile_rows % at_once == 0,
                "as many for each thread");
  const int row = thread / per_row, col = thread % per_row * 8;
  const T* from = matrix + std::int64_t{row0 + row} * ld + col0 + col;
  T* to = tile + row * tile_ld + col;
#pragma unroll
  for (int i = 0; i < tile_rows; i += at_once) {
    const bool valid = row0 + row + i < rows && col0 + col < cols;
    copy(to + i * tile_ld, from + std::int64_t{i} * ld, valid);
  }
}

/// Both tiles of one step, A's first. See for_pieces().
template <class Tile, bool b_transposed, class T, class Copy>
__device__ void for_tiles(T* a_smem, T* b_smem, const MatmulParams<T>& p,
                          int row0, int col0, int l0, int thread, Copy copy) {
  for_pieces<Tile::rows, Tile::depth, Tile::a_ld, Tile::threads>(
      a_smem, p.a, row0, l0, p.m, p.k, p.lda, thread, copy);
  if constexpr (b_transposed) {
    for_pieces<Tile::cols, Tile::depth, Tile::b_ld, Tile::threads>(
        b_smem, p.b, col0, l0, p.n, p.k, p.ldb, thread, copy);
  } else {
    for_pieces<Tile::depth, Tile::cols, Tile::b_ld, Tile::threads>(
        b_smem, p.b, l0, col0, p.k, p.n, p.ldb, thread, copy);
  }
}

/// The tile of matmul_tensor_cores().
template <bool b_transposed>
using PlainTile = MmaTile<b_transposed, 128, 32>;

/// The product p of 16-bit matrices on tensor cores.
/// Launch: blocks of 256; grid of ceil(n / 128) x ceil(m / 128).
//! [tensor_cores]
template <bool b_transposed, class T>
__global__ void __launch_bounds__(256)
    matmul_tensor_cores(MatmulParams<T> p) {
  using Tile = PlainTile<b_transposed>;
  __shared__ __align__(
      16) unsigned char memory[(Tile::a_size + Tile::b_size) * sizeof(T)];
  T* a_smem = reinterpret_cast<T*>(memory);
  T* b_smem = a_smem + Tile::a_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp / 4 * Tile::warp_rows;
  const int warp_col = thread / kWarp % 4 * Tile::warp_cols;
  const int row0 = blockIdx.y * Tile::rows, col0 = blockIdx.x * Tile::cols;
  const T* const a_of_warp = a_smem + warp_row * Tile::a_ld;
  const T* const b_of_warp =
      b_smem + warp_col * (b_transposed ? Tile::b_ld : 1);
  LaneResults<Tile> sum = {};
  for (int l0 = 0; l0 < p.k; l0 += Tile::depth) {
    for_tiles<Tile, b_transposed>(
        a_smem, b_smem, p, row0, col0, l0, thread,
        [](T* to, const T* from, bool valid) {
          store4(to, valid ? load4(from) : make_float4(0, 0, 0, 0));
        });
    __syncthreads();  // the tiles are there
    multiply_warp_tile<Tile, b_transposed>(sum, a_of_warp, b_of_warp, lane);
    __syncthreads();  // nobody needs them any more
  }
  store_warp_tile<Tile>(p, sum, row0 + warp_row, col0 + warp_col, lane);
}
//! [tensor_cores]

}  // namespace fa::FA_TARGET
