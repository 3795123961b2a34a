/// @file
/// Fragments by ldmatrix, four matrices of 8 x 8 at once, from tiles that are swizzled: the 16-byte pieces of a row
/// change places by exclusive or with the row's number, so that eight rows of a column lie in different banks. V is
/// turned on its way by ldmatrix_x4_transposed().
#pragma once

#include "05_flash_forward/kernels/05_tensor_cores.cuh"

namespace fa::FA_TARGET {

/// Where element (row, col) of a tile with d columns of 16 bits lies; col is a multiple of 8.
//! [swizzled]
template <int d>
__device__ int swizzled(int row, int col) {
  // Rows of 64 bytes lie two in each line of 128: every other row moves.
  const int phase = d == 32 ? row >> 1 & 3 : row & 7;
  return row * d + (col ^ phase * 8);
}
//! [swizzled]

/// For a product during which there is nothing else to do.
struct NoWork {
  /// Does nothing.
  __device__ void operator()(int /*part*/) const {}
};

/// S += Q K^T for a warp. K's tile is swizzled, and so is Q's.
/// @tparam d       columns of both tiles
/// @param s        sums
/// @param q_smem   Q's tile
/// @param k_smem   K's tile, as many rows as s has columns
/// @param warp_row the warp's first row in Q's tile
/// @param lane     in the warp
/// @param meanwhile other work, a part for each 16 columns: meanwhile(part)
//! [multiply_q_k]
template <int d, class T, int row_tiles, int key_tiles,
          class Meanwhile = NoWork>
__device__ void multiply_q_k(float (&s)[row_tiles][key_tiles][4],
                             const T* q_smem, const T* k_smem, int warp_row,
                             int lane, Meanwhile meanwhile = {}) {
  // Where this lane reads for the first matrices. Exclusive or with a
  // multiple of 16 goes to other columns, adding a multiple of 16 rows to
  // other rows: neither needs the swizzle anew.
  const int of_q = swizzled<d>(warp_row + lane % 16, lane / 16 * 8);
  const int of_k = swizzled<d>(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
#pragma unroll
  for (int l = 0; l < d; l += 16) {
    std::uint32_t q_frag[row_tiles][4];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
      ldmatrix_x4(q_frag[i], q_smem + (of_q ^ l) + 16 * i * d);
    }
#pragma unroll
    for (int j = 0; j < key_tiles / 2; ++j) {
      std::uint32_t k_frag[4];  // of 16 keys
      ldmatrix_x4(k_frag, k_smem + (of_k ^ l) + 16 * j * d);
      const std::uint32_t low[2] = {k_frag[0], k_frag[1]};
      const std::uint32_t high[2] = {k_frag[2], k_frag[3]};
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        mma_m16n8k16<T>(s[i][2 * j], q_frag[i], low);
        mma_m16n8k16<T>(s[i][2 * j + 1], q_frag[i], high);
      }
    }
    meanwhile(l / 16);
  }
}
//! [multiply_q_k]

/// O += P V for a warp. V's tile is swizzled.
/// @tparam d      columns of V's tile
/// @param o       sums
/// @param p       weights as probs_as_operand() takes them
/// @param v_smem  V's tile, as many rows as p has columns
/// @param lane    in the warp
/// @param column0 the first column of V that o has; a multiple of o's columns
/// @param meanwhile other work, a part for each 16 keys: meanwhile(part)
template <int d, class T, int row_tiles, int column_tiles, class Weights,
          int key_tiles, int parts, class Meanwhile = NoWork>
__device__ void multiply_p_v(float (&o)[row_tiles][column_tiles][4],
                             const Weights (&p)[row_tiles][key_tiles][parts],
                             const T* v_smem, int lane, int column0 = 0,
                             Meanwhile meanwhile = {}) {
  const int of_v = swizzled<d>(lane % 16, lane / 16 * 8) ^ column0;
#pragma unroll
  for (int key = 0; key < 8 * key_tiles; key += 16) {
    std::uint32_t p_frag[row_tiles][4];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
      probs_as_operand<T>(p_frag[i], p[i], key);
    }
#pragma unroll
    for (int j = 0; j < column_tiles / 2; ++j) {
      std::uint32_t v_frag[4];  // of 16 columns
      ldmatrix_x4_transposed(v_frag, v_smem + (of_v ^ 16 * j) + key * d);
      const std::uint32_t low[2] = {v_frag[0], v_frag[1]};
      const std::uint32_t high[2] = {v_frag[2], v_frag[3]};
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        mma_m16n8k16<T>(o[i][2 * j], p_frag[i], low);
        mma_m16n8k16<T>(o[i][2 * j + 1], p_frag[i], high);
      }
    }
    meanwhile(key / 16);
  }
}

/// Attention in 16 bits; tiles are swizzled.
/// Launch: as flash_tensor_cores().
//! [swizzle]
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
  RowState<Tile> state;
  begin_rows(state);
  const int seen = visible_keys(a, query0 + Tile::block_m - 1);
  for (int key0 = 0; key0 < seen; key0 += Tile::block_n) {
    for_row_pieces<Tile::block_n, d, Tile::threads>(
        head.k, a.k_strides.row, key0, a.length_k, a.head_dim, thread,
        copy_to(k_smem));
    for_row_pieces<Tile::block_n, d, Tile::threads>(
        head.v, a.v_strides.row, key0, a.length_k, a.head_dim, thread,
        copy_to(v_smem));
    __syncthreads();  // the tiles are there
    Accumulators<Tile, Tile::block_n> s = {};
    multiply_q_k<d>(s, q_smem, k_smem, warp_row, lane);
    scale_and_mask<Tile>(s, a, query0 + warp_row, key0, lane);
    softmax_step<Tile>(s, o, state);
    apply_dropout<Tile>(s, a, head.index, query0 + warp_row, key0, lane);
    multiply_p_v<d>(o, s, v_smem, lane);
    __syncthreads();  // nobody needs the tiles any more
  }
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}
//! [swizzle]

}  // namespace fa::FA_TARGET
