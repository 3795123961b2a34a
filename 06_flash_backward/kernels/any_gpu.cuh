/// @file
/// Gradients for GPUs that the other kernels do not fit, as lesson 05's any_gpu.cuh. A warp owns a
/// key and loops over the queries, or owns a query and loops over the keys: every run gives the
/// same bits.
#pragma once

#include <type_traits>

#include "06_flash_backward/kernels/float_gradient.cuh"
#include "06_flash_backward/kernels/preprocess.cuh"
#include "common/attention/lane_columns.cuh"

namespace fa::FA_TARGET {

/// P after dropout and dS = P * (dP - delta), elementwise of a query and a key.
struct ScoreGradient {
  float p;
  float d_s;
};
/// Computes them from rows of Q, K, V and dO; the query sees the key. All lanes call it.
template <class T>
__device__ ScoreGradient
score_gradient(const AttentionGradient<T>& a, const GradientHead<T>& head,
               int query, int key, const LaneColumns& q, const LaneColumns& k,
               const LaneColumns& v, const LaneColumns& d_o) {
  const std::int64_t padded = head.padded_row + query;
  const float s = dot_columns(q, k), delta = a.delta[padded];
  const float kept = a.dropout.of_weight(head.index, query, key);
  const float d_p = dot_columns(d_o, v) * kept;
  if constexpr (std::is_same_v<T, float>) {
    const float p =
        recomputed_prob(s, a.scale, head.lse[query], visible_keys(a, query)) *
        a.inv_row_sum[padded];
    return {p * kept, float_score_gradient(p, d_p, delta)};
  } else {
    const float p =
        exp2_approx(s * (a.scale * kLog2E) - a.lse_base_2[padded]);
    return {p * kept, p * (d_p - delta)};
  }
}

/// inv_row_sum = 1 / rowsum(P), as recomputed_row_sums() computes it.
template <class T>
__global__ void __launch_bounds__(kAnyGpuWarps* kWarp)
    any_gpu_row_sums(AttentionGradient<T> a) {
  const int query = blockIdx.x * kAnyGpuWarps + threadIdx.x / kWarp;
  if (query >= a.length_q) return;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const auto kv = head_of(a, blockIdx.z, blockIdx.y);
  const int visible = visible_keys(a, query);
  LaneColumns q, k;
  load_columns(q, head.q + query * a.q_strides.row, a.head_dim);
  float sum = 0;
  for (int key = 0; key < visible; ++key) {
    load_columns(k, kv.k + key * a.k_strides.row, a.head_dim);
    sum +=
        recomputed_prob(dot_columns(q, k), a.scale, head.lse[query], visible);
  }
  if (threadIdx.x % kWarp == 0) {
    a.inv_row_sum[head.padded_row + query] = sum == 0 ? 0 : 1 / sum;
  }
}

/// dK and dV. A warp owns a key.
template <class T>
__global__ void __launch_bounds__(kAnyGpuWarps* kWarp)
    any_gpu_keys(AttentionGradient<T> a) {
  const int key = blockIdx.x * kAnyGpuWarps + threadIdx.x / kWarp;
  if (key >= a.length_k) return;
  const int kv_head = blockIdx.y, batch = blockIdx.z;
  const int group = group_size(a);
  LaneColumns q, k, v, d_o, d_k = {}, d_v = {};
  load_columns(
      k, kv_rows(a.k, a.k_strides, batch, kv_head) + key * a.k_strides.row,
      a.head_dim);
  load_columns(
      v, kv_rows(a.v, a.v_strides, batch, kv_head) + key * a.v_strides.row,
      a.head_dim_v);
  for (int member = 0; member < group; ++member) {
    const auto head = gradient_head(a, batch, kv_head * group + member);
    for (int query = first_query(a, key); query < a.length_q; ++query) {
      load_columns(q, head.q + query * a.q_strides.row, a.head_dim);
      load_columns(d_o, head.d_o + query * a.d_o_strides.row, a.head_dim_v);
      const auto [p, d_s] = score_gradient(a, head, query, key, q, k, v, d_o);
      add_columns(d_v, p, d_o);
      add_columns(d_k, d_s, q);
    }
  }
  store_columns(
      kv_rows(a.d_k, a.d_k_strides, batch, kv_head) + key * a.d_k_strides.row,
      d_k, a.scale, a.head_dim);
  store_columns(
      kv_rows(a.d_v, a.d_v_strides, batch, kv_head) + key * a.d_v_strides.row,
      d_v, 1.0f, a.head_dim_v);
}

/// dQ. A warp owns a query.
template <class T>
__global__ void __launch_bounds__(kAnyGpuWarps* kWarp)
    any_gpu_queries(AttentionGradient<T> a) {
  const int query = blockIdx.x * kAnyGpuWarps + threadIdx.x / kWarp;
  if (query >= a.length_q) return;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  const auto kv = head_of(a, blockIdx.z, blockIdx.y);
  const int visible = visible_keys(a, query);
  LaneColumns q, k, v, d_o, d_q = {};
  load_columns(q, head.q + query * a.q_strides.row, a.head_dim);
  load_columns(d_o, head.d_o + query * a.d_o_strides.row, a.head_dim_v);
  for (int key = 0; key < visible; ++key) {
    load_columns(k, kv.k + key * a.k_strides.row, a.head_dim);
    load_columns(v, kv.v + key * a.v_strides.row, a.head_dim_v);
    add_columns(d_q, score_gradient(a, head, query, key, q, k, v, d_o).d_s,
                k);
  }
  store_columns(head.d_q + query * a.d_q_strides.row, d_q, a.scale,
                a.head_dim);
}

/// Launches these kernels.
/// @param given with a Workspace{0}; an accumulator of dQ is left alone
template <class T>
void launch_backward_any_gpu(const AttentionGradient<T>& given,
                             const Stream& stream) {
  constexpr int d = kAnyGpuColumns;
  AttentionGradient<T> a = given;
  a.d_q_accum = nullptr;
  const Launch of_keys{grid_of_keys(a, kAnyGpuWarps), {kAnyGpuWarps * kWarp}};
  const Launch of_queries{grid_of(a, kAnyGpuWarps), {kAnyGpuWarps * kWarp}};
  if constexpr (std::is_same_v<T, float>) {
    launch(stream, preprocess<d>, preprocess_launch<d>(a), a);
    launch(stream, any_gpu_row_sums<T>, of_queries, a);
  } else {
    launch(stream, preprocess_16_bit<d, T>, preprocess_launch<d>(a), a);
  }
  launch(stream, any_gpu_keys<T>, of_keys, a);
  launch(stream, any_gpu_queries<T>, of_queries, a);
}

FA_LAUNCH_FLOAT(backward_float, AttentionGradient, (const Stream&),
                launch_backward_any_gpu);
FA_LAUNCH_16_BIT(backward_mma, AttentionGradient, (const Stream&),
                 launch_backward_any_gpu);

}  // namespace fa::FA_TARGET
