/// @file
/// Hopper's tensor cores: four warps together, a warpgroup, multiply 64 x 16 by 16 x 256 with one instruction, wgmma,
/// which reads both factors from shared memory by itself. There they come by TMA: one thread asks for whole tiles, and
/// what lies outside of a matrix is 0. Everything is in one order: fetch, wait, multiply.
///
/// Source: NVIDIA, PTX ISA, sections on wgmma and cp.async.bulk.tensor.
#pragma once

#include "04_tiled_matmul/kernels/matmul_params.cuh"
#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

/// A product with the maps of its factors.
template <class T>
struct TmaMatmul {
  TensorMap a;        ///< boxes as high as a block's tile of A
  TensorMap b;        ///< boxes as high as a block's tile of B
  MatmulParams<T> p;  ///< the rest
};

/// Sizes of rungs 19 and later: a block computes block_rows x block_cols, each of its consumers as many rows.
/// @tparam Type        half or bfloat16
/// @tparam transposed  B is [n, k]
/// @tparam block_rows  64 or 128 for each consumer
/// @tparam block_cols  64, 128, 192 or 256
/// @tparam stage_count tiles of A, and of B, in shared memory
/// @tparam warpgroups  that multiply
template <class Type, bool transposed, int block_rows, int block_cols,
          int stage_count, int warpgroups = 2>
struct WgmmaTile {
  using T = Type;                                   ///< half or bfloat16
  static constexpr bool b_transposed = transposed;  ///< B is [n, k]
  static constexpr int rows = block_rows;           ///< of C
  static constexpr int cols = block_cols;           ///< of C
  static constexpr int depth = 64;                  ///< of A and B: a panel
  static constexpr int stages = stage_count;        ///< in shared memory
  static constexpr int consumers = warpgroups;      ///< that multiply
  /// Rows of C that a consumer computes 64 at a time.
  static constexpr int parts = rows / consumers / 64;
  static_assert(parts * consumers * 64 == rows, "whole instructions");
  using A = SwizzledTile<T, rows, depth>;  ///< as it lies in memory
  using B = SwizzledTile<T, transposed ? cols : depth,
                         transposed ? depth : cols>;  ///< the same
};

/// The tiles of A and B for some depth.
template <class Tile>
struct WgmmaStage {
  typename Tile::A a;  ///< rows x depth
  typename Tile::B b;  ///< depth x cols, or cols x depth
  /// In shared memory.
  static constexpr int bytes = Tile::A::bytes + Tile::B::bytes;
};

/// This thread's sums: of each 64 rows, those of wgmma().
template <class Tile>
using WgmmaAccumulators = float[Tile::parts][Tile::cols / 2];

/// Begins to fill a stage; what lies outside of the matrices is 0. One thread calls it.
/// @param stage  that is empty
/// @param maps   of A and B
/// @param full   hears of WgmmaStage::bytes
/// @param row0   of C
/// @param col0   of C
/// @param l0     first step of the sums
//! [fetch]
template <class Tile, class T>
__device__ void fetch_tiles(WgmmaStage<Tile>& stage, const TmaMatmul<T>& maps,
                            Mbarrier& full, int row0, int col0, int l0) {
  const int b_row = Tile::b_transposed ? col0 : l0;
  const int b_col = Tile::b_transposed ? l0 : col0;
  load_tile(stage.a, maps.a, full, row0, 0, 0, CacheHint::kEvictNormal, l0);
  load_tile(stage.b, maps.b, full, b_row, 0, 0, CacheHint::kEvictNormal,
            b_col);
}
//! [fetch]

/// Begins sums += A B for a stage, and closes the group: one warpgroup's rows.
//! [multiply]
template <class Tile>
__device__ void issue_matmul(WgmmaAccumulators<Tile>& sums,
                             const WgmmaStage<Tile>& stage, int warpgroup) {
  using T = typename Tile::T;
#pragma unroll
  for (int l = 0; l < Tile::depth; l += 16) {
#pragma unroll
    for (int part = 0; part < Tile::parts; ++part) {
      const auto a =
          stage.a.by_rows(64 * (Tile::parts * warpgroup + part), l);
      if constexpr (Tile::b_transposed) {
        wgmma<T>(sums[part], a, stage.b.by_rows(0, l), true);
      } else {
        wgmma<T>(sums[part], a, stage.b.by_columns(l, 0), true);
      }
    }
  }
  wgmma_commit();
}
//! [multiply]

/// Lends the sums to the products that follow.
template <class Tile>
__device__ void wgmma_fence_accumulators(WgmmaAccumulators<Tile>& sums) {
#pragma unroll
  for (int part = 0; part < Tile::parts; ++part) wgmma_fence(sums[part]);
}

/// Writes a warpgroup's sums; 4 lanes fill a sector.
/// @param p         the product
/// @param sums      of this thread
/// @param row0      of C: the block's first
/// @param col0      of C: the block's first
/// @param warpgroup which
//! [store]
template <class Tile, class T>
__device__ void store_accumulators(const MatmulParams<T>& p,
                                   const WgmmaAccumulators<Tile>& sums,
                                   int row0, int col0, int warpgroup) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % 4;
  const int col = col0 + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2 * Tile::parts; ++i) {
    const int row = row0 + 64 * (Tile::parts * warpgroup + i / 2) +
                    16 * warp + 8 * (i % 2) + lane / 4;
    if (row >= p.m) continue;
    float* const to = p.c + std::int64_t{row} * p.ldc + col;
#pragma unroll
    for (int j = 0; j < Tile::cols / 8; ++j) {
      const float* const pair = &sums[i / 2][4 * j + 2 * (i % 2)];
      if (col + 8 * j < p.n) {  // ld leaves room for the other one
        store2(to + 8 * j, pair[0], pair[1]);
      }
    }
  }
}
//! [store]

/// What a block of matmul_wgmma() keeps in shared memory.
template <class Tile>
struct OneStageShared {
  WgmmaStage<Tile> stage;  ///< the tiles
  Mbarrier full;           ///< they are there
};

/// The product p of 16-bit matrices by wgmma.
/// Launch: blocks of 128 x consumers; grid of ceil(n / cols) x ceil(m / rows); sizeof(OneStageShared<Tile>).
/// @tparam Tile WgmmaTile with one stage
//! [wgmma]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* Tile::consumers)
    matmul_wgmma(const __grid_constant__ TmaMatmul<T> maps) {
  auto& shared = *dynamic_shared<OneStageShared<Tile>>();
  const MatmulParams<T>& p = maps.p;
  const int warpgroup = warpgroup_index();
  const int row0 = blockIdx.y * Tile::rows, col0 = blockIdx.x * Tile::cols;
  if (threadIdx.x == 0) {
    shared.full.init(1);
    fence_barrier_init();
  }
  __syncthreads();  // the barrier is ready
  WgmmaAccumulators<Tile> sums = {};
  int parity = 0;
  for (int l0 = 0; l0 < p.k; l0 += Tile::depth, parity ^= 1) {
    if (threadIdx.x == 0) {
      shared.full.arrive_and_expect(WgmmaStage<Tile>::bytes);
      fetch_tiles(shared.stage, maps, shared.full, row0, col0, l0);
    }
    shared.full.wait(parity);
    wgmma_fence_accumulators<Tile>(sums);
    issue_matmul<Tile>(sums, shared.stage, warpgroup);
    wgmma_wait<0>(sums);
    __syncthreads();  // nobody reads the tiles any more
  }
  store_accumulators<Tile>(p, sums, row0, col0, warpgroup);
}
//! [wgmma]

}  // namespace fa::FA_TARGET
