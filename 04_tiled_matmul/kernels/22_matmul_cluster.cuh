/// @file
/// Clusters of two blocks, one above the other in C: both need the same columns of B. Each loads
/// half of them, and TMA writes that half to the shared memory of both (multicast): a block asks
/// the L2 cache for two thirds of what it would alone.
/// A tile of C leaves through shared memory by TMA, too, and the warpgroups of a block store one
/// after the other: while one stores, the other one multiplies.
#pragma once

#include "04_tiled_matmul/kernels/21_matmul_persistent.cuh"

namespace fa::FA_TARGET {

/// Blocks of a cluster: they share columns of C.
constexpr int kClusterBlocks = 2;

/// Sizes of matmul_cluster().
template <bool b_transposed, class T>
using MatmulClusterTile = WgmmaTile<T, b_transposed, 128, 256, 4>;

/// Begins to load a block's rows of A, and its half of B's columns for both blocks: each block's
/// barrier counts the bytes that it gets. One thread of each block calls it.
/// @param stage that both blocks have released
/// @param col0  of C: the first of both blocks
//! [share]
template <class Tile, class T>
__device__ void load_shared_stage(WgmmaStage<Tile>& stage,
                                  const TmaMatmul<T>& maps, Mbarrier& full,
                                  int rank, int row0, int col0, int k0) {
  constexpr unsigned all_blocks = (1u << kClusterBlocks) - 1;
  constexpr int cols = Tile::block_n / kClusterBlocks;
  constexpr int box_cols = Tile::b_transposed ? cols : Tile::B::panel_cols;
  load_tile(stage.a, maps.a, full, row0, k0);
#pragma unroll
  for (int col = 0; col < cols; col += box_cols) {
    T* const to = stage.b.data + (rank * cols + col) * Tile::block_k;
    const int c_col = col0 + rank * cols + col;
    const int b_row = Tile::b_transposed ? c_col : k0;
    const int b_col = Tile::b_transposed ? k0 : c_col;
    tma_load_multicast(to, maps.b, full, b_col, b_row, all_blocks);
  }
}
//! [share]

/// Columns of C in a panel: 128 bytes a row.
constexpr int kPanelColsC = 32;
/// Panels of a warp: it fills one while TMA reads the other.
constexpr int kPanelsC = 2;

/// 16 rows of C, as TMA stores them. It copies bytes: to its map a float is two elements.
template <class T>
using PanelC = SwizzledTile<T, 16, 2 * kPanelColsC>;

/// Shared memory of a block of matmul_cluster().
template <class Tile>
struct MatmulClusterStorage {
  WgmmaStage<Tile> stages[Tile::stages];
  PanelC<typename Tile::T> panels[4 * Tile::warpgroups][kPanelsC];
  Pipeline<Tile::stages> pipe;
};

/// Begins to write a warpgroup's accumulators by TMA, panel by panel; what lies outside of C is not
/// written.
/// @param c_map  of C as 16-bit elements
//! [store]
template <class Tile, class T>
__device__ void store_panels(const TensorMap& c_map,
                             PanelC<T> (&panels)[kPanelsC],
                             const WgmmaAccumulators<Tile>& acc, int row0,
                             int col0, int warpgroup) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % 4;
  const bool is_odd = lane / 4 % 2;  // row
#pragma unroll
  for (int i = 0; i < Tile::wgmmas_m; ++i) {
#pragma unroll
    for (int col = 0; col < Tile::block_n; col += kPanelColsC) {
      PanelC<T>& panel = panels[col / kPanelColsC % kPanelsC];
      if (lane == 0) bulk_wait_read<kPanelsC - 1>();
      __syncwarp();  // TMA has read the panel
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int m_half = j % 2;  // of 16 rows
        // odd rows take other columns: rows side by side share no bank
        const int even_col = j / 2 * 8, odd_col = even_col ^ 16;
        const float* const even = &acc[i][(col + even_col) / 2 + 2 * m_half];
        const float* const odd = &acc[i][(col + odd_col) / 2 + 2 * m_half];
        const int to_col = (is_odd ? odd_col : even_col) + lane % 4 * 2;
        T* const to = panel.at(8 * m_half + lane / 4, to_col / 4 * 8);
        store2(reinterpret_cast<float*>(to) + to_col % 4,
               is_odd ? odd[0] : even[0], is_odd ? odd[1] : even[1]);
      }
      fence_async_proxy();  // TMA sees what this thread wrote
      __syncwarp();
      if (lane == 0) {
        const int row = row0 + 64 * (Tile::wgmmas_m * warpgroup + i);
        store_tile(c_map, panel, row + 16 * warp, 2 * (col0 + col));
        bulk_commit();
      }
    }
  }
}
//! [store]

/// The named barrier at which warpgroup 1 lets the other one end its tile.
constexpr int kLeadBarrier = 1;
/// The named barrier at which it waits until the other one has stored.
constexpr int kStoreBarrier = 2;
/// Threads of the two consumer warpgroups.
constexpr int kConsumers = 2 * kWarpgroup;

