/// @file
/// Tiles for mma.sync, shared by the sm_80 kernels of lessons 05 and 06: copies of rows to shared
/// memory, the XOR swizzle, the matmuls of a warp on swizzled tiles, and the mask.
#pragma once

#include "common/attention/attention.cuh"
#include "common/gpu/fragment.cuh"

namespace fa::FA_TARGET {

/// Tiles of K, and of V, in shared memory: one in use, one in flight.
constexpr int kPipelineStages = 2;

/// Calls copy(row, col, from, inside) for each 16 bytes of a tile whose first row is row `row0` of
/// a matrix. `inside` is false beyond `length` rows and beyond head_dim columns.
/// @tparam ragged whether rows may lie beyond `length`
template <int rows, int d, int threads, bool ragged = true, class T, class Copy>
__device__ void for_row_pieces(const T* matrix, std::int64_t stride, int row0, int length,
                               int head_dim, int thread, Copy copy) {
  constexpr int piece = 16 / sizeof(T);
  constexpr int per_row = d / piece, at_once = threads / per_row;
  static_assert(threads % per_row == 0 && rows % at_once == 0,
                "all threads copy the same number of pieces");
  const int row = thread / per_row, col = thread % per_row * piece;
  const T* from = matrix + (row0 + row) * stride + col;
#pragma unroll
  for (int i = 0; i < rows; i += at_once) {
    copy(row + i, col, from + i * stride, (!ragged || row0 + row + i < length) && col < head_dim);
  }
}

/// The left operand of P V for 16 keys: accumulators of Q K^T, rounded to T.
// clang-format off
template <class T, int count>
__device__ void probs_as_operand(std::uint32_t (&fragment)[4],
                                 const float (&p)[count][4], int key) {
  const float(&low)[4] = p[key / 8], (&high)[4] = p[key / 8 + 1];
  fragment[0] = pack2<T>(low[0], low[1]);
  fragment[1] = pack2<T>(low[2], low[3]);
  fragment[2] = pack2<T>(high[0], high[1]);
  fragment[3] = pack2<T>(high[2], high[3]);
}
// clang-format on
/// The same for probabilities that are rounded and packed already.
template <class T, int count>
__device__ void probs_as_operand(std::uint32_t (&fragment)[4], const std::uint32_t (&p)[count][2],
                                 int key) {
  fragment[0] = p[key / 8][0];
  fragment[1] = p[key / 8][1];
  fragment[2] = p[key / 8 + 1][0];
  fragment[3] = p[key / 8 + 1][1];
}

/// The XOR swizzle: the offset of element (row, col) in a tile with d columns of 16 bits; col is a
/// multiple of 8. The 16-byte pieces of a row are permuted by the row's index, so that the same
/// columns of eight rows lie in different banks.
//! [swizzled]
template <int d>
__device__ int swizzled(int row, int col) {
  // Two rows of 64 bytes share the 32 banks: they get the same pattern.
  const int pattern = d == 32 ? row >> 1 & 3 : row & 7;
  return row * d + (col ^ pattern * 8);
}
//! [swizzled]

/// S += Q K^T for a warp; both tiles are swizzled.
/// @param warp_row the warp's first row in Q's tile
/// @param k_smem   as many rows as s has columns
// clang-format off
//! [multiply_q_k]
template <int d, class T, int row_tiles, int key_tiles>
__device__ void multiply_q_k(float (&s)[row_tiles][key_tiles][4],
                             const T* q_smem, const T* k_smem, int warp_row,
                             int lane) {
  // The row and the 8 columns that this lane names in the first ldmatrix. XOR
  // with a multiple of 16 selects other columns, adding 16 rows selects other
  // rows: neither changes the swizzle.
  const int of_q = swizzled<d>(warp_row + lane % 16, lane / 16 * 8);
  const int of_k = swizzled<d>(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
#pragma unroll
  for (int kk = 0; kk < d; kk += 16) {
    std::uint32_t q_frag[row_tiles][4];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
      ldmatrix_x4(q_frag[i], q_smem + (of_q ^ kk) + 16 * i * d);
    }
#pragma unroll
    for (int j = 0; j < key_tiles / 2; ++j) {
      std::uint32_t k_frag[4];  // of 16 keys
      ldmatrix_x4(k_frag, k_smem + (of_k ^ kk) + 16 * j * d);
      const std::uint32_t low[2] = {k_frag[0], k_frag[1]};
      const std::uint32_t high[2] = {k_frag[2], k_frag[3]};
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        mma_m16n8k16<T>(s[i][2 * j], q_frag[i], low);
        mma_m16n8k16<T>(s[i][2 * j + 1], q_frag[i], high);
      }
    }
  }
}
//! [multiply_q_k]
// clang-format on

/// O += P V for a warp; V's tile is swizzled.
/// @param p       probabilities as probs_as_operand() takes them
/// @param v_smem  as many rows as p has columns
/// @param column0 the first column of V that o has; a multiple of o's columns
template <int d, class T, int row_tiles, int column_tiles, class Probs, int key_tiles, int parts>
__device__ void multiply_p_v(float (&o)[row_tiles][column_tiles][4],
                             const Probs (&p)[row_tiles][key_tiles][parts], const T* v_smem,
                             int lane, int column0 = 0) {
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
  }
}

/// Masks the scores of keys that a query does not see, those beyond length_k, which are zeros,
/// among them.
/// @param s      Q K^T: [i][j] is of queries 16 i and keys 8 j
template <class T, int row_tiles, int key_tiles>
__device__ void apply_mask(float (&s)[row_tiles][key_tiles][4], const Attention<T>& a, int query0,
                           int key0, int lane) {
  //! [apply_mask]
#pragma unroll
  for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = query0 + 16 * i + fragment_row(lane, 2 * h);
      const int visible = visible_keys(a, query) - key0;
#pragma unroll
      for (int j = 0; j < key_tiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (8 * j + fragment_column(lane, e) >= visible) {
            s[i][j][2 * h + e] = -INFINITY;
          }
        }
      }
    }
  }
  //! [apply_mask]
}

/// Issues copies of rows of a matrix to a swizzled tile, with zeros outside of the matrix. See
/// for_row_pieces().
template <int rows, int d, int threads, bool ragged = true, class T>
__device__ void copy_rows_async(T* tile, const T* matrix, std::int64_t stride, int row0, int length,
                                int head_dim, int thread) {
  for_row_pieces<rows, d, threads, ragged>(matrix, stride, row0, length, head_dim, thread,
                                           [=](int row, int col, const T* from, bool inside) {
                                             cp_async16(tile + swizzled<d>(row, col), from, inside);
                                           });
}

}  // namespace fa::FA_TARGET
