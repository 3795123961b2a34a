/// @file
/// Attention for GPUs that cannot run the other kernels: it needs no shared memory and no newer
/// instructions. A warp processes a query, a lane up to eight columns of it; all types are computed
/// in float32. It is slow.
#pragma once

#include "common/attention/lane_columns.cuh"

namespace fa::FA_TARGET {

/// Attention in all types.
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
    load_columns(v, head.v + key * a.v_strides.row, a.head_dim_v);
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
                a.head_dim_v);
  if (threadIdx.x % kWarp == 0) head.lse[query] = log_sum(m, l);
}

/// Launches flash_any_gpu().
template <class T>
void launch_any_gpu(const Attention<T>& a, const Stream& stream) {
  launch(stream, flash_any_gpu<T>,
         {grid_of(a, kAnyGpuWarps), {kAnyGpuWarps * kWarp}}, a);
}

FA_LAUNCH_FLOAT(forward_float, Attention, (const Stream&), launch_any_gpu);
FA_LAUNCH_16_BIT(forward, Attention, (const Stream&), launch_any_gpu);

}  // namespace fa::FA_TARGET
