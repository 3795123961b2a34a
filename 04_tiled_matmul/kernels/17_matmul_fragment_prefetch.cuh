/// @file
/// Software pipelining twice: tiles come from global memory several tiles ahead, as in matmul_pipelined(), and
/// fragments from shared memory one step ahead. Blocks of 128 x 256 give each warp 64 x 64 results: two thirds
/// of the loads for each multiplication.
#pragma once

#include "04_tiled_matmul/kernels/16_matmul_pipelined.cuh"

namespace fa::FA_TARGET {

/// The tile of matmul_fragment_prefetch().
template <bool b_transposed>
using PrefetchTile = MmaTile<b_transposed, 256, 64>;

/// The product p of 16-bit matrices on tensor cores, with fragments a step ahead.
/// Launch: blocks of 256; grid of ceil(n / 256) x ceil(m / 128); stages_bytes<PrefetchTile>().
//! [fragment_prefetch]
template <bool b_transposed, class T>
__global__ void __launch_bounds__(256)
    matmul_fragment_prefetch(MatmulParams<T> p) {
  using Tile = PrefetchTile<b_transposed>;
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
  const auto load = [&](Fragments<Tile>& to, int tile, int l) {
    const T* stage = stage_of<Tile>(memory, tile);
    load_fragments<Tile, b_transposed>(to, stage + a_offset, stage + b_offset,
                                       l, lane);
  };
  LaneResults<Tile> sum = {};
  Fragments<Tile> fragments[2];
  for (int tile = 0; tile < kStages - 1; ++tile) fetch(tile);
  cp_async_wait<kStages - 2>();
  __syncthreads();  // the first tile is there
  load(fragments[0], 0, 0);
  for (int tile = 0; tile < tiles; ++tile) {
    const int next = tile + 1 < tiles ? tile + 1 : tile;  // no branch below
#pragma unroll
    for (int l = 0; l < Tile::depth; l += 16) {
      if (l + 16 < Tile::depth) {
        load(fragments[(l / 16 + 1) % 2], tile, l + 16);
      } else {
        cp_async_wait<kStages - 2>();
        __syncthreads();  // the next tile is there; nobody reads this one
        load(fragments[0], next, 0);
      }
      if (l == 0) fetch(tile + kStages - 1);
      multiply_fragments<T, Tile>(sum, fragments[l / 16 % 2]);
    }
  }
  store_warp_tile<Tile>(p, sum, row0 + warp_row, col0 + warp_col, lane);
}
//! [fragment_prefetch]

}  // namespace fa::FA_TARGET
