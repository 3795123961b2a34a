/// @file
/// What the backward pass needs of each row before it begins: delta, the row sum of dO o O, which is the row sum of
/// P o dP without P; and, for the kernels in 16 bits, LSE in base 2. With delta and LSE every element of P and of dS can
/// be computed by itself: the baseline's passes over whole rows vanish, and dP is never written. In float32 one sum of
/// each row remains: dividing by it takes the rounding error of LSE out of P.
///
/// Source: Dao, FlashAttention-2, ICLR 2024, algorithm 2.
#pragma once

#include "06_flash_backward/kernels/01_unfused.cuh"

namespace fa::FA_TARGET {

/// Threads of a block of preprocess().
constexpr int kPreprocessThreads = 256;

/// Reads 8 neighbours as floats; the address is a multiple of 16.
template <class T>
__device__ void load8(float (&to)[8], const T* from) {
  constexpr int at_once = 16 / sizeof(T);
#pragma unroll
  for (int i = 0; i < 8; i += at_once) {
    const float4 sixteen_bytes = load4(from + i);
    T values[at_once];
    memcpy(static_cast<void*>(values), &sixteen_bytes, 16);
#pragma unroll
    for (int j = 0; j < at_once; ++j) to[i + j] = to_float(values[j]);
  }
}

/// Fills delta and, where there is one, lse_base_2; zeroes turns where there are some, and d_q_sum where blocks only add
/// or none comes.
/// Launch: blocks of 256; grid of ceil(padded_rows / rows of a block) x heads x batch, with 256 / (d / 8) rows of a
/// block.
/// @tparam d columns of d_q_sum, at least head_dim; d / 8 lanes share a row
//! [preprocess]
template <int d, class T>
__global__ void preprocess(AttentionGradient<T> a) {
  constexpr int lanes = d / 8;
  const int row = blockIdx.x * (kPreprocessThreads / lanes) +
                  static_cast<int>(threadIdx.x) / lanes;
  const int col = threadIdx.x % lanes * 8;
  const auto head = gradient_head(a, blockIdx.z, blockIdx.y);
  float sum = 0;
  if (row < a.length_q && col < a.head_dim) {
    float o[8], d_o[8];
    load8(o, head.o + row * a.o_strides.row + col);
    load8(d_o, head.d_o + row * a.d_o_strides.row + col);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += o[i] * d_o[i];
  }
  sum = warp_sum<lanes>(sum);
  if (row >= padded_rows(a)) return;
  const std::int64_t padded = head.padded_row + row;
  // With turns the first block to come stores; to queries that see no key none comes.
  const int next_tile = (row / kSemaphoreRows + 1) * kSemaphoreRows;
  if (a.d_q_sum != nullptr &&
      (a.d_q_semaphores == nullptr || visible_keys(a, next_tile - 1) <= 0)) {
    float* to = a.d_q_sum + padded * d + col;
    store4(to, make_float4(0, 0, 0, 0));
    store4(to + 4, make_float4(0, 0, 0, 0));
  }
  if (col > 0) return;
  if (a.d_q_semaphores != nullptr && row % kSemaphoreRows < 2) {
    a.d_q_semaphores[padded / kSemaphoreRows * 2 + row % kSemaphoreRows] = 0;
  }
  a.delta[padded] = sum;
  if (a.lse_base_2 == nullptr) return;
  const float lse = row < a.length_q ? head.lse[row] : -INFINITY;
  a.lse_base_2[padded] = lse == -INFINITY ? INFINITY : lse * kLog2E;
}
//! [preprocess]

/// P = exp(scale Q K^T - LSE). Launch: as unfused_backward_scores().
/// @param a       what is computed
/// @param weights [batch, heads, length_q, length_k]
//! [weights]
__global__ void probs_by_element(AttentionGradient<float> a, float* probs) {
  const int index = blockIdx.z;
  const auto h = head_of(a, index / a.heads, index % a.heads);
  const float product = product_element(
      rows_of(h.q, a.q_strides, a.length_q, a.head_dim),
      rows_of(h.k, a.k_strides, a.length_k, a.head_dim).transposed());
  float* const weight = own_score(a, probs);
  if (weight == nullptr) return;
  const int query = blockIdx.y * kUnfusedGradientTile + threadIdx.y;
  const int key = blockIdx.x * kUnfusedGradientTile + threadIdx.x;
  *weight = key < visible_keys(a, query)
                ? expf(a.scale * product - h.lse[query])
                : 0.0f;
}
//! [weights]

/// Fills inv_row_sum. LSE was rounded to float32, and it belongs to scores with other rounding errors than these. So all
/// weights of a row are off by a common factor, and so is their sum. Launch: as unfused_score_gradients().
/// @param a       what is computed
/// @param weights [batch, heads, length_q, length_k]
//! [stored_row_sums]
__global__ void stored_row_sums(AttentionGradient<float> a,
                                const float* probs) {
  const int query = blockIdx.x * blockDim.y + threadIdx.y, index = blockIdx.z;
  if (query >= a.length_q) return;  // the whole warp
  const float* const row =
      probs + (std::int64_t{index} * a.length_q + query) * a.length_k;
  const int visible = visible_keys(a, query);
  float sum = 0;
  for (int j = threadIdx.x; j < visible; j += kWarp) sum += row[j];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) {
    const auto h = gradient_head(a, index / a.heads, index % a.heads);
    a.inv_row_sum[h.padded_row + query] = sum == 0 ? 0 : 1 / sum;
  }
}
//! [stored_row_sums]

/// dS = P o (dO V^T - delta), and the weights become those that O was made of. Launch: as
/// unfused_backward_scores(), after preprocess() and stored_row_sums().
/// @param a         what is computed
/// @param weights   [batch, heads, length_q, length_k]
/// @param gradients those of the scores, likewise
//! [elements]
__global__ void score_gradients_by_element(AttentionGradient<float> a,
                                           float* probs, float* gradients) {
  const int index = blockIdx.z;
  const auto h = gradient_head(a, index / a.heads, index % a.heads);
  const auto kv = head_of(a, index / a.heads, index % a.heads);
  const float product = product_element(
      rows_of(h.d_o, a.d_o_strides, a.length_q, a.head_dim),
      rows_of(kv.v, a.v_strides, a.length_k, a.head_dim).transposed());
  float* const weight = own_score(a, probs);
  if (weight == nullptr) return;
  const int query = blockIdx.y * kUnfusedGradientTile + threadIdx.y;
  const int key = blockIdx.x * kUnfusedGradientTile + threadIdx.x;
  //! [element]
  const float kept = a.dropout.of_weight(index, query, key);
  const std::int64_t row = h.padded_row + query;
  const float p = *weight * a.inv_row_sum[row];
  *own_score(a, gradients) = p * (kept * product - a.delta[row]);
  *weight = p * kept;
  //! [element]
}
//! [elements]

}  // namespace fa::FA_TARGET
