/// @file
/// Persistent blocks: one per SM, each computes tile after tile of C. A producer warpgroup only
/// loads. It runs ahead by all stages, also into the next tile: while the consumers write one tile,
/// the stages fill for the next. The raster order of the tiles keeps operands in the L2 cache.
#pragma once

#include "04_tiled_matmul/kernels/wgmma_tile.cuh"

namespace fa::FA_TARGET {

/// Sizes of matmul_persistent().
template <bool b_transposed, class T>
using MatmulPersistentTile = WgmmaTile<T, b_transposed, 128, 256, 4>;

/// Shared memory of a block of matmul_persistent().
template <class Tile>
struct MatmulPersistentStorage {
  WgmmaStage<Tile> stages[Tile::stages];
  Pipeline<Tile::stages> pipe;
};

/// Registers per thread. The consumers take what the producer gives back: 128 * (24 + 2 * 240) of
/// 64 Ki.
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;

/// The tiles of C and the order in which blocks take them.
struct TileRaster {
  int tiles_m, tiles_n;
  int group_m;  ///< rows of tiles that go together, column by column
};

/// A tile of C, counted in tiles.
struct TileCoord {
  int m, n;
};

/// Tile i in raster order: blocks that run at the same time have tiles in a few rows and a few
/// columns of C, and so share what they read of A and B.
__host__ __device__ inline TileCoord tile_coord(int i,
                                                const TileRaster& raster) {
  const int group_size = raster.group_m * raster.tiles_n;
  const int first_m = i / group_size * raster.group_m;
  const int left_m = raster.tiles_m - first_m;
  const int rows = left_m < raster.group_m ? left_m : raster.group_m;
  const int in_group = i % group_size;
  return {first_m + in_group % rows, in_group / rows};
}

/// C = A B or A B^T for 16-bit operands by wgmma, with persistent blocks.
/// @tparam Tile WgmmaTile
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::warpgroups + 1), 1)
    matmul_persistent(const __grid_constant__ TmaMatmul<T> maps,
                      const TileRaster raster) {
  auto& shared = *dynamic_shared<MatmulPersistentStorage<Tile>>();
  const MatmulParams<T>& p = maps.p;
  const int warpgroup = warpgroup_index();
  const int tiles = raster.tiles_m * raster.tiles_n;
  if (threadIdx.x == 0) {
    shared.pipe.init(4 * Tile::warpgroups);  // each warp releases by itself
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are initialised
  //! [produce]
  if (warpgroup == Tile::warpgroups) {  // the producer
    setmaxnreg_dec<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup != 0) return;
    PipelineState<Tile::stages> pipe_write;
    for (int i = blockIdx.x; i < tiles; i += gridDim.x) {
      const TileCoord tile = tile_coord(i, raster);
      const int row0 = tile.m * Tile::block_m, col0 = tile.n * Tile::block_n;
      for (int k0 = 0; k0 < p.k; k0 += Tile::block_k, pipe_write.advance()) {
        Mbarrier& full =
            shared.pipe.producer_acquire(pipe_write, WgmmaStage<Tile>::bytes);
        load_stage(shared.stages[pipe_write.stage], maps, full, row0, col0,
                   k0);
      }
    }
    return;
  }
  //! [produce]
  setmaxnreg_inc<kConsumerRegisters>();
  const int steps = ceil_div(p.k, Tile::block_k);
  PipelineState<Tile::stages> pipe_read;
  for (int i = blockIdx.x; i < tiles; i += gridDim.x) {
    const TileCoord tile = tile_coord(i, raster);
    const int row0 = tile.m * Tile::block_m, col0 = tile.n * Tile::block_n;
    WgmmaAccumulators<Tile> acc = {};
    PipelineState<Tile::stages> pipe_release = pipe_read;
    for (int step = 0; step < steps; ++step, pipe_read.advance()) {
      shared.pipe.consumer_wait(pipe_read);
      wgmma_fence_accumulators<Tile>(acc);
      // C += A B
      issue_matmul<Tile>(acc, shared.stages[pipe_read.stage], warpgroup);
      if (step == 0) continue;
      wgmma_wait<1>();  // the step before has ended
      if (threadIdx.x % kWarp == 0) {
        shared.pipe.consumer_release(pipe_release);
      }
      pipe_release.advance();
    }
    wgmma_wait<0>(acc);
    if (threadIdx.x % kWarp == 0) shared.pipe.consumer_release(pipe_release);
    store_accumulators<Tile>(p, acc, row0, col0, warpgroup);
  }
}

/// Launches matmul_persistent(): a block for each SM.
/// @param group_m    rows of tiles that go together
/// @param max_blocks no more than these; no more than tiles
/// @throws as tensor_map()
template <class Tile, class T>
void launch_matmul_persistent(const MatmulParams<T>& p, int group_m = 16,
                              int max_blocks = device_properties().sm_count) {
  const TileRaster raster{ceil_div(p.m, Tile::block_m),
                          ceil_div(p.n, Tile::block_n), group_m};
  const int tiles = raster.tiles_m * raster.tiles_n;
  const Size block(kWarpgroup * (Tile::warpgroups + 1));
  const Size grid(tiles < max_blocks ? tiles : max_blocks);
  launch(matmul_persistent<Tile, T>,
         {grid, block, sizeof(MatmulPersistentStorage<Tile>), Tile::stages},
         tma_matmul<Tile>(p), raster);
}

FA_STEP_ROW(tiled, 21) {
  return row("21_matmul_persistent", "a producer warpgroup, tile after tile")
      .needs(kNeedsHopper)
      .tile([](auto bt) { return MatmulPersistentTile<bt, bfloat16>{}; })
      .persistent(1)
      .matmul(bfloat16{}, [](auto bt, const auto& p) {
        launch_matmul_persistent<MatmulPersistentTile<bt, bfloat16>>(p);
      });
}

}  // namespace fa::FA_TARGET
