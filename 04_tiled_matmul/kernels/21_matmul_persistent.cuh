/// @file
/// As many blocks as SMs, and each computes tile after tile of C. A warpgroup that only fetches, the
/// producer, runs ahead by all stages, also into the next tile: while the consumers write one tile, the stages fill for
/// the next. The order of the tiles is one that the L2 cache likes.
#pragma once

#include "04_tiled_matmul/kernels/20_matmul_stages.cuh"

namespace fa::FA_TARGET {

/// Registers of a producer's thread.
constexpr int kProducerRegisters = 24;
/// Registers of a thread of two consumers: all of 64 Ki together.
constexpr int kConsumerRegisters = 240;

/// The tiles of C and the order in which blocks take them.
struct TileRasterOrder {
  int rows;   ///< of tiles
  int cols;   ///< of tiles
  int group;  ///< rows that go together, column by column
};

/// A tile of C.
struct TileOfC {
  int row;  ///< in tiles
  int col;  ///< in tiles
};

/// The tile that comes as number i: blocks that run at the same time have tiles in a few rows and a few columns of C,
/// and so share what they read of A and B.
//! [order]
__host__ __device__ inline TileOfC tile_of(int i,
                                           const TileRasterOrder& order) {
  const int of_group = order.group * order.cols;
  const int first = i / of_group * order.group;
  const int left = order.rows - first;
  const int rows = left < order.group ? left : order.group;
  const int rest = i % of_group;
  return {first + rest % rows, rest / rows};
}
//! [order]

/// What the producer's thread does: fetches all tiles of A and B that this block's tiles of C need, without a pause
/// between one tile of C and the next.
//! [produce]
template <class Tile, class T>
__device__ void produce(StagesShared<Tile>& shared, const TmaMatmul<T>& maps,
                        const TileRasterOrder& order) {
  PipelineState<Tile::stages> at;
  for (int i = blockIdx.x; i < order.rows * order.cols; i += gridDim.x) {
    const TileOfC tile = tile_of(i, order);
    for (int l0 = 0; l0 < maps.p.k; l0 += Tile::depth, at.advance()) {
      Mbarrier& full =
          shared.pipe.producer_acquire(at, WgmmaStage<Tile>::bytes);
      fetch_tiles(shared.ring[at.stage], maps, full, tile.row * Tile::rows,
                  tile.col * Tile::cols, l0);
    }
  }
}
//! [produce]

/// What a consumer does for a tile of C: sums = A B, stage by stage. While the products of one stage are under way,
/// those of the next are begun.
/// @param sums      of this thread, 0
/// @param shared    the block's
/// @param at        where the ring stands
/// @param steps     of the sums, Tile::depth at a time
/// @param warpgroup which
//! [consume]
template <class Tile>
__device__ void consume(WgmmaAccumulators<Tile>& sums,
                        StagesShared<Tile>& shared,
                        PipelineState<Tile::stages>& at, int steps,
                        int warpgroup) {
  const bool frees = threadIdx.x % kWarp == 0;  // for its warp
  PipelineState<Tile::stages> before = at;
  for (int step = 0; step < steps; ++step, at.advance()) {
    shared.pipe.consumer_wait(at);
    wgmma_fence_accumulators<Tile>(sums);
    issue_matmul<Tile>(sums, shared.ring[at.stage], warpgroup);
    if (step == 0) continue;
    wgmma_wait<1>();  // the products of the step before have ended
    if (frees) shared.pipe.consumer_release(before);
    before.advance();
  }
  wgmma_wait<0>(sums);
  if (frees) shared.pipe.consumer_release(before);
}
//! [consume]

/// The product p of 16-bit matrices by wgmma, with blocks that persist.
/// Launch: blocks of 128 x (consumers + 1); as many as SMs, or as tiles; sizeof(StagesShared<Tile>).
/// @tparam Tile  WgmmaTile with 2 consumers
/// @param  maps  of the product
/// @param  order of the tiles
//! [persistent]
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::consumers + 1), 1)
    matmul_persistent(const __grid_constant__ TmaMatmul<T> maps,
                      const TileRasterOrder order) {
  static_assert(Tile::consumers == 2, "registers are for two");
  auto& shared = *dynamic_shared<StagesShared<Tile>>();
  const MatmulParams<T>& p = maps.p;
  const int warpgroup = warpgroup_index();
  init_stages(shared);
  if (warpgroup == Tile::consumers) {  // the producer
    setmaxnreg_dec<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup == 0) produce(shared, maps, order);
    return;
  }
  setmaxnreg_inc<kConsumerRegisters>();
  const int steps = ceil_div(p.k, Tile::depth);
  PipelineState<Tile::stages> at;
  for (int i = blockIdx.x; i < order.rows * order.cols; i += gridDim.x) {
    const TileOfC tile = tile_of(i, order);
    WgmmaAccumulators<Tile> sums = {};
    consume<Tile>(sums, shared, at, steps, warpgroup);
    store_accumulators<Tile>(p, sums, tile.row * Tile::rows,
                             tile.col * Tile::cols, warpgroup);
  }
}
//! [persistent]

}  // namespace fa::FA_TARGET
