/// @file
/// Fragments by ldmatrix, four matrices of 8 x 8 at once, from tiles with an XOR swizzle, which
/// avoids the bank conflicts. ldmatrix_x4_transposed() transposes V. The swizzle, swizzled(), and
/// the matmuls of a warp, multiply_q_k() and multiply_p_v(), are in common/attention/mma_tile.cuh.
#pragma once

#include "05_flash_forward/kernels/mma_forward.cuh"

namespace fa::FA_TARGET {

/// Attention in 16 bits. A warp processes 32 queries; tiles are swizzled.
template <int d, class T>
__global__ void __launch_bounds__(128) flash_swizzle(Attention<T> a) {
  using Tile = PlainForwardTile<d>;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Tile::q_size;
  T* const v_smem = k_smem + Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int query0 = blockIdx.x * Tile::block_m;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  const auto copy_to = [](T* tile) {
    return [=](int row, int col, const T* from, bool inside) {
      store4(tile + swizzled<d>(row, col),
             inside ? load4(from) : make_float4(0, 0, 0, 0));
    };
  };
  for_row_pieces<Tile::block_m, d, Tile::threads>(
      head.q, a.q_strides.row, query0, a.length_q, a.head_dim, thread,
      copy_to(q_smem));
  Accumulators<Tile, d> o = {};
  WarpRowState<Tile> state;
  init_row_state(state);
  const int visible = visible_keys(a, query0 + Tile::block_m - 1);
  //! [loop]
  for (int key0 = 0; key0 < visible; key0 += Tile::block_n) {
    for_row_pieces<Tile::block_n, d, Tile::threads>(
        head.k, a.k_strides.row, key0, a.length_k, a.head_dim, thread,
        copy_to(k_smem));
    for_row_pieces<Tile::block_n, d, Tile::threads>(
        head.v, a.v_strides.row, key0, a.length_k, a.head_dim, thread,
        copy_to(v_smem));
    __syncthreads();  // the tiles have arrived
    Accumulators<Tile, Tile::block_n> s = {};
    // S = scale Q K^T
    multiply_q_k<d>(s, q_smem, k_smem, warp_row, lane);
    scale_scores<Tile>(s, a.scale);
    apply_mask(s, a, query0 + warp_row, key0, lane);
    // P = exp(S - m)
    softmax_step<Tile>(s, o, state);
    apply_dropout<Tile>(s, a, head.index, query0 + warp_row, key0, lane);
    // O += P V
    multiply_p_v<d>(o, s, v_smem, lane);
    __syncthreads();  // all warps are done with the tiles
  }
  //! [loop]
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}

/// Launches the kernel with a block for each tile of queries.
/// @param a with a head_dim of at most 128
template <class T>
void launch_swizzle(const Attention<T>& a, const Stream& stream) {
  with_head_dim<64, 128>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Tile = PlainForwardTile<d>;
    launch(stream, flash_swizzle<d, T>,
           {grid_of(a, Tile::block_m), Tile::threads,
            plain_forward_bytes<d, T>()},
           a);
  });
}

FA_LAUNCH_16_BIT(forward_steps, Attention, (const Stream&), launch_swizzle);

FA_STEP_ROW(forward, 6) {
  return row("06_swizzle", "ldmatrix, no bank conflicts", half{}, bfloat16{})
      .needs(kNeedsMma)
      .head_dims(HeadDims<64, 128>{})
      .over_keys(PlainForwardTile<64>{}, 1)
      .shared_bytes([](auto d) { return plain_forward_bytes<d, half>(); })
      .launch([](auto& a, auto, auto& stream) { launch_swizzle(a, stream); });
}

}  // namespace fa::FA_TARGET
