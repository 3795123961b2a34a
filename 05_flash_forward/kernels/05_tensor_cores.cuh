/// @file
/// Both matmuls on tensor cores. A warp owns whole rows, so that their maxima and sums need no
/// other warp. The accumulators of Q K^T have the layout of the left operand of P V: P never leaves
/// the registers.
#pragma once

#include "05_flash_forward/kernels/mma_forward.cuh"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// Attention in 16 bits. A warp processes 32 queries.
/// @tparam d at least head_dim
/// @tparam T half or bfloat16
//! [tensor_cores]
template <int d, class T>
__global__ void __launch_bounds__(128) flash_tensor_cores(Attention<T> a) {
  using Tile = PlainForwardTile<d>;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Tile::q_size;
  T* const v_smem = k_smem + Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int g = lane / 4, t = lane % 4;  // a fragment's row, pair of columns
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int query0 = blockIdx.x * Tile::block_m;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  const auto copy_to = [](T* tile) {
    return [=](int row, int col, const T* from, bool inside) {
      store4(tile + row * d + col,
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
  for (int key0 = 0; key0 < visible; key0 += Tile::block_n) {
    for_row_pieces<Tile::block_n, d, Tile::threads>(
        head.k, a.k_strides.row, key0, a.length_k, a.head_dim, thread,
        copy_to(k_smem));
    for_row_pieces<Tile::block_n, d, Tile::threads>(
        head.v, a.v_strides.row, key0, a.length_k, a.head_dim, thread,
        copy_to(v_smem));
    __syncthreads();  // the tiles have arrived
    //! [mainloop]
    Accumulators<Tile, Tile::block_n> s = {};
    // S = scale Q K^T
#pragma unroll
    for (int kk = 0; kk < d; kk += 16) {
      std::uint32_t q_frag[Tile::row_tiles][4];
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
        const T* row = q_smem + (warp_row + 16 * i + g) * d + kk + 2 * t;
        q_frag[i][0] = load_pair(row);
        q_frag[i][1] = load_pair(row + 8 * d);
        q_frag[i][2] = load_pair(row + 8);
        q_frag[i][3] = load_pair(row + 8 * d + 8);
      }
#pragma unroll
      for (int j = 0; j < Tile::block_n / 8; ++j) {
        const T* row = k_smem + (8 * j + g) * d + kk + 2 * t;
        const std::uint32_t k_frag[2] = {load_pair(row), load_pair(row + 8)};
#pragma unroll
        for (int i = 0; i < Tile::row_tiles; ++i) {
          mma_m16n8k16<T>(s[i][j], q_frag[i], k_frag);
        }
      }
    }
    scale_scores<Tile>(s, a.scale);
    apply_mask(s, a, query0 + warp_row, key0, lane);
    // P = exp(S - m)
    softmax_step<Tile>(s, o, state);
    apply_dropout<Tile>(s, a, head.index, query0 + warp_row, key0, lane);
    // O += P V
#pragma unroll
    for (int key = 0; key < Tile::block_n; key += 16) {
      std::uint32_t p_frag[Tile::row_tiles][4];
#pragma unroll
      for (int i = 0; i < Tile::row_tiles; ++i) {
        probs_as_operand<T>(p_frag[i], s[i], key);
      }
#pragma unroll
      for (int j = 0; j < d / 8; ++j) {
        const T* col = v_smem + (key + 2 * t) * d + 8 * j + g;
        const std::uint32_t v_frag[2] = {pack2(col[0], col[d]),
                                         pack2(col[8 * d], col[9 * d])};
#pragma unroll
        for (int i = 0; i < Tile::row_tiles; ++i) {
          mma_m16n8k16<T>(o[i][j], p_frag[i], v_frag);
        }
      }
    }
    //! [mainloop]
    __syncthreads();  // all warps are done with the tiles
  }
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}
//! [tensor_cores]

/// Launches the kernel with a block for each tile of queries.
/// @param a with a head_dim of at most 128
//! [launch]
template <class T>
void launch_tensor_cores(const Attention<T>& a, const Stream& stream) {
  with_head_dim<64, 128>(a.head_dim, [&](auto head_dim) {
    constexpr int d = decltype(head_dim)::value;
    using Tile = PlainForwardTile<d>;
    launch(stream, flash_tensor_cores<d, T>,
           {grid_of(a, Tile::block_m),
            {Tile::threads},
            plain_forward_bytes<d, T>()},
           a);
  });
}
//! [launch]

/// @cond compiled once for all who launch it: common/gpu/parts.hpp
FA_LAUNCH_16_BIT(forward_rungs, Attention, (const Stream&),
                 launch_tensor_cores);
/// @endcond

/// The step's row: see common/attention/host/step_row.cuh.
template <class Row>
auto forward_step(std::integral_constant<int, 5>, Row row) {
  return row("05_tensor_cores", "P stays in registers", half{}, bfloat16{})
      .needs(kNeedsMma)
      .head_dims(HeadDims<64, 128>{})
      .over_keys(PlainForwardTile<64>{}, 1)
      .shared_bytes([](auto d) { return plain_forward_bytes<d, half>(); })
      .launch([](auto& a, auto, auto& stream) {
        launch_tensor_cores(a, stream);
      });
}

}  // namespace fa::FA_TARGET
