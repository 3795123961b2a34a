/// @file
/// As matmul_wgmma(), with several stages in flight, and wgmma instructions that run while the next
/// ones are issued: the tensor cores wait neither for memory nor for the threads. Two barriers
/// per stage replace __syncthreads(): its tiles have arrived; all warps are done with them.
#pragma once

#include "04_tiled_matmul/kernels/wgmma_tile.cuh"

namespace fa::FA_TARGET {

/// Sizes of matmul_stages().
template <bool b_transposed, class T>
using MatmulStagesTile = WgmmaTile<T, b_transposed, 128, 256, 4>;

/// Shared memory of a block of matmul_stages().
template <class Tile>
struct MatmulStagesStorage {
  WgmmaStage<Tile> stages[Tile::stages];
  Pipeline<Tile::stages> pipe;
};

/// C = A B or A B^T for 16-bit operands by wgmma, with several stages of tiles.
/// @tparam Tile WgmmaTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup* Tile::warpgroups)
    matmul_stages(const __grid_constant__ TmaMatmul<T> maps) {
  auto& shared = *dynamic_shared<MatmulStagesStorage<Tile>>();
  const MatmulParams<T>& p = maps.p;
  const int warpgroup = warpgroup_index();
  const int row0 = blockIdx.y * Tile::block_m;
  const int col0 = blockIdx.x * Tile::block_n;
  //! [loop]
  const int steps = ceil_div(p.k, Tile::block_k);
  PipelineState<Tile::stages> pipe_write, pipe_read, pipe_release;
  const auto fetch = [&](int step) {
    if (step >= steps) return;
    Mbarrier& full =
        shared.pipe.producer_acquire(pipe_write, WgmmaStage<Tile>::bytes);
    load_stage(shared.stages[pipe_write.stage], maps, full, row0, col0,
               step * Tile::block_k);
    pipe_write.advance();
  };
  if (threadIdx.x == 0) {
    shared.pipe.init(4 * Tile::warpgroups);  // each warp releases by itself
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are initialised
  if (threadIdx.x == 0) {
    for (int step = 0; step < Tile::stages; ++step) fetch(step);
  }
  WgmmaAccumulators<Tile> acc = {};
  for (int step = 0; step < steps; ++step, pipe_read.advance()) {
    shared.pipe.consumer_wait(pipe_read);
    wgmma_fence_accumulators<Tile>(acc);
    // C += A B
    issue_matmul<Tile>(acc, shared.stages[pipe_read.stage], warpgroup);
    if (step == 0) continue;
    wgmma_wait<1>();  // the step before has ended
    if (threadIdx.x % kWarp == 0) shared.pipe.consumer_release(pipe_release);
    if (threadIdx.x == 0) fetch(step - 1 + Tile::stages);
    pipe_release.advance();
  }
  wgmma_wait<0>(acc);
  //! [loop]
  store_accumulators<Tile>(p, acc, row0, col0, warpgroup);
}

/// Launches matmul_stages(): a block for each tile of C.
/// @throws as tensor_map()
template <class Tile, class T>
void launch_matmul_stages(const MatmulParams<T>& p) {
  const Size block(kWarpgroup * Tile::warpgroups);
  const Size grid(ceil_div(p.n, Tile::block_n), ceil_div(p.m, Tile::block_m));
  launch(matmul_stages<Tile, T>,
         {grid, block, sizeof(MatmulStagesStorage<Tile>), Tile::stages},
         tma_matmul<Tile>(p));
}

FA_STEP_ROW(tiled, 20) {
  return row("20_matmul_stages", "four stages, wgmma in flight")
      .needs(kNeedsHopper)
      .tile([](auto bt) { return MatmulStagesTile<bt, bfloat16>{}; })
      .matmul(bfloat16{}, [](auto bt, const auto& p) {
        launch_matmul_stages<MatmulStagesTile<bt, bfloat16>>(p);
      });
}

}  // namespace fa::FA_TARGET
