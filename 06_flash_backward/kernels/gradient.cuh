/// @file
/// What the kernels of this lesson are given, and what all of them ask of it.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Rows of each head in the workspace are padded to a multiple of this, so that tiles of queries need no care there.
constexpr int kPaddedRows = 128;

/// Rows of the smallest tile that has counters.
constexpr int kSemaphoreRows = 64;

/// The gradients of attention over all heads of all sequences. Of the forward pass it has the inputs, o and lse.
/// @tparam T of q, k, v, o and the gradients
template <class T>
struct AttentionGradient : Attention<T> {
  const T* d_o;            ///< [batch, heads, length_q, head_dim]
  T* d_q;                  ///< [batch, heads, length_q, head_dim]
  T* d_k;                  ///< [batch, kv_heads, length_k, head_dim]
  T* d_v;                  ///< [batch, kv_heads, length_k, head_dim]
  RowStrides d_o_strides;  ///< of d_o
  RowStrides d_q_strides;  ///< of d_q
  RowStrides d_k_strides;  ///< of d_k
  RowStrides d_v_strides;  ///< of d_v
  /// Row sums of d_o o o: [batch, heads, padded length_q]. A workspace.
  float* delta;
  /// lse / ln 2, and +infinity for rows that see no key or do not exist, so that 2^(s - it) is their weight:
  /// [batch, heads, padded length_q]. A workspace; null for the float32 kernels.
  float* lse_base_2;
  /// 1 / the sum of a row's recomputed probabilities, 0 for rows that see no key or do not exist:
  /// [batch, heads, padded length_q]. A workspace; null for the 16-bit kernels, whose rounding hides the difference.
  float* inv_row_sum;
  /// Sums that become d_q: [batch, heads, padded length_q, columns of the kernel], in an order that the kernel chooses;
  /// zero before, but where the first block to come stores its part. A workspace; null for kernels without.
  float* d_q_sum;
  /// How far the blocks are with each part of a tile of d_q_sum: [batch * heads * padded length_q / kSemaphoreRows][2], 0
  /// before; the kernel says what it counts. A workspace; null for kernels whose blocks all add.
  unsigned* d_q_semaphores;
};

/// One query head: where its rows begin.
template <class T>
struct GradientHead {
  const T* q;               ///< row 0
  const T* o;               ///< row 0
  const T* d_o;             ///< row 0
  T* d_q;                   ///< row 0
  const float* lse;         ///< of row 0
  std::int64_t padded_row;  ///< number of row 0 in the workspace
  int index;                ///< batch * heads + head
};

/// Rows of a head in the workspace.
template <class T>
__host__ __device__ int padded_rows(const Attention<T>& a) {
  return ceil_div(a.length_q, kPaddedRows) * kPaddedRows;
}

/// A query head of a sequence.
template <class T>
__device__ GradientHead<T> gradient_head(const AttentionGradient<T>& a,
                                         int batch, int head) {
  const int index = batch * a.heads + head;
  return {a.q + batch * a.q_strides.batch + head * a.q_strides.head,
          a.o + batch * a.o_strides.batch + head * a.o_strides.head,
          a.d_o + batch * a.d_o_strides.batch + head * a.d_o_strides.head,
          a.d_q + batch * a.d_q_strides.batch + head * a.d_q_strides.head,
          a.lse + std::int64_t{index} * a.length_q,
          std::int64_t{index} * padded_rows(a),
          index};
}

/// Row 0 of a key and value head in a tensor.
template <class T>
__device__ T* kv_rows(T* tensor, const RowStrides& strides, int batch,
                      int kv_head) {
  return tensor + batch * strides.batch + kv_head * strides.head;
}

/// The first query that sees a key, 0 at least; length_q or more when none does.
//! [first_query]
template <class T>
__device__ int first_query(const Attention<T>& a, int key) {
  const int query = a.causal ? key - (a.length_k - a.length_q) : 0;
  return query < 0 ? 0 : query;
}
//! [first_query]

}  // namespace fa::FA_TARGET