/// C = A B or A B^T for 16-bit operands by wgmma, with persistent clusters of two blocks.
/// @tparam Tile   WgmmaTile with at least two stages
/// @param  maps   of the matmul; a box of B is one block's share
/// @param  c_map  of C, a box is a panel
/// @param  raster order of the clusters' tiles, which are twice as high as a block's
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup*(Tile::warpgroups + 1), 1)
    matmul_cluster(const __grid_constant__ TmaMatmul<T> maps,
                   const __grid_constant__ TensorMap c_map,
                   const TileRaster raster) {
  auto& shared = *dynamic_shared<MatmulClusterStorage<Tile>>();
  const MatmulParams<T>& p = maps.p;
  const int warpgroup = warpgroup_index(), rank = cluster_rank();
  const int tiles = raster.tiles_m * raster.tiles_n;
  const int first = blockIdx.x / kClusterBlocks;
  const int clusters = gridDim.x / kClusterBlocks;
  if (threadIdx.x == 0) {
    // a copy writes to both blocks: the warps of both release a stage
    shared.pipe.init(4 * Tile::warpgroups * kClusterBlocks);
    fence_barrier_init();
  }
  cluster_arrive();
  cluster_wait();  // the barriers of both blocks are initialised
  if (warpgroup == Tile::warpgroups) {  // the producer
    setmaxnreg_dec<kProducerRegisters>();
    const bool loads = threadIdx.x % kWarpgroup == 0;
    PipelineState<Tile::stages> pipe_write;
    for (int i = first; loads && i < tiles; i += clusters) {
      const TileCoord tile = tile_coord(i, raster);
      const int row0 = (tile.m * kClusterBlocks + rank) * Tile::block_m;
      const int col0 = tile.n * Tile::block_n;
      for (int k0 = 0; k0 < p.k; k0 += Tile::block_k, pipe_write.advance()) {
        Mbarrier& full =
            shared.pipe.producer_acquire(pipe_write, WgmmaStage<Tile>::bytes);
        load_shared_stage(shared.stages[pipe_write.stage], maps, full, rank,
                          row0, col0, k0);
      }
    }
  } else {
    setmaxnreg_inc<kConsumerRegisters>();
    const int steps = ceil_div(p.k, Tile::block_k);
    const int lane = threadIdx.x % kWarp;
    // each warp tells the producers of both blocks
    const auto release = [&](const PipelineState<Tile::stages>& at) {
      if (lane < kClusterBlocks) {
        shared.pipe.empty[at.stage].arrive_at_peer(lane);
      }
    };
    // Before so many steps to the end of a tile warpgroup 1 lets the other one
    // end: these steps keep the tensor cores busy while that one stores.
    static_assert(Tile::stages > 1, "warpgroup 0 is ahead");
    const int lead = std::min(steps, Tile::stages - 1);
    PipelineState<Tile::stages> pipe_read;
    for (int i = first; i < tiles; i += clusters) {
      const TileCoord tile = tile_coord(i, raster);
      const int row0 = (tile.m * kClusterBlocks + rank) * Tile::block_m;
      const int col0 = tile.n * Tile::block_n;
      WgmmaAccumulators<Tile> acc;
      PipelineState<Tile::stages> pipe_release = pipe_read;
      //! [lead]
      for (int step = 0; step < steps; ++step, pipe_read.advance()) {
        if (warpgroup == 1 && step == steps - lead) {
          named_barrier_wait(kLeadBarrier, kConsumers);
        }
        shared.pipe.consumer_wait(pipe_read);
        wgmma_fence_accumulators<Tile>(acc);
        // C += A B
        issue_matmul<Tile>(acc, shared.stages[pipe_read.stage], warpgroup,
                           step > 0);
        if (warpgroup == 0 && step == steps - 1) {
          named_barrier_wait(kLeadBarrier, kConsumers);
        }
        if (step == 0) continue;
        wgmma_wait<1>();  // the step before has ended
        release(pipe_release);
        pipe_release.advance();
      }
      wgmma_wait<0>(acc);
      release(pipe_release);
      if (warpgroup == 1) named_barrier_wait(kStoreBarrier, kConsumers);
      store_panels<Tile>(c_map, shared.panels[threadIdx.x / kWarp], acc, row0,
                         col0, warpgroup);
      if (warpgroup == 0) named_barrier_arrive(kStoreBarrier, kConsumers);
      //! [lead]
    }
    if (lane == 0) bulk_wait_read<0>();  // before the block ends
  }
  cluster_arrive();
  cluster_wait();  // no block ends while the other one arrives at its barriers
}

/// Launches matmul_cluster(): a cluster for each two SMs.
/// @param group_m    rows of the clusters' tiles that go together
/// @param max_blocks no more than these, but two; no more than tiles
/// @throws as tensor_map()
template <class Tile, class T>
void launch_matmul_cluster(const MatmulParams<T>& p, int group_m = 8,
                           int max_blocks = device_properties().sm_count) {
  const TileRaster raster{ceil_div(p.m, Tile::block_m * kClusterBlocks),
                          ceil_div(p.n, Tile::block_n), group_m};
  const int tiles = raster.tiles_m * raster.tiles_n;
  const int most = std::max(max_blocks / kClusterBlocks, 1);
  const Size block(kWarpgroup * (Tile::warpgroups + 1));
  const Size grid(kClusterBlocks * std::min(tiles, most));
  launch(
      matmul_cluster<Tile, T>,
      {grid, block, sizeof(MatmulClusterStorage<Tile>), Tile::stages, false,
       kClusterBlocks},
      tma_matmul<Tile>(p, Tile::b_transposed ? Tile::block_n / kClusterBlocks
                                             : Tile::block_k),
      tensor_map(reinterpret_cast<const T*>(p.c), p.m, 2 * p.n, 2 * p.ldc,
                 PanelC<T>::rows),
      raster);
}

FA_STEP_ROW(tiled, 22) {
  return row("22_matmul_cluster", "two blocks share what they load")
      .needs(kNeedsHopper)
      .tile([](auto bt) { return MatmulClusterTile<bt, bfloat16>{}; })
      .persistent(kClusterBlocks)
      .matmul(bfloat16{}, [](auto bt, const auto& p) {
        launch_matmul_cluster<MatmulClusterTile<bt, bfloat16>>(p);
      });
}

}  // namespace fa::FA_TARGET
