/// @file
/// As matmul_tensor_cores(), with several tiles on their way: cp.async brings the tiles of later steps while
/// this one is multiplied. Tiles are twice as deep: half as many barriers.
#pragma once

#include "04_tiled_matmul/kernels/14_matmul_tensor_cores.cuh"

namespace fa::FA_TARGET {

/// The tile of matmul_pipelined().
template <bool b_transposed>
using PipelinedTile = MmaTile<b_transposed, 128, 64>;

/// Tiles in shared memory: one in use, the others on their way.
constexpr int kStages = 3;

/// Dynamic shared memory of matmul_pipelined().
template <bool b_transposed>
constexpr std::size_t pipelined_shared_bytes() {
  using Tile = PipelinedTile<b_transposed>;
  return std::size_t{2} * kStages * (Tile::a_size + Tile::b_size);
}

/// Launch: blocks of 256; grid of ceil(n / 128) x ceil(m / 128); pipelined_shared_bytes().
//! [pipelined]
template <bool b_transposed, class T>
__global__ void __launch_bounds__(256) matmul_pipelined(Product<T> p) {
  using Tile = PipelinedTile<b_transposed>;
  constexpr int stage_size = Tile::a_size + Tile::b_size;
  T* memory = dynamic_shared<T>();
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp / 4 * Tile::warp_rows;
  const int warp_col = thread / kWarp % 4 * Tile::warp_cols;
  const int row0 = blockIdx.y * Tile::rows, col0 = blockIdx.x * Tile::cols;
  const int a_offset = warp_row * Tile::a_ld;
  const int b_offset =
      Tile::a_size + warp_col * (b_transposed ? Tile::b_ld : 1);
  const int steps = ceil_div(p.k, Tile::depth);
  const auto fetch = [&](int step) {
    if (step < steps) {
      T* stage = memory + step % kStages * stage_size;
      for_tiles<Tile, b_transposed>(stage, stage + Tile::a_size, p, row0,
                                    col0, step * Tile::depth, thread,
                                    [](T* to, const T* from, bool valid) {
                                      cp_async16(to, from, valid);
                                    });
    }
    cp_async_commit();  // an empty group keeps the count
  };
  LaneResults<Tile> sum = {};
  for (int step = 0; step < kStages - 1; ++step) fetch(step);
  for (int step = 0; step < steps; ++step) {
    cp_async_wait<kStages - 2>();
    __syncthreads();  // this step is there, and nobody reads the last one
    fetch(step + kStages - 1);
    const T* stage = memory + step % kStages * stage_size;
    multiply_warp_tile<Tile, b_transposed>(sum, stage + a_offset,
                                           stage + b_offset, lane);
  }
  store_warp_tile<Tile>(p, sum, row0 + warp_row, col0 + warp_col, lane);
}
//! [pipelined]

}  // namespace fa::FA_TARGET
