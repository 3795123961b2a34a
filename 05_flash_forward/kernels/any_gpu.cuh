/// @file
/// Attention for GPUs that the other kernels do not fit: of shared memory and of newer instructions it needs nothing. A
/// warp owns a query, a lane up to eight columns of it; all types are computed in float32. It is slow.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Warps of a block: a query or a key for each.
constexpr int kAnyGpuWarps = 4;
/// Columns that a warp has at most.
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
__device__ void store_columns(T* row, const LaneColumns& from, float factor,
                              int head_dim) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int c = 0; c < kAnyGpuColumns / kWarp; ++c) {
    const int col = lane + kWarp * c;
    if (col < head_dim) row[col] = from_float<T>(factor * from[c]);
  }
}
/// sums += weight * row
__device__ inline void add_columns(LaneColumns& sums, float weight,
                                   const LaneColumns& row) {
#pragma unroll
  for (int c = 0; c < kAnyGpuColumns / kWarp; ++c) sums[c] += weight * row[c];
}
/// The scalar product of two rows, given to each lane. All lanes take part.
__device__ inline float dot_columns(const LaneColumns& a,
                                    const LaneColumns& b) {
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kAnyGpuColumns / kWarp; ++c) sum += a[c] * b[c];
  return warp_sum(sum);
}

/// Attention in all types.
/// Launch: blocks of 128; grid of ceil(length_q / 4) x heads x batch.
template <class T>
__global__ void __launch_bounds__(kAnyGpuWarps* kWarp)
    flash_any_gpu(Attention<T> a) {
  const int query = blockIdx.x * kAnyGpuWarps + threadIdx.x / kWarp;
  if (query >= a.length_q) return;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  const int visible = visible_keys(a, query);
  LaneColumns q, k, v, o = {};
  load_columns(q, head.q + query * a.q_strides.row, a.head_dim);
  float m = -INFINITY, l = 0;
  for (int key = 0; key < visible; ++key) {
    load_columns(k, head.k + key * a.k_strides.row, a.head_dim);
    load_columns(v, head.v + key * a.v_strides.row, a.head_dim);
    const float score = a.scale * dot_columns(q, k);
    const float m_new = fmaxf(m, score);
    const float rescale = exp_diff(m, m_new);
    const float p = exp_diff(score, m_new);
    m = m_new;
    l = l * rescale + p;
    if (rescale != 1) {
#pragma unroll
      for (float& x : o) x *= rescale;
    }
    add_columns(o, p * a.dropout.of_weight(head.index, query, key), v);
  }
  store_columns(head.o + query * a.o_strides.row, o, l == 0 ? 0 : 1 / l,
                a.head_dim);
  if (threadIdx.x % kWarp == 0) head.lse[query] = log_sum(m, l);
}

}  // namespace fa::FA_TARGET
