/// @file
/// Two kernels for the page of the lab, and the host code that runs and checks them: one for any
/// GPU, one for Hopper. The same file runs in the lab and on a GPU. Pages show it: 78 columns.
#pragma once

#include <algorithm>

#include "common/gpu/hopper.cuh"      // for column_sums; kernel.cuh has the rest
#include "common/gpu/tensor_map.cuh"  // the same for the host; includes launch.cuh

namespace fa::FA_TARGET {
// clang-format off
constexpr int kThreads = 128;  ///< of a block of block_sums

/// out[b] = the sum of the kThreads elements of x that belong to block b.
//! [block_sums]
__global__ void block_sums(const float* x, float* out, int n) {
  __shared__ float part[kThreads];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  part[threadIdx.x] = i < n ? x[i] : 0;
  for (unsigned count = kThreads / 2; count > 0; count /= 2) {
    __syncthreads();
    if (threadIdx.x < count) part[threadIdx.x] += part[threadIdx.x + count];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
//! [block_sums]

constexpr int kTile = 64;  ///< rows and columns

struct ColumnStorage {
  SwizzledTile<half, kTile, kTile> tile;
  Mbarrier full;
};

/// out[64 b + c] = the sum of column c of the 64 rows that belong to block b.
//! [column_sums]
__global__ void column_sums(const __grid_constant__ TensorMap map,
                            float* out) {
  auto& shared = *dynamic_shared<ColumnStorage>();
  if (threadIdx.x == 0) {
    shared.full.init(1);
    fence_barrier_init();
    shared.full.arrive_and_expect(shared.tile.bytes);
    load_tile(shared.tile, map, shared.full, kTile * blockIdx.x, 0);
  }
  __syncthreads();      // the barrier is initialised
  shared.full.wait(0);  // the tile has arrived
  const int col = threadIdx.x;
  float sum = 0;
  for (int row = 0; row < kTile; ++row) {
    sum += to_float(shared.tile.at(row, col / 8 * 8)[col % 8]);
  }
  out[kTile * blockIdx.x + col] = sum;
}
//! [column_sums]

/// Runs block_sums on ones and checks its results.
//! [host]
inline bool block_sums_are_right() {
  const int n = 1000, blocks = ceil_div(n, kThreads);
  Tensor<float, 1> x({n});
  for (int i = 0; i < n; ++i) x(i) = 1;
  const DeviceBuffer<float> device_x(x);
  DeviceBuffer<float> out(blocks);
  launch(block_sums, {{static_cast<unsigned>(blocks)}, {kThreads}},
         device_x.data(), out.data(), n);
  const auto sums = out.tensor<float, 1>({blocks});
  bool right = true;
  for (int b = 0; b < blocks; ++b) {
    const int end = std::min(n, (b + 1) * kThreads);
    right = right && sums(b) == static_cast<float>(end - b * kThreads);
  }
  return right;
}
//! [host]

/// The same for column_sums; each row is 0, 1, 2 ...
inline bool column_sums_are_right() {
  const int rows = 2 * kTile;
  Tensor<fa::half, 2> y({rows, kTile});
  for (int i = 0; i < rows * kTile; ++i) {
    y(i / kTile, i % kTile) = fa::half(static_cast<float>(i % kTile));
  }
  const DeviceBuffer<half> device_y(y);
  DeviceBuffer<float> out(rows);
  //! [tma_launch]
  // A tensor has batch, heads, rows and columns; a box of TMA kTile rows.
  const TensorMap map =
      tensor_map(device_y.data(), rows, kTile, kTile, kTile);
  launch(column_sums, {{rows / kTile}, {kTile}, sizeof(ColumnStorage)}, map,
         out.data());
  //! [tma_launch]
  const auto sums = out.tensor<float, 1>({rows});
  bool right = true;
  for (int i = 0; i < rows; ++i) {
    right = right && sums(i) == static_cast<float>(kTile * (i % kTile));
  }
  return right;
}

/// Runs the kernels that this device can run.
/// @return whether their results are right
inline bool run_example() {
  return block_sums_are_right() && (!has_hopper() || column_sums_are_right());
}

}  // namespace fa::FA_TARGET
