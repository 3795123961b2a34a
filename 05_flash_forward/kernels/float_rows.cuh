/// @file
/// Rows of float32 in registers and in shared memory, for steps 02 and 03.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Copies rows of K or V to a tile in shared memory, 0 beyond `length` rows and head_dim columns.
template <int rows, int d>
__device__ void load_rows(float (&tile)[rows][d], const float* from,
                          std::int64_t stride, int row0, int length,
                          int head_dim, int thread, int threads) {
  for (int e = thread; e < rows * d / 4; e += threads) {
    const int row = e / (d / 4), col = e % (d / 4) * 4;
    const bool inside = row0 + row < length && col < head_dim;
    store4(&tile[row][col], inside ? load4(from + (row0 + row) * stride + col)
                                   : make_float4(0, 0, 0, 0));
  }
}

/// Copies a row from global memory to registers, 0 beyond head_dim.
template <int d>
__device__ void load_row(float (&row)[d], const float* from, int head_dim) {
#pragma unroll
  for (int e = 0; e < d; e += 4) {
    const float4 four =
        e < head_dim ? load4(from + e) : make_float4(0, 0, 0, 0);
    row[e] = four.x;
    row[e + 1] = four.y;
    row[e + 2] = four.z;
    row[e + 3] = four.w;
  }
}

/// Copies a row from registers to global memory.
template <int d>
__device__ void store_row(float* to, const float (&row)[d], int head_dim) {
#pragma unroll
  for (int e = 0; e < d; e += 4) {
    if (e < head_dim) {
      store4(to + e, make_float4(row[e], row[e + 1], row[e + 2], row[e + 3]));
    }
  }
}

/// The dot product of two rows.
template <int d>
__device__ float dot(const float (&a)[d], const float (&b)[d]) {
  float sum = 0;
#pragma unroll
  for (int e = 0; e < d; e += 4) {
    const float4 four = load4(&b[e]);
    sum += a[e] * four.x + a[e + 1] * four.y + a[e + 2] * four.z +
           a[e + 3] * four.w;
  }
  return sum;
}

}  // namespace fa::FA_TARGET
