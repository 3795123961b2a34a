/// @file
/// K and V come by cp.async while the tensor cores work on the tiles before them: two stages of each, one barrier a
/// tile.
#pragma once

#include "05_flash_forward/kernels/06_swizzle.cuh"

namespace fa::FA_TARGET {

/// Attention in 16 bits; the next tiles of K and V come while these are used.
/// Launch: as flash_tensor_cores(), with dynamic shared memory for a tile of Q, two of K and two of V.
//! [pipeline]
template <int d, class T>
__global__ void __launch_bounds__(128) flash_pipeline(Attention<T> a) {
  using Tile = PlainForwardTile<d>;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Tile::q_size;
  T* const v_smem = k_smem + 2 * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int query0 = blockIdx.x * Tile::block_m;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  const int seen = visible_keys(a, query0 + Tile::block_m - 1);
  const int tiles = ceil_div(seen, Tile::block_n);
  const auto fetch = [&](int tile) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    copy_rows_async<Tile::block_n, d, Tile::threads>(
        k_smem + at, head.k, a.k_strides.row, key0, a.length_k, a.head_dim,
        thread);
    copy_rows_async<Tile::block_n, d, Tile::threads>(
        v_smem + at, head.v, a.v_strides.row, key0, a.length_k, a.head_dim,
        thread);
  };
  if (tiles > 0) {
    copy_rows_async<Tile::block_m, d, Tile::threads>(
        q_smem, head.q, a.q_strides.row, query0, a.length_q, a.head_dim,
        thread);
    fetch(0);
    cp_async_commit();
  }
  Accumulators<Tile, d> o = {};
  WarpRowState<Tile> state;
  init_row_state(state);
  for (int tile = 0; tile < tiles; ++tile) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    //! [turn]
    cp_async_wait<0>();
    __syncthreads();  // this tile is there, and nobody reads the last one
    if (tile + 1 < tiles) fetch(tile + 1);
    cp_async_commit();
    //! [turn]
    Accumulators<Tile, Tile::block_n> s = {};
    multiply_q_k<d>(s, q_smem, k_smem + at, warp_row, lane);
    scale_and_mask<Tile>(s, a, query0 + warp_row, key0, lane);
    softmax_step<Tile>(s, o, state);
    apply_dropout<Tile>(s, a, head.index, query0 + warp_row, key0, lane);
    multiply_p_v<d>(o, s, v_smem + at, lane);
  }
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}
//! [pipeline]

/// Dynamic shared memory of a tile of Q and of two of K and of V.
template <class Tile, class T>
constexpr std::size_t pipeline_bytes() {
  return sizeof(T) * (Tile::q_size + 2 * kPipelineStages * Tile::kv_size);
}

}  // namespace fa::FA_TARGET
