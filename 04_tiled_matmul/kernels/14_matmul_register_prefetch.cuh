/// @file
/// Larger thread tiles, and fragments that are loaded one step ahead. A thread with 8 x 16 elements
/// of C loads 24 elements for 128 multiplications, with 8 x 8 it would be 16 for 64: shared memory
/// keeps up. While the threads multiply one step, the fragments of the next one arrive in other
/// registers. Shared memory holds both tiles step by step; an operand that is not stored like this
/// in global memory is transposed in registers: 16-byte loads at the beginning of a tile, 4-byte
/// stores in its second half.
#pragma once

#include "04_tiled_matmul/kernels/12_matmul_vector_loads.cuh"

namespace fa::FA_TARGET {

/// Sizes of matmul_register_prefetch(): 2 x 4 warps compute 64 x 64 elements of C each, a thread 8
/// x 16.
struct RegisterTile {
  static constexpr int block_m = 128, block_n = 256, block_k = 16;
  static constexpr int thread_m = 8, thread_n = 16;
  static constexpr int threads = 256;
  /// Two would do: with three nvcc's code is 3 % faster for A B.
  static constexpr int stages = 3;
  // Shared memory, in elements: steps are as long as the tile is wide, and every four of them are
  // followed by 8 elements more, so that transposed stores do not conflict.
  static constexpr int pad = 8;
  static constexpr int a_size = block_k * block_m + block_k / 4 * pad;
  static constexpr int b_size = block_k * block_n + block_k / 4 * pad;
  static constexpr int stage_size = a_size + b_size;
  /// Dynamic shared memory of a block.
  static constexpr std::size_t smem_bytes =
      sizeof(float) * stages * stage_size;
  /// Where step kk of a tile begins.
  static constexpr __host__ __device__ int step(int kk, int width) {
    return kk * width + kk / 4 * pad;
  }
};

/// What a thread multiplies in one step.
struct RegisterFragments {
  float a[RegisterTile::thread_m];  ///< 2 groups of 4 rows, 32 apart
  float b[RegisterTile::thread_n];  ///< 4 groups of 4 columns, 16 apart
};

/// C = A B or A B^T in float32; a block computes 128 x 256 elements of C, a thread 8 x 16.
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
  // Piece e to be transposed: 64 rows of A, or of B^T from e = 2 on. A thread
  // takes four steps of one row.
  constexpr int pieces = b_transposed ? 6 : 2;
  const int q = thread % 4, piece_row = thread / 4;
  const auto load_piece = [&](int tile, int e) {
    const int kk = tile * Tile::block_k + 4 * q;
    return e < 2 ? load4_or_zero(p.a, row0 + piece_row + 64 * e, kk, p.m, p.k,
                                 p.lda)
                 : load4_or_zero(p.b, col0 + piece_row + 64 * (e - 2), kk,
                                 p.n, p.k, p.ldb);
  };
  const auto store_piece = [&](int tile, int e, float4 piece) {
    const int width = e < 2 ? Tile::block_m : Tile::block_n;
    float* const to = stage_of(tile) +
                      (e < 2 ? 64 * e : Tile::a_size + 64 * (e - 2)) +
                      piece_row + Tile::pad * q + 4 * q * width;
    to[0] = piece.x;
    to[width] = piece.y;
    to[2 * width] = piece.z;
    to[3 * width] = piece.w;
  };
  const auto fetch_b = [&](int tile) {  // B as it is
    if constexpr (!b_transposed) {
      if (tile < tiles) {
        float* const b_smem = stage_of(tile) + Tile::a_size;
#pragma unroll
        for (int e = 0; e < Tile::block_k / 4; ++e) {
          const int kk = thread / 64 + 4 * e, b_col = thread % 64 * 4;
          const bool valid =
              tile * Tile::block_k + kk < p.k && col0 + b_col < p.n;
          cp_async16(b_smem + kk * Tile::block_n + Tile::pad * e + b_col,
                     p.b + std::int64_t{tile * Tile::block_k + kk} * p.ldb +
                         col0 + b_col,
                     valid);
        }
      }
      cp_async_commit();
    }
  };
  const auto load = [&](RegisterFragments& frag, const float* stage, int kk) {
    load_groups<32>(frag.a, stage + Tile::step(kk, Tile::block_m) + row);
    load_groups<16>(
        frag.b, stage + Tile::a_size + Tile::step(kk, Tile::block_n) + col);
  };
  float acc[Tile::thread_m][Tile::thread_n] = {};
  RegisterFragments frags[2];
  fetch_b(0);
#pragma unroll
  for (int e = 0; e < pieces; ++e) store_piece(0, e, load_piece(0, e));
  if (!b_transposed) cp_async_wait<0>();
  __syncthreads();  // the first tile is complete
  load(frags[0], stage_of(0), 0);
  float4 staged[pieces];
  for (int tile = 0; tile < tiles; ++tile) {
    const int next = tile + 1 < tiles ? tile + 1 : tile;  // no branch below

#pragma unroll
    for (int kk = 0; kk < Tile::block_k; ++kk) {  // C += A B
      if (kk + 1 < Tile::block_k) {
        load(frags[(kk + 1) % 2], stage_of(tile), kk + 1);
      } else {
        if (!b_transposed) cp_async_wait<0>();
        __syncthreads();  // the next tile is complete
        load(frags[0], stage_of(next), 0);
      }
      if (kk == 0) {
        fetch_b(tile + 1);
#pragma unroll
        for (int e = 0; e < pieces; ++e) staged[e] = load_piece(tile + 1, e);
      }
      if (kk >= 8 && kk - 8 < pieces) {
        store_piece(tile + 1, kk - 8, staged[kk - 8]);
      }
      const RegisterFragments& frag = frags[kk % 2];
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

/// Launches matmul_register_prefetch(): a block for each 128 x 256 tile of C.
template <bool b_transposed>
void launch_matmul_register_prefetch(const MatmulParams<float>& p) {
  using Tile = RegisterTile;
  const Size block(Tile::threads);
  const Size grid(ceil_div(p.n, Tile::block_n), ceil_div(p.m, Tile::block_m));
  launch(matmul_register_prefetch<b_transposed>,
         {grid, block, Tile::smem_bytes, Tile::stages}, p);
}

FA_STEP_ROW(tiled, 14) {
  return row("14_matmul_register_prefetch", "8 x 16 elements, a step ahead")
      .needs(kNeedsCpAsync.with_shared(RegisterTile::smem_bytes))
      .tile([](auto) { return RegisterTile{}; })
      .matmul(float{}, [](auto bt, const auto& p) {
        launch_matmul_register_prefetch<bt>(p);
      });
}

}  // namespace fa::FA_TARGET
