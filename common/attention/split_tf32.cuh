/// @file
/// float32 matmuls on tensor cores, shared by the split-TF32 kernels of lessons 05 and 06.
///
/// A TF32 number has 11 significant bits, a float32 has 24. Split each operand into two TF32
/// numbers, x = high + low: high is x rounded to nearest, low is the rest, x - high, which float32
/// has exactly. Then
///
///     a b = high(a) high(b) + high(a) low(b) + low(a) high(b) + low(a) low(b)
///
/// Three of the four products are computed ("3xTF32"). What is lost, relative to |a b|:
///   - low(a) low(b) is left out. |low| <= 2^-11 |x|, so it is at most 2^-22; its sign is random,
///     because high was rounded and not cut off.
///   - low has up to 12 bits and is rounded to 11: at most 2^-23 from each of the two operands, and
///     0 for half of all numbers.
/// Both are random and, as a mean square, about as large as the rounding of a float32 product,
/// 2^-24.
///   - The products are exact, but the tensor cores cut their sums off instead of rounding them.
///     That error has the sign of the sum and is up to 2^-23 of it each time, so a sum that stays in
///     the accumulators for a whole row of K drifts toward 0. Therefore a sum lives in the
///     accumulators for 16 terms only and is then added to float32 registers by an ordinary
///     addition, which rounds. Within the 16 terms the small products come first: then the sum is
///     small and so is what is cut off, and only the two instructions with the large products cost
///     anything.
///
/// Source: Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores while
/// surpassing the FP32 theoretical peak performance, IJHPCA 2022, for the split and for the
/// additions outside of the tensor cores; NVIDIA, CUTLASS, example 27, for the name.
#pragma once

#include "common/attention/mma_tile.cuh"

namespace fa::FA_TARGET {

/// A fragment of float32 numbers as two of TF32 numbers, whose sum it is.
template <int count>
struct SplitFragment {
  std::uint32_t high[count];
  std::uint32_t low[count];
};

/// Splits an element; x are the bits of a float32.
// clang-format off
//! [split]
template <int count>
__device__ void split(SplitFragment<count>& to, int element,
                      std::uint32_t x) {
  const std::uint32_t high = tf32_nearest(x);
  to.high[element] = high;
  to.low[element] = tf32_nearest(
      __float_as_uint(__uint_as_float(x) - __uint_as_float(high)));
}
//! [split]
// clang-format on

/// d += A B for 16 columns of A: two fragments of A and of B, as mma_m16n8k8() takes them.
// clang-format off
//! [mma_split]
__device__ inline void mma_split(float (&d)[4],
                                 const SplitFragment<4> (&a)[2],
                                 const SplitFragment<2> (&b)[2]) {
  float sum[4] = {};
#pragma unroll
  for (int step = 0; step < 2; ++step) {  // small products first
    mma_m16n8k8(sum, a[step].high, b[step].low);
    mma_m16n8k8(sum, a[step].low, b[step].high);
  }
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    mma_m16n8k8(sum, a[step].high, b[step].high);
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) d[e] += sum[e];
}
//! [mma_split]
// clang-format on

/// The XOR swizzle for d columns of 32 bits, a multiple of 32: as swizzled(), with col a multiple
/// of 4. Eight neighbouring rows at the same columns lie in different banks, and so do four rows of
/// equal parity at two neighbouring pieces.
template <int d>
__device__ int swizzled_float(int row, int col) {
  static_assert(d % 32 == 0, "whole rows of banks");
  return row * d + (col ^ (row & 7) * 4);
}

/// Issues copies of rows of a matrix to a swizzled tile, as copy_rows_async().
template <int rows, int d, int threads>
__device__ void copy_float_rows_async(float* tile, const float* matrix, std::int64_t stride,
                                      int row0, int length, int head_dim, int thread) {
  for_row_pieces<rows, d, threads>(matrix, stride, row0, length, head_dim, thread,
                                   [=](int row, int col, const float* from, bool inside) {
                                     cp_async16(tile + swizzled_float<d>(row, col), from, inside);
                                   });
}

/// 16 columns of 16 rows of a swizzled tile as left operands. ldmatrix moves pairs of 16 bits,
/// which together are a float32: to it, 4 columns are the 8 of a matrix.
/// @param of_row the tile's swizzled_float() of row lane % 16 and column lane / 16 * 4, with both
///               the first row and the first column of the operand
template <int d>
__device__ void load_split_rows(SplitFragment<4> (&fragment)[2], const float* tile, int of_row) {
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    std::uint32_t x[4];
    ldmatrix_x4(x, tile + (of_row ^ 8 * step));
#pragma unroll
    for (int e = 0; e < 4; ++e) split(fragment[step], e, x[e]);
  }
}

