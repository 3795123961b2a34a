/// @file
/// cp.async copies the next tiles of K and V during the matmuls of the current ones: two stages of
/// each, one barrier for each tile.
#pragma once

#include "05_flash_forward/kernels/mma_forward.cuh"

namespace fa::FA_TARGET {

/// Attention in 16 bits. A warp processes 32 queries; tiles are swizzled, and the next ones of K
/// and V are in flight.
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
  const int visible = visible_keys(a, query0 + Tile::block_m - 1);
  const int tiles = ceil_div(visible, Tile::block_n);
  const auto load = [&](int tile) {
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
    load(0);
    cp_async_commit();
  }
  Accumulators<Tile, d> o = {};
  WarpRowState<Tile> state;
  init_row_state(state);
  //! [loop]
  for (int tile = 0; tile < tiles; ++tile) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    cp_async_wait<0>();
    __syncthreads();  // arrived; no warp still reads the stage load() fills
    if (tile + 1 < tiles) load(tile + 1);
    cp_async_commit();
    Accumulators<Tile, Tile::block_n> s = {};
    // S = scale Q K^T
    multiply_q_k<d>(s, q_smem, k_smem + at, warp_row, lane);
    scale_scores<Tile>(s, a.scale);
    apply_mask(s, a, query0 + warp_row, key0, lane);
    // P = exp(S - m)
    softmax_step<Tile>(s, o, state);
    apply_dropout<Tile>(s, a, head.index, query0 + warp_row, key0, lane);
    // O += P V
    multiply_p_v<d>(o, s, v_smem + at, lane);
  }
  //! [loop]
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}
//! [pipeline]

/// Launches the kernel with a block for each tile of queries.
/// @param a with a head_dim of at most 128
template <class T>
void launch_pipeline(const Attention<T>& a, const Stream& stream) {
  with_head_dim<64, 128>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Tile = PlainForwardTile<d>;
    launch(stream, flash_pipeline<d, T>,
           {grid_of(a, Tile::block_m), Tile::threads,
            pipeline_bytes<Tile, T>(), kPipelineStages},
           a);
  });
}

FA_LAUNCH_16_BIT(forward_steps, Attention, (const Stream&), launch_pipeline);

FA_STEP_ROW(forward, 7) {
  return row("07_pipeline", "cp.async pipeline", half{}, bfloat16{})
      .needs(kNeedsMma)
      .head_dims(HeadDims<64, 128>{})
      .over_keys(PlainForwardTile<64>{}, kPipelineStages)
      .shared_bytes(
          [](auto d) { return pipeline_bytes<PlainForwardTile<d>, half>(); })
      .launch(
          [](auto& a, auto, auto& stream) { launch_pipeline(a, stream); });
}

}  // namespace fa::FA_TARGET
