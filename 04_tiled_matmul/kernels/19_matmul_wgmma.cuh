/// @file
/// Hopper's tensor cores: with one instruction, wgmma, a warpgroup of four warps multiplies 64 x 16
/// by 16 x 256 elements. It reads both operands from shared memory, where TMA writes them: one
/// thread issues the copies of whole tiles, and elements outside of a matrix become 0. Load, wait
/// and multiply still follow each other.
#pragma once

#include "04_tiled_matmul/kernels/wgmma_tile.cuh"

namespace fa::FA_TARGET {

/// Sizes of matmul_wgmma().
template <bool b_transposed, class T>
using MatmulWgmmaTile = WgmmaTile<T, b_transposed, 128, 256, 1>;

/// Shared memory of a block of matmul_wgmma().
template <class Tile>
struct MatmulWgmmaStorage {
  WgmmaStage<Tile> stage;
  Mbarrier full;  ///< the tiles have arrived
};

/// C = A B or A B^T for 16-bit operands by wgmma.
/// @tparam Tile WgmmaTile with one stage
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* Tile::warpgroups)
    matmul_wgmma(const __grid_constant__ TmaMatmul<T> maps) {
  auto& shared = *dynamic_shared<MatmulWgmmaStorage<Tile>>();
  const MatmulParams<T>& p = maps.p;
  const int warpgroup = warpgroup_index();
  const int row0 = blockIdx.y * Tile::block_m;
  const int col0 = blockIdx.x * Tile::block_n;
  //! [loop]
  if (threadIdx.x == 0) {
    shared.full.init(1);
    fence_barrier_init();
  }
  __syncthreads();  // the barrier is initialised
  WgmmaAccumulators<Tile> acc = {};
  int parity = 0;
  for (int k0 = 0; k0 < p.k; k0 += Tile::block_k, parity ^= 1) {
    if (threadIdx.x == 0) {
      shared.full.arrive_and_expect(WgmmaStage<Tile>::bytes);
      load_stage(shared.stage, maps, shared.full, row0, col0, k0);
    }
    shared.full.wait(parity);
    wgmma_fence_accumulators<Tile>(acc);
    // C += A B
    issue_matmul<Tile>(acc, shared.stage, warpgroup);
    wgmma_wait<0>(acc);
    __syncthreads();  // all warps are done with the tiles
  }
  //! [loop]
  store_accumulators<Tile>(p, acc, row0, col0, warpgroup);
}

/// Launches matmul_wgmma(): a block for each tile of C.
/// @throws as tensor_map()
template <class Tile, class T>
void launch_matmul_wgmma(const MatmulParams<T>& p) {
  const Size block(kWarpgroup * Tile::warpgroups);
  const Size grid(ceil_div(p.n, Tile::block_n), ceil_div(p.m, Tile::block_m));
  launch(matmul_wgmma<Tile, T>,
         {grid, block, sizeof(MatmulWgmmaStorage<Tile>), Tile::stages},
         tma_matmul<Tile>(p));
}

FA_STEP_ROW(tiled, 19) {
  return row("19_matmul_wgmma", "tiles by TMA, 64 x 256 x 16 at once")
      .needs(kNeedsHopper)
      .tile([](auto bt) { return MatmulWgmmaTile<bt, bfloat16>{}; })
      .matmul(bfloat16{}, [](auto bt, const auto& p) {
        launch_matmul_wgmma<MatmulWgmmaTile<bt, bfloat16>>(p);
      });
}

}  // namespace fa::FA_TARGET