/// S += Q K^T for a warp, from swizzled tiles of d columns.
/// @param s      [i][j] is of rows 16 i and columns 8 j, as in Accumulators
/// @param q_smem the warp's rows of Q begin here; a multiple of 8 rows from the tile's beginning
/// @param k_smem as many rows as s has columns
template <int d, int row_tiles, int key_tiles>
__device__ void multiply_split_rows(float (&s)[row_tiles][key_tiles][4], const float* q_smem,
                                    const float* k_smem, int lane) {
  const int of_q = swizzled_float<d>(lane % 16, lane / 16 * 4);
  const int of_k = swizzled_float<d>(lane % 8, lane / 8 * 4);
#pragma unroll 1
  for (int kk = 0; kk < d; kk += 16) {
    SplitFragment<4> q_frag[row_tiles][2];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
      load_split_rows<d>(q_frag[i], q_smem + 16 * i * d, of_q ^ kk);
    }
#pragma unroll
    for (int j = 0; j < key_tiles; ++j) {
      std::uint32_t x[4];  // 16 columns of 8 keys
      ldmatrix_x4(x, k_smem + (of_k ^ kk) + 8 * j * d);
      SplitFragment<2> k_frag[2];
#pragma unroll
      for (int e = 0; e < 4; ++e) split(k_frag[e / 2], e % 2, x[e]);
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        mma_split(s[i][j], q_frag[i], k_frag);
      }
    }
  }
}

/// 16 keys of P, accumulators of Q K^T, as left operands. A lane has two neighbouring keys, and an
/// operand wants keys t and t + 4: the sum over the keys may take them in any order, so key 2 t is
/// given as t, and 2 t + 1 as t + 4. multiply_split_columns() reads V's rows in the same order.
/// @tparam positive whether negative ones count as 0
// clang-format off
//! [probs_as_split]
template <bool positive = false, int count>
__device__ void probs_as_split(SplitFragment<4> (&fragment)[2],
                               const float (&p)[count][4], int key) {
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    const float(&of_8)[4] = p[key / 8 + step];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float x = of_8[e / 2 + e % 2 * 2];
      split(fragment[step], e,
            __float_as_uint(positive ? fmaxf(x, 0.0f) : x));
    }
  }
}
//! [probs_as_split]
// clang-format on

/// O += P V for a warp. V's swizzled tile has d columns. There is no ldmatrix that transposes 32
/// bits; a lane reads four neighbouring columns of a row at once and gives them to four fragments.
/// So O's columns are permuted: see split_column().
/// @param o      [i][j] is of rows 16 i; the number of its columns is a multiple of 32
/// @tparam keys  rows of V, a multiple of 16
/// @param load_p load_p(fragments, i, key) gives keys `key` to `key` + 15 of P's rows 16 i, in the
///               order of probs_as_split()
/// @param column0 of V, a multiple of 32
template <int d, int keys, bool rolled = false, int row_tiles, int column_tiles, class LoadP>
__device__ void multiply_split_columns(float (&o)[row_tiles][column_tiles][4], LoadP load_p,
                                       const float* v_smem, int lane, int column0) {
  const int g = lane / 4, t = lane % 4;
  // Rows 2 t and 2 t + 1; the rows below by 8 have the same patterns.
  const int even = swizzled_float<d>(2 * t, column0 + 4 * g);
  const int odd = (even ^ 4) + d;
#pragma unroll rolled ? 1 : keys / 16
  for (int key = 0; key < keys; key += 16) {
    SplitFragment<4> p_frag[row_tiles][2];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) load_p(p_frag[i], i, key);
#pragma unroll
    for (int j = 0; j < column_tiles; j += 4) {
      float4 v[2][2];
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const float* const row = v_smem + (key + 8 * step) * d;
        v[step][0] = load4(row + even + 8 * j);
        v[step][1] = load4(row + odd + 8 * j);
      }
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        SplitFragment<2> v_frag[2];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float4& four = v[e / 2][e % 2];
          const float x = part == 0 ? four.x : part == 1 ? four.y : part == 2 ? four.z : four.w;
          split(v_frag[e / 2], e % 2, __float_as_uint(x));
        }
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
          mma_split(o[i][j + part], p_frag[i], v_frag);
        }
      }
    }
  }
}

/// Of each 32 columns of what multiply_split_columns() adds up, the first of four neighbours that a
/// lane holds; part is 0 or 1.
__device__ inline int split_column(int lane, int part) {
  return 8 * (lane % 4) + 4 * part;
}
/// These four columns of a row.
/// @param o     [j] of a row tile
/// @param group which 32 columns
/// @param h     0: row fragment_row(lane, 0), 1: the one 8 below
/// @param part  columns 32 group + split_column(lane, part) to the third after it
template <int column_tiles>
__device__ float4 four_columns(const float (&o)[column_tiles][4], int group, int h, int part) {
  const int j = 4 * group, e = 2 * h + part;
  return make_float4(o[j][e], o[j + 1][e], o[j + 2][e], o[j + 3][e]);
}

}  // namespace fa::FA_TARGET
