/// @file
/// Software pipelining twice: tiles arrive from global memory several tiles ahead, as in
/// matmul_pipelined(), and fragments from shared memory one step ahead. Blocks of 128 x 256 give
/// each warp 64 x 64 elements of C: two thirds of the loads per multiplication.
#pragma once

#include "04_tiled_matmul/kernels/mma_tile.cuh"

namespace fa::FA_TARGET {

/// Sizes of matmul_fragment_prefetch().
template <bool b_transposed>
using PrefetchTile = MmaTile<b_transposed, 256, 64, 3>;

/// C = A B or A B^T for 16-bit operands on tensor cores, with fragments one step ahead.
template <bool b_transposed, class T>
__global__ void __launch_bounds__(256)
    matmul_fragment_prefetch(MatmulParams<T> p) {
  using Tile = PrefetchTile<b_transposed>;
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
  const auto load = [&](MmaFragments<Tile>& frag, int tile, int kk) {
    const T* const stage = stage_of(tile);
    load_fragments<Tile>(frag, stage + a_offset, stage + b_offset, kk, lane);
  };
  MmaAccumulators<Tile> acc = {};
  MmaFragments<Tile> frags[2];
  for (int tile = 0; tile < Tile::stages - 1; ++tile) fetch(tile);
  cp_async_wait<Tile::stages - 2>();
  __syncthreads();  // the first tile is complete
  load(frags[0], 0, 0);
  for (int tile = 0; tile < tiles; ++tile) {
    const int next = tile + 1 < tiles ? tile + 1 : tile;  // no branch below

#pragma unroll
    for (int kk = 0; kk < Tile::block_k; kk += 16) {  // C += A B
      if (kk + 16 < Tile::block_k) {
        load(frags[(kk / 16 + 1) % 2], tile, kk + 16);
      } else {
        cp_async_wait<Tile::stages - 2>();
        __syncthreads();  // the next tile is complete, this one is free
        load(frags[0], next, 0);
      }
      if (kk == 0) fetch(tile + Tile::stages - 1);
      mma_fragments<T, Tile>(acc, frags[kk / 16 % 2]);
    }
  }
  //! [loop]
  store_warp_tile<Tile>(p, acc, row0 + warp_row, col0 + warp_col, lane);
}

/// Launches matmul_fragment_prefetch(): a block for each 128 x 256 tile of C.
template <bool b_transposed, class T>
void launch_matmul_fragment_prefetch(const MatmulParams<T>& p) {
  using Tile = PrefetchTile<b_transposed>;
  const Size block(Tile::threads);
  const Size grid(ceil_div(p.n, Tile::block_n), ceil_div(p.m, Tile::block_m));
  launch(matmul_fragment_prefetch<b_transposed, T>,
         {grid, block, Tile::smem_bytes, Tile::stages}, p);
}

FA_STEP_ROW(tiled, 17) {
  return row("17_matmul_fragment_prefetch", "fragments a step ahead")
      .needs(kNeedsMma)
      .tile([](auto bt) { return PrefetchTile<bt>{}; })
      .shared_bytes([](auto bt) { return PrefetchTile<bt>::smem_bytes; })
      .matmul(bfloat16{}, [](auto bt, const auto& p) {
        launch_matmul_fragment_prefetch<bt>(p);
      });
}

}  // namespace fa::FA_TARGET
