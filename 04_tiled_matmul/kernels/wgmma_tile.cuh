/// @file
/// The tiles of the kernels with wgmma: tensor maps, loads by TMA, wgmma on a stage, and the store
/// of C.
///
/// Source: NVIDIA, PTX ISA, sections on wgmma and cp.async.bulk.tensor.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"
#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"

namespace fa::FA_TARGET {

/// A matmul with the tensor maps of its operands.
template <class T>
struct TmaMatmul {
  TensorMap a, b;  ///< boxes as high as a block's tile
  MatmulParams<T> p;
};

/// Sizes: a block computes block_m x block_n elements of C, each of its warpgroups half of the
/// rows.
/// @tparam transposed  B is [n, k]
/// @tparam m_size      block_m, 128 or 256
/// @tparam n_size      block_n, 64, 128, 192 or 256
/// @tparam stage_count tiles of A, and of B, in shared memory
template <class Type, bool transposed, int m_size, int n_size,
          int stage_count>
struct WgmmaTile {
  using T = Type;
  static constexpr bool b_transposed = transposed;
  static constexpr int block_m = m_size, block_n = n_size;
  static constexpr int block_k = 64;  // one panel of 128 bytes
  static constexpr int stages = stage_count;
  static constexpr int warpgroups = 2;  // that multiply
  /// wgmma instructions, of 64 rows each, that cover the rows of a warpgroup.
  static constexpr int wgmmas_m = block_m / warpgroups / 64;
  static_assert(wgmmas_m * warpgroups * 64 == block_m, "whole instructions");
  // The tiles of A and B as they lie in shared memory.
  using A = SwizzledTile<T, block_m, block_k>;
  using B = SwizzledTile<T, transposed ? block_n : block_k,
                         transposed ? block_k : block_n>;
};

/// The tiles of A and B for one step along k.
template <class Tile>
struct WgmmaStage {
  typename Tile::A a;
  typename Tile::B b;
  static constexpr int bytes = Tile::A::bytes + Tile::B::bytes;
};

/// The accumulators of one thread.
template <class Tile>
using WgmmaAccumulators = float[Tile::wgmmas_m][Tile::block_n / 2];

/// Begins to load a stage; what lies outside of the matrices is 0. One thread calls it.
/// @param full barrier that counts the bytes that arrive
template <class Tile, class T>
__device__ void load_stage(WgmmaStage<Tile>& stage, const TmaMatmul<T>& maps,
                           Mbarrier& full, int row0, int col0, int k0) {
  const int b_row = Tile::b_transposed ? col0 : k0;
  const int b_col = Tile::b_transposed ? k0 : col0;
  load_tile(stage.a, maps.a, full, row0, k0);
  load_tile(stage.b, maps.b, full, b_row, b_col);
}

/// Issues acc += A B for a stage and a warpgroup's rows, and closes the group.
/// @param adds false: acc = A B
template <class Tile>
__device__ void issue_matmul(WgmmaAccumulators<Tile>& acc,
                             const WgmmaStage<Tile>& stage, int warpgroup,
                             bool adds = true) {
  using T = typename Tile::T;
#pragma unroll
  for (int kk = 0; kk < Tile::block_k; kk += 16) {
#pragma unroll
    for (int i = 0; i < Tile::wgmmas_m; ++i) {
      const int row = 64 * (Tile::wgmmas_m * warpgroup + i);
      const auto a = stage.a.by_rows(row, kk);
      if constexpr (Tile::b_transposed) {
        wgmma<T>(acc[i], a, stage.b.by_rows(0, kk), adds || kk > 0);
      } else {
        wgmma<T>(acc[i], a, stage.b.by_columns(kk, 0), adds || kk > 0);
      }
    }
  }
  wgmma_commit();
}

/// Orders this thread's accesses to the accumulators before the wgmma instructions that follow.
template <class Tile>
__device__ void wgmma_fence_accumulators(WgmmaAccumulators<Tile>& acc) {
#pragma unroll
  for (int i = 0; i < Tile::wgmmas_m; ++i) wgmma_fence(acc[i]);
}

/// Writes a warpgroup's accumulators; 4 lanes fill a sector.
template <class Tile, class T>
__device__ void store_accumulators(const MatmulParams<T>& p,
                                   const WgmmaAccumulators<Tile>& acc,
                                   int row0, int col0, int warpgroup) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % 4;
  const int col = col0 + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2 * Tile::wgmmas_m; ++i) {
    const int m_half = i % 2;  // of a warp's 16 rows
    const int row = row0 + 64 * (Tile::wgmmas_m * warpgroup + i / 2) +
                    16 * warp + 8 * m_half + lane / 4;
    if (row >= p.m) continue;
    float* const to = p.c + std::int64_t{row} * p.ldc + col;
#pragma unroll
    for (int j = 0; j < Tile::block_n / 8; ++j) {
      const float* const pair = &acc[i / 2][4 * j + 2 * m_half];
      if (col + 8 * j < p.n) {  // up to ld there is room for the other one
        store2(to + 8 * j, pair[0], pair[1]);
      }
    }
  }
}

/// Makes the tensor maps of a matmul.
/// @tparam Tile       WgmmaTile of the kernel
/// @param  b_box_rows of a box of B
/// @throws as tensor_map()
template <class Tile, class T>
TmaMatmul<T> tma_matmul(const MatmulParams<T>& p,
                        int b_box_rows = Tile::B::rows) {
  const int b_rows = Tile::b_transposed ? p.n : p.k;
  const int b_cols = Tile::b_transposed ? p.k : p.n;
  return {tensor_map(p.a, p.m, p.k, p.lda, Tile::A::rows),
          tensor_map(p.b, b_rows, b_cols, p.ldb, b_box_rows), p};
}

}  // namespace fa::FA_TARGET
