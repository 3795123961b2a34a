/// @file
/// Rows whose columns are spread over the lanes of a warp, for the kernels that run on any GPU.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Warps of a block, which process a query or a key each.
constexpr int kAnyGpuWarps = 4;
/// The largest head dimension.
constexpr int kAnyGpuColumns = 256;

/// A lane's part of a row: columns lane, lane + 32 and so on; 0 beyond head_dim.
using LaneColumns = float[kAnyGpuColumns / kWarp];

/// Reads a row.
template <class T>
__device__ void load_columns(LaneColumns& to, const T* row, int head_dim) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int c = 0; c < kAnyGpuColumns / kWarp; ++c) {
    const int col = lane + kWarp * c;
    to[c] = col < head_dim ? to_float(row[col]) : 0.0f;
  }
}
/// Writes factor * from to a row.
template <class T>
__device__ void store_columns(T* row, const LaneColumns& from, float factor, int head_dim) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int c = 0; c < kAnyGpuColumns / kWarp; ++c) {
    const int col = lane + kWarp * c;
    if (col < head_dim) row[col] = from_float<T>(factor * from[c]);
  }
}
/// sums += p * row
__device__ inline void add_columns(LaneColumns& sums, float p, const LaneColumns& row) {
#pragma unroll
  for (int c = 0; c < kAnyGpuColumns / kWarp; ++c) sums[c] += p * row[c];
}
/// The dot product of two rows, in each lane. All lanes of the warp call it.
__device__ inline float dot_columns(const LaneColumns& a, const LaneColumns& b) {
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kAnyGpuColumns / kWarp; ++c) sum += a[c] * b[c];
  return warp_sum(sum);
}

}  // namespace fa::FA_TARGET
