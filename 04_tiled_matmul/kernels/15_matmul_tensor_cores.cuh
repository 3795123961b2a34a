/// @file
/// Tensor cores: with one instruction a warp multiplies 16 x 16 by 16 x 8 elements of 16 bits and
/// accumulates in float32.
#pragma once

#include "04_tiled_matmul/kernels/mma_tile.cuh"

namespace fa::FA_TARGET {

/// Sizes of matmul_tensor_cores().
template <bool b_transposed>
using TensorCoresTile = MmaTile<b_transposed, 128, 32, 1>;

/// C = A B or A B^T for 16-bit operands on tensor cores.
template <bool b_transposed, class T>
__global__ void __launch_bounds__(256)
    matmul_tensor_cores(MatmulParams<T> p) {
  using Tile = TensorCoresTile<b_transposed>;
  __shared__ __align__(16) unsigned char smem[Tile::smem_bytes];
  T* const stage = reinterpret_cast<T*>(smem);
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp / 4 * Tile::warp_m;
  const int warp_col = thread / kWarp % 4 * Tile::warp_n;
  const int row0 = blockIdx.y * Tile::block_m;
  const int col0 = blockIdx.x * Tile::block_n;
  const int a_offset = warp_row * Tile::a_ld;
  const int b_offset =
      Tile::a_size + warp_col * (b_transposed ? Tile::b_ld : 1);
  const auto fetch = [&](int k0) {
    const auto copy = [](T* to, const T* from, bool valid) {
      store4(to, valid ? load4(from) : make_float4(0, 0, 0, 0));
    };
    copy_stage_with<Tile>(copy, stage, p, row0, col0, k0, thread);
  };
  //! [loop]
  MmaAccumulators<Tile> acc = {};
  for (int k0 = 0; k0 < p.k; k0 += Tile::block_k) {
    fetch(k0);
    __syncthreads();  // the tiles are complete

#pragma unroll
    for (int kk = 0; kk < Tile::block_k; kk += 16) {  // C += A B
      MmaFragments<Tile> frag;
      load_fragments<Tile>(frag, stage + a_offset, stage + b_offset, kk,
                           lane);
      mma_fragments<T, Tile>(acc, frag);
    }
    __syncthreads();  // all threads are done with the tiles
  }
  //! [loop]
  store_warp_tile<Tile>(p, acc, row0 + warp_row, col0 + warp_col, lane);
}

/// Launches matmul_tensor_cores(): a block for each 128 x 128 tile of C.
template <bool b_transposed, class T>
void launch_matmul_tensor_cores(const MatmulParams<T>& p) {
  using Tile = TensorCoresTile<b_transposed>;
  const Size block(Tile::threads);
  const Size grid(ceil_div(p.n, Tile::block_n), ceil_div(p.m, Tile::block_m));
  launch(matmul_tensor_cores<b_transposed, T>, {grid, block}, p);
}

FA_STEP_ROW(tiled, 15) {
  return row("15_matmul_tensor_cores", "16 x 8 x 16 in one instruction")
      .needs(kNeedsMma)
      .tile([](auto bt) { return TensorCoresTile<bt>{}; })
      .matmul(bfloat16{}, [](auto bt, const auto& p) {
        launch_matmul_tensor_cores<bt>(p);
      });
}

}  // namespace fa::FA_TARGET
