/// @file
/// The baseline: three kernels, one for each formula. Scores and weights, length_q x length_k of each head, go
/// through global memory.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Side of the tiles of the products.
constexpr int kUnfusedTile = 32;

/// S = scale Q K^T. Launch: blocks of 32 x 32; grid of ceil(length_k / 32) x ceil(length_q / 32) x heads of all
/// sequences.
/// @param a      what is computed
/// @param scores [batch, heads, length_q, length_k]
//! [scores]
__global__ void unfused_scores(Attention<float> a, float* scores) {
  constexpr int tile = kUnfusedTile;
  __shared__ float q_smem[tile][tile], k_smem[tile][tile + 1];
  const int x = threadIdx.x, y = threadIdx.y, index = blockIdx.z;
  const auto h = head_of(a, index / a.heads, index % a.heads);
  const int query = blockIdx.y * tile + y, key0 = blockIdx.x * tile;
  float sum = 0;
  for (int l0 = 0; l0 < a.head_dim; l0 += tile) {
    const int l = l0 + x, key = key0 + y;
    const bool inside = l < a.head_dim;
    q_smem[y][x] = inside && query < a.length_q
                       ? h.q[query * a.q_strides.row + l]
                       : 0.0f;
    k_smem[y][x] =
        inside && key < a.length_k ? h.k[key * a.k_strides.row + l] : 0.0f;
    __syncthreads();  // the tiles are there
    for (int e = 0; e < tile; ++e) sum += q_smem[y][e] * k_smem[x][e];
    __syncthreads();  // nobody needs them any more
  }
  const int key = key0 + x;
  if (query < a.length_q && key < a.length_k) {
    scores[(std::int64_t{index} * a.length_q + query) * a.length_k + key] =
        a.scale * sum;
  }
}
//! [scores]

/// P = softmax(S), in place, and LSE. Launch: blocks of 32 x 4, a warp for each row; grid of ceil(length_q / 4) x 1
/// x heads of all sequences.
/// @param a       what is computed
/// @param weights scores before, weights after
//! [weights]
__global__ void unfused_probs(Attention<float> a, float* probs) {
  const int query = blockIdx.x * blockDim.y + threadIdx.y, index = blockIdx.z;
  if (query >= a.length_q) return;  // the whole warp
  float* row =
      probs + (std::int64_t{index} * a.length_q + query) * a.length_k;
  const int seen = visible_keys(a, query);
  float m = -INFINITY, l = 0;
  for (int j = threadIdx.x; j < seen; j += kWarp) m = fmaxf(m, row[j]);
  m = warp_max(m);
  for (int j = threadIdx.x; j < seen; j += kWarp) {
    l += exp_diff(row[j], m);
  }
  l = warp_sum(l);
  for (int j = threadIdx.x; j < a.length_k; j += kWarp) {
    row[j] = j < seen ? exp_diff(row[j], m) / l *
                            a.dropout.of_weight(index, query, j)
                      : 0.0f;
  }
  if (threadIdx.x == 0) {
    a.lse[std::int64_t{index} * a.length_q + query] = log_sum(m, l);
  }
}
//! [weights]

/// O = P V. Launch: blocks of 32 x 32; grid of ceil(head_dim / 32) x ceil(length_q / 32) x heads of all sequences.
/// @param a       what is computed
/// @param weights [batch, heads, length_q, length_k]
//! [output]
__global__ void unfused_output(Attention<float> a, const float* probs) {
  constexpr int tile = kUnfusedTile;
  __shared__ float p_smem[tile][tile], v_smem[tile][tile];
  const int x = threadIdx.x, y = threadIdx.y, index = blockIdx.z;
  const auto h = head_of(a, index / a.heads, index % a.heads);
  const int query = blockIdx.y * tile + y, col = blockIdx.x * tile + x;
  const float* row =
      probs + (std::int64_t{index} * a.length_q + query) * a.length_k;
  float sum = 0;
  for (int key0 = 0; key0 < a.length_k; key0 += tile) {
    const int key = key0 + y;
    p_smem[y][x] =
        query < a.length_q && key0 + x < a.length_k ? row[key0 + x] : 0.0f;
    v_smem[y][x] = key < a.length_k && col < a.head_dim
                       ? h.v[key * a.v_strides.row + col]
                       : 0.0f;
    __syncthreads();  // the tiles are there
    for (int e = 0; e < tile; ++e) sum += p_smem[y][e] * v_smem[e][x];
    __syncthreads();  // nobody needs them any more
  }
  if (query < a.length_q && col < a.head_dim) {
    h.o[query * a.o_strides.row + col] = sum;
  }
}
//! [output]

}  // namespace fa::FA_TARGET
