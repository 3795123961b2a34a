/// @file
/// As matmul_tensor_cores(), with several tiles on their way: cp.async brings the tiles of later steps while
/// this one is multiplied. Tiles are twice as deep: half as many barriers.
#pragma once

#include "04_tiled_matmul/kernels/15_matmul_tensor_cores.cuh"

namespace fa::FA_TARGET {

/// The tile of matmul_pipelined().
template <bool b_transposed>
using PipelinedTile = MmaTile<b_transposed, 128, 64>;

/// Tiles in shared memory: one in use, the others on their way.
constexpr int kStages = 3;

/// Dynamic shared memory for all stages.
template <class Tile>
constexpr std::size_t stages_bytes() {
  return std::size_t{2} * kStages * (Tile::a_size + Tile::b_size);
}

/// Where the tiles of A and then of B for some depth lie.
template <class Tile, class T>
__device__ T* stage_of(T* memory, int tile) {
  return memory + tile % kStages * (Tile::a_size + Tile::b_size);
}

/// Begins to bring the tiles for some depth, and closes the group of copies; when there are no more tiles the
/// group is empty, which keeps the count.
template <class Tile, bool b_transposed, class T>
__device__ void fetch_stage(T* memory, const MatmulParams<T>& p, int row0,
                            int col0, int tile, int tiles, int thread) {
  if (tile < tiles) {
    T* stage = stage_of<Tile>(memory, tile);
    for_tiles<Tile, b_transposed>(stage, stage + Tile::a_size, p, row0, col0,
                                  tile * Tile::depth, thread,
                                  [](T* to, const T* from, bool valid) {
                                    cp_async16(to, from, valid);
                                  });
  }
  cp_async_commit();
}

/// The product p of 16-bit matrices on tensor cores, with several stages of tiles.
/// Launch: blocks of 256; grid of ceil(n / 128) x ceil(m / 128); stages_bytes<PipelinedTile>().
//! [pipelined]
template <bool b_transposed, class T>
__global__ void __launch_bounds__(256) matmul_pipelined(MatmulParams<T> p) {
  using Tile = PipelinedTile<b_transposed>;
  T* memory = dynamic_shared<T>();
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp / 4 * Tile::warp_rows;
  const int warp_col = thread / kWarp % 4 * Tile::warp_cols;
  const int row0 = blockIdx.y * Tile::rows, col0 = blockIdx.x * Tile::cols;
  const int a_offset = warp_row * Tile::a_ld;
  const int b_offset =
      Tile::a_size + warp_col * (b_transposed ? Tile::b_ld : 1);
  const int tiles = ceil_div(p.k, Tile::depth);
  const auto fetch = [&](int tile) {
    fetch_stage<Tile, b_transposed>(memory, p, row0, col0, tile, tiles,
                                    thread);
  };
  LaneResults<Tile> sum = {};
  for (int tile = 0; tile < kStages - 1; ++tile) fetch(tile);
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait<kStages - 2>();
    __syncthreads();  // this tile is there, and nobody reads the last one
    fetch(tile + kStages - 1);
    const T* stage = stage_of<Tile>(memory, tile);
    multiply_warp_tile<Tile, b_transposed>(sum, stage + a_offset,
                                           stage + b_offset, lane);
  }
  store_warp_tile<Tile>(p, sum, row0 + warp_row, col0 + warp_col, lane);
}
//! [pipelined]

}  // namespace fa::FA_TARGET
