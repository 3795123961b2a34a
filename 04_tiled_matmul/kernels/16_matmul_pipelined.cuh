/// @file
/// A pipeline of three stages: cp.async copies the tiles of later steps while the tensor cores
/// multiply this one. Tiles are twice as deep, which halves the number of barriers.
#pragma once

#include "04_tiled_matmul/kernels/mma_tile.cuh"

namespace fa::FA_TARGET {

/// Sizes of matmul_pipelined().
template <bool b_transposed>
using PipelinedTile = MmaTile<b_transposed, 128, 64, 3>;

/// C = A B or A B^T for 16-bit operands on tensor cores, with several stages of tiles.
template <bool b_transposed, class T>
__global__ void __launch_bounds__(256) matmul_pipelined(MatmulParams<T> p) {
  using Tile = PipelinedTile<b_transposed>;
  T* const smem = dynamic_shared<T>();
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp / 4 * Tile::warp_m;
  const int warp_col = thread / kWarp % 4 * Tile::warp_n;
  const int row0 = blockIdx.y * Tile::block_m;
  const int col0 = blockIdx.x * Tile::block_n;
  const int a_offset = warp_row * Tile::a_ld;
  const int b_offset =
      Tile::a_size + warp_col * (b_transposed ? Tile::b_ld : 1);
  //! [loop]
  const int tiles = ceil_div(p.k, Tile::block_k);
  const auto stage_of = [&](int tile) {
    return smem + tile % Tile::stages * Tile::stage_size;
  };
  const auto fetch = [&](int tile) {
    const auto copy = [](T* to, const T* from, bool valid) {
      cp_async16(to, from, valid);
    };
    if (tile < tiles) {
      copy_stage_with<Tile>(copy, stage_of(tile), p, row0, col0,
                            tile * Tile::block_k, thread);
    }
    cp_async_commit();  // an empty group keeps the count
  };
  MmaAccumulators<Tile> acc = {};
  for (int tile = 0; tile < Tile::stages - 1; ++tile) fetch(tile);
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait<Tile::stages - 2>();
    __syncthreads();  // this tile is complete, the last one is free
    fetch(tile + Tile::stages - 1);
    const T* const stage = stage_of(tile);
#pragma unroll
    for (int kk = 0; kk < Tile::block_k; kk += 16) {  // C += A B
      MmaFragments<Tile> frag;
      load_fragments<Tile>(frag, stage + a_offset, stage + b_offset, kk,
                           lane);
      mma_fragments<T, Tile>(acc, frag);
    }
  }
  //! [loop]
  store_warp_tile<Tile>(p, acc, row0 + warp_row, col0 + warp_col, lane);
}

/// Launches matmul_pipelined(): a block for each 128 x 128 tile of C.
template <bool b_transposed, class T>
void launch_matmul_pipelined(const MatmulParams<T>& p) {
  using Tile = PipelinedTile<b_transposed>;
  const Size block(Tile::threads);
  const Size grid(ceil_div(p.n, Tile::block_n), ceil_div(p.m, Tile::block_m));
  launch(matmul_pipelined<b_transposed, T>,
         {grid, block, Tile::smem_bytes, Tile::stages}, p);
}

FA_STEP_ROW(tiled, 16) {
  return row("16_matmul_pipelined", "two more tiles in flight")
      .needs(kNeedsMma)
      .tile([](auto bt) { return PipelinedTile<bt>{}; })
      .shared_bytes([](auto bt) { return PipelinedTile<bt>::smem_bytes; })
      .matmul(bfloat16{},
              [](auto bt, const auto& p) { launch_matmul_pipelined<bt>(p); });
}

}  // namespace fa::FA_TARGET
