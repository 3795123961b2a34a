/// @file
/// Which elements of a matrix a lane holds in the accumulators of mma.sync and of wgmma.
///
/// Source: NVIDIA, PTX ISA, the figures of mma.m16n8k16 and of wgmma's accumulators.
#pragma once

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// The row, 0 to 15, of element i of a lane in an accumulator of mma.sync, 16 x 8. A lane has four
/// elements: two neighbours in a row, 0 and 1, and two in the row 8 below, 2 and 3.
__device__ inline int fragment_row(int lane, int i) {
  return lane / 4 + i / 2 * 8;
}
/// The column, 0 to 7, of this element.
__device__ inline int fragment_column(int lane, int i) {
  return lane % 4 * 2 + i % 2;
}

/// The row, 0 to 63, in an accumulator of wgmma, of this lane's row h, 0 or 1. A warpgroup has 64
/// rows, each of its four warps 16: a row of fragments as above, side by side.
__device__ inline int lane_row(int h) {
  return threadIdx.x / kWarp % 4 * 16 + threadIdx.x % kWarp / 4 + 8 * h;
}
/// The column there of this lane's first element of a row.
__device__ inline int lane_column() {
  return threadIdx.x % 4 * 2;
}
/// The distance from this column to that of the lane's element i of the row: it has two neighbours
/// of each 8 columns.
__host__ __device__ constexpr int element_column(int i) {
  return i / 2 * 8 + i % 2;
}
/// Element i of this lane's row h in an accumulator of wgmma with 2 r columns.
template <int r>
__device__ float& row_element(float (&d)[r], int h, int i) {
  return d[i / 2 * 4 + 2 * h + i % 2];
}
/// The same of an accumulator that is only read.
template <int r>
__device__ float row_element(const float (&d)[r], int h, int i) {
  return d[i / 2 * 4 + 2 * h + i % 2];
}
/// Which row h of the lane d[i] of such an accumulator is in.
__host__ __device__ constexpr int element_row(int i) {
  return i / 2 % 2;
}

}  // namespace fa::FA_TARGET
