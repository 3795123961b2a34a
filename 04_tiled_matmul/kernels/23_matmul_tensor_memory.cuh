/// @file
/// Blackwell's tensor cores (B200): one thread issues matmuls of 128 x 256 x 16
/// elements (tcgen05), and their accumulators are in tensor memory, not in
/// registers. So no warp is needed to hold sums: one warp loads, one issues,
/// and all of them read the result in the end.
///
/// Compiles for sm_100a with nvcc 13; right and without a finding in the lab,
/// under our reading of the PTX ISA. Never run on a B200 by us.
#pragma once

#include "04_tiled_matmul/kernels/wgmma_tile.cuh"
#include "common/gpu/blackwell.cuh"

namespace fa::FA_TARGET {

/// Sizes of matmul_tensor_memory(): those of matmul_stages().
template <bool b_transposed, class T>
using MatmulTensorMemoryTile = WgmmaTile<T, b_transposed, 128, 256, 4>;

/// Shared memory of a block of matmul_tensor_memory().
template <class Tile>
struct MatmulTensorMemoryStorage {
  WgmmaStage<Tile> stages[Tile::stages];
  Pipeline<Tile::stages> pipe;
  Mbarrier done;           ///< all matmuls have ended
  std::uint32_t acc_tmem;  ///< address of the accumulators
};

/// Issues acc += A B for a stage: four instructions. One thread calls it.
/// @param adds false: acc = A B
template <class Tile>
__device__ void issue_tcgen05(std::uint32_t acc_tmem,
                              const WgmmaStage<Tile>& stage, bool adds) {
  constexpr Major major_b = Tile::b_transposed ? Major::kK : Major::kMN;
  constexpr auto descriptor =
      tcgen05_descriptor<typename Tile::T>(Tile::block_n, Major::kK, major_b);
#pragma unroll
  for (int kk = 0; kk < Tile::block_k; kk += 16) {
    const auto a = stage.a.by_rows(0, kk);
    if constexpr (Tile::b_transposed) {
      const auto b = stage.b.by_rows(0, kk);
      tcgen05_mma(acc_tmem, a, b, descriptor, adds || kk > 0);
    } else {
      const auto b = stage.b.by_columns(kk, 0);
      tcgen05_mma(acc_tmem, a, b, descriptor, adds || kk > 0);
    }
  }
}

/// Writes the accumulators: lane i of tensor memory is row i, and a thread
/// writes the row of its own lane, 32 columns at a time.
template <class Tile, class T>
__device__ void store_tensor_memory(const MatmulParams<T>& p,
                                    std::uint32_t acc_tmem, int row0,
                                    int col0) {
  const int row = row0 + threadIdx.x;
#pragma unroll 1
  for (int col = 0; col < Tile::block_n; col += 32) {
    float acc[32];
    tcgen05_ld(acc, tensor_quarter(acc_tmem, col));  // the whole warp
    tcgen05_wait_ld(acc);
    if (row >= p.m) continue;
    float* const to = p.c + std::int64_t{row} * p.ldc + col0 + col;
#pragma unroll
    for (int j = 0; j < 32; j += 4) {
      if (col0 + col + j < p.n) {  // up to ld there is room for the others
        store4(to + j, {acc[j], acc[j + 1], acc[j + 2], acc[j + 3]});
      }
    }
  }
}

/// C = A B or A B^T for 16-bit operands by tcgen05.
/// @tparam Tile WgmmaTile with block_m = 128
template <class Tile, class T>
__global__ void __launch_bounds__(kWarpgroup)
    matmul_tensor_memory(const __grid_constant__ TmaMatmul<T> maps) {
  auto& shared = *dynamic_shared<MatmulTensorMemoryStorage<Tile>>();
  const MatmulParams<T>& p = maps.p;
  const int warp = warp_uniform(threadIdx.x / kWarp);
  const int row0 = blockIdx.y * Tile::block_m;
  const int col0 = blockIdx.x * Tile::block_n;
  const int steps = ceil_div(p.k, Tile::block_k);
  //! [roles]
  if (warp == 0) {  // a column of 128 words for each column of the tile
    tcgen05_alloc(&shared.acc_tmem, Tile::block_n);
    tcgen05_relinquish_alloc_permit();
  }
  if (threadIdx.x == 0) {
    shared.pipe.init(1);
    shared.done.init(1);
    fence_barrier_init();
  }
  __syncthreads();  // the barriers and the address are there
  const std::uint32_t acc_tmem = shared.acc_tmem;
  PipelineState<Tile::stages> state;
  if (threadIdx.x == 0) {  // loads
    for (int step = 0; step < steps; ++step, state.advance()) {
      Mbarrier& full =
          shared.pipe.producer_acquire(state, WgmmaStage<Tile>::bytes);
      load_stage(shared.stages[state.stage], maps, full, row0, col0,
                 step * Tile::block_k);
    }
  } else if (threadIdx.x == kWarp) {  // multiplies
    for (int step = 0; step < steps; ++step, state.advance()) {
      shared.pipe.consumer_wait(state);
      tcgen05_fence_after();
      // C += A B
      issue_tcgen05<Tile>(acc_tmem, shared.stages[state.stage], step > 0);
      tcgen05_commit(shared.pipe.empty[state.stage]);  // when it has ended
    }
    tcgen05_commit(shared.done);  // when all have ended
  }
  __syncwarp();
  shared.done.wait(0);
  tcgen05_fence_after();
  store_tensor_memory<Tile>(p, acc_tmem, row0, col0);
  tcgen05_fence_before();
  __syncthreads();  // all warps have read their lanes
  if (warp == 0) tcgen05_dealloc(acc_tmem, Tile::block_n);
  //! [roles]
}

/// Launches matmul_tensor_memory(): a block for each tile of C.
/// @throws as tensor_map()
template <class Tile, class T>
void launch_matmul_tensor_memory(const MatmulParams<T>& p) {
  const Size grid(ceil_div(p.n, Tile::block_n), ceil_div(p.m, Tile::block_m));
  launch(matmul_tensor_memory<Tile, T>,
         {grid, Size(kWarpgroup), sizeof(MatmulTensorMemoryStorage<Tile>),
          Tile::stages},
         tma_matmul<Tile>(p));
}

FA_STEP_ROW(tiled, 23) {
  return row("23_matmul_tensor_memory",
             "B200: accumulators in tensor memory; never run on one")
      .needs(kNeedsBlackwell)
      .tile([](auto bt) { return MatmulTensorMemoryTile<bt, bfloat16>{}; })
      .matmul(bfloat16{}, [](auto bt, const auto& p) {
        launch_matmul_tensor_memory<MatmulTensorMemoryTile<bt, bfloat16>>(p);
      });
}

}  // namespace fa::FA_TARGET
