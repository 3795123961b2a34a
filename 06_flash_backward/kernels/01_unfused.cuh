/// @file
/// The baseline: a kernel for each formula. P and dS, length_q x length_k of each head, go through global memory.
#pragma once

#include "06_flash_backward/kernels/gradient.cuh"

namespace fa::FA_TARGET {

/// Side of the tiles of the products.
constexpr int kUnfusedGradientTile = 32;

/// A matrix in global memory; turning it exchanges the numbers.
struct Elements {
  const float* first;   ///< element (0, 0)
  std::int64_t row;     ///< from a row to the next
  std::int64_t column;  ///< from a column to the next
  int rows;             ///< how many
  int columns;          ///< how many

  /// An element, 0 outside.
  __device__ float at(int i, int j) const {
    return i < rows && j < columns ? first[i * row + j * column] : 0.0f;
  }
  /// The same elements with rows for columns.
  __device__ Elements transposed() const {
    return {first, column, row, columns, rows};
  }
};

/// Element (row, col) of A B for each thread of a block of 32 x 32, row from blockIdx.y and col from blockIdx.x. The
/// whole block takes part.
//! [product]
__device__ inline float product_element(const Elements& a,
                                        const Elements& b) {
  constexpr int tile = kUnfusedGradientTile;
  // A column more: B may be read and written along columns.
  __shared__ float a_smem[tile][tile + 1], b_smem[tile][tile + 1];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * tile + y, col = blockIdx.x * tile + x;
  float sum = 0;
  for (int l0 = 0; l0 < a.columns; l0 += tile) {
    a_smem[y][x] = a.at(row, l0 + x);
    b_smem[y][x] = b.at(l0 + y, col);
    __syncthreads();  // the tiles are there
    for (int e = 0; e < tile; ++e) sum += a_smem[y][e] * b_smem[e][x];
    __syncthreads();  // nobody needs them any more
  }
  return sum;
}
//! [product]

/// Rows of a head as a matrix, [length, head_dim].
__device__ inline Elements rows_of(const float* first,
                                   const RowStrides& strides, int length,
                                   int head_dim) {
  return {first, strides.row, 1, length, head_dim};
}

/// A head's weights or their gradients, [length_q, length_k].
template <class T>
__device__ Elements scores_of(const Attention<T>& a, const float* scores,
                              int index) {
  return {scores + std::int64_t{index} * a.length_q * a.length_k, a.length_k,
          1, a.length_q, a.length_k};
}

/// Where this thread's element of a head's scores is, or null outside of them. See product_element().
template <class T>
__device__ float* own_score(const Attention<T>& a, float* scores) {
  const int query = blockIdx.y * kUnfusedGradientTile + threadIdx.y;
  const int key = blockIdx.x * kUnfusedGradientTile + threadIdx.x;
  if (query >= a.length_q || key >= a.length_k) return nullptr;
  return scores +
         (std::int64_t{blockIdx.z} * a.length_q + query) * a.length_k + key;
}

/// S = scale Q K^T. Launch: blocks of 32 x 32; grid of ceil(length_k / 32) x ceil(length_q / 32) x heads of all
/// sequences.
/// @param a      what is computed
/// @param scores [batch, heads, length_q, length_k]
//! [scores]
__global__ void unfused_backward_scores(AttentionGradient<float> a,
                                        float* scores) {
  const int index = blockIdx.z;
  const auto h = head_of(a, index / a.heads, index % a.heads);
  const float product = product_element(
      rows_of(h.q, a.q_strides, a.length_q, a.head_dim),
      rows_of(h.k, a.k_strides, a.length_k, a.head_dim).transposed());
  float* const score = own_score(a, scores);
  if (score != nullptr) *score = a.scale * product;
}
//! [scores]

/// dP = dO V^T, with 0 for dropped weights. Launch: as unfused_backward_scores().
/// @param a                what is computed
/// @param weight_gradients [batch, heads, length_q, length_k]
__global__ void unfused_prob_gradients(AttentionGradient<float> a,
                                       float* weight_gradients) {
  const int index = blockIdx.z;
  const auto h = gradient_head(a, index / a.heads, index % a.heads);
  const auto kv = head_of(a, index / a.heads, index % a.heads);
  const float product = product_element(
      rows_of(h.d_o, a.d_o_strides, a.length_q, a.head_dim),
      rows_of(kv.v, a.v_strides, a.length_k, a.head_dim).transposed());
  float* const gradient = own_score(a, weight_gradients);
  if (gradient == nullptr) return;
  *gradient =
      product * a.dropout.of_weight(
                    index, blockIdx.y * kUnfusedGradientTile + threadIdx.y,
                    blockIdx.x * kUnfusedGradientTile + threadIdx.x);
}

/// P = softmax(S) and dS = P o (dP - rowsum(P o dP)), both in place; the weights are those that O was made of. Launch:
/// blocks of 32 x 4, a warp for each row; grid of ceil(length_q / 4) x 1 x heads of all sequences.
/// @param a         what is computed
/// @param weights   [batch, heads, length_q, length_k], scores before
/// @param gradients of the weights before, of the scores after
//! [rows]
__global__ void unfused_score_gradients(AttentionGradient<float> a,
                                        float* probs, float* gradients) {
  const int query = blockIdx.x * blockDim.y + threadIdx.y, index = blockIdx.z;
  if (query >= a.length_q) return;  // the whole warp
  const std::int64_t row =
      (std::int64_t{index} * a.length_q + query) * a.length_k;
  float* const p = probs + row;
  float* const d_s = gradients + row;
  const int seen = visible_keys(a, query);
  float m = -INFINITY, l = 0, sum = 0;
  for (int j = threadIdx.x; j < seen; j += kWarp) m = fmaxf(m, p[j]);
  m = warp_max(m);
  for (int j = threadIdx.x; j < seen; j += kWarp) l += expf(p[j] - m);
  l = warp_sum(l);
  for (int j = threadIdx.x; j < seen; j += kWarp) {
    sum += expf(p[j] - m) / l * d_s[j];
  }
  sum = warp_sum(sum);
  for (int j = threadIdx.x; j < a.length_k; j += kWarp) {
    const float weight = j < seen ? expf(p[j] - m) / l : 0.0f;
    d_s[j] = weight * (d_s[j] - sum);
    p[j] = weight * a.dropout.of_weight(index, query, j);
  }
}
//! [rows]

/// dQ = scale dS K. Launch: blocks of 32 x 32; grid of ceil(head_dim / 32) x ceil(length_q / 32) x heads of all
/// sequences.
__global__ void unfused_d_q(AttentionGradient<float> a,
                            const float* score_gradients) {
  const int index = blockIdx.z;
  const auto h = gradient_head(a, index / a.heads, index % a.heads);
  const auto kv = head_of(a, index / a.heads, index % a.heads);
  const float product =
      product_element(scores_of(a, score_gradients, index),
                      rows_of(kv.k, a.k_strides, a.length_k, a.head_dim));
  const int query = blockIdx.y * kUnfusedGradientTile + threadIdx.y;
  const int col = blockIdx.x * kUnfusedGradientTile + threadIdx.x;
  if (query < a.length_q && col < a.head_dim) {
    h.d_q[query * a.d_q_strides.row + col] = a.scale * product;
  }
}

/// dV = P^T dO and dK = scale dS^T Q, summed over the heads that share them. Launch: blocks of 32 x 32; grid of
/// ceil(head_dim / 32) x ceil(length_k / 32) x kv_heads of all sequences.
//! [d_k_d_v]
__global__ void unfused_d_k_d_v(AttentionGradient<float> a,
                                const float* probs,
                                const float* score_gradients) {
  const int batch = blockIdx.z / a.kv_heads,
            kv_head = blockIdx.z % a.kv_heads;
  const int group = a.heads / a.kv_heads;
  float d_k = 0, d_v = 0;
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const auto h = gradient_head(a, batch, head);
    d_v += product_element(
        scores_of(a, probs, h.index).transposed(),
        rows_of(h.d_o, a.d_o_strides, a.length_q, a.head_dim));
    d_k +=
        product_element(scores_of(a, score_gradients, h.index).transposed(),
                        rows_of(h.q, a.q_strides, a.length_q, a.head_dim));
  }
  const int key = blockIdx.y * kUnfusedGradientTile + threadIdx.y;
  const int col = blockIdx.x * kUnfusedGradientTile + threadIdx.x;
  if (key >= a.length_k || col >= a.head_dim) return;
  kv_rows(a.d_k, a.d_k_strides, batch,
          kv_head)[key * a.d_k_strides.row + col] = a.scale * d_k;
  kv_rows(a.d_v, a.d_v_strides, batch,
          kv_head)[key * a.d_v_strides.row + col] = d_v;
}
//! [d_k_d_v]

}  // namespace fa::FA_TARGET
