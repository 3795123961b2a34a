/// @file
/// What the kernels of this lesson are given, and what all of them ask of it.
#pragma once

#include "common/gpu/kernel.cuh"
#include "common/gpu/philox.cuh"

namespace fa::FA_TARGET {

/// exp(x) = 2^(kLog2E x)
constexpr float kLog2E = 1.4426950408889634f;

/// How far apart the rows of a [batch, heads, length, head_dim] tensor are, in elements. Those of one row are
/// neighbours, and rows begin at multiples of 16 bytes.
struct RowStrides {
  std::int64_t batch;  ///< from a sequence to the next
  std::int64_t head;   ///< from a head to the next
  std::int64_t row;    ///< from a row to the next
};

/// Attention over all heads of all sequences.
/// @tparam T of q, k, v and o
template <class T>
struct Attention {
  const T* q;            ///< [batch, heads, length_q, head_dim]
  const T* k;            ///< [batch, kv_heads, length_k, head_dim]
  const T* v;            ///< [batch, kv_heads, length_k, head_dim]
  T* o;                  ///< [batch, heads, length_q, head_dim]
  float* lse;            ///< [batch, heads, length_q], natural logarithm
  RowStrides q_strides;  ///< of q
  RowStrides k_strides;  ///< of k
  RowStrides v_strides;  ///< of v
  RowStrides o_strides;  ///< of o
  int batch;             ///< independent sequences
  int heads;             ///< of q
  int kv_heads;          ///< of k and v; heads is a multiple
  int length_q;          ///< queries of a head
  int length_k;          ///< keys of a head
  int head_dim;          ///< elements of a row
  float scale;           ///< of the scores
  bool causal;           ///< query i sees keys up to i + length_k - length_q
  Dropout dropout;       ///< of weights
};

/// One head: where its rows begin.
template <class T>
struct AttentionHead {
  const T* q;  ///< row 0
  const T* k;  ///< row 0
  const T* v;  ///< row 0
  T* o;        ///< row 0
  float* lse;  ///< of row 0
  int index;   ///< batch * heads + head
};

/// A head of a sequence; its keys and values are those of the group that it is in.
template <class T>
__device__ AttentionHead<T> head_of(const Attention<T>& a, int batch,
                                    int head) {
  const int kv_head = head / (a.heads / a.kv_heads),
            index = batch * a.heads + head;
  return {a.q + batch * a.q_strides.batch + head * a.q_strides.head,
          a.k + batch * a.k_strides.batch + kv_head * a.k_strides.head,
          a.v + batch * a.v_strides.batch + kv_head * a.v_strides.head,
          a.o + batch * a.o_strides.batch + head * a.o_strides.head,
          a.lse + std::int64_t{index} * a.length_q,
          index};
}

/// How many keys, from the first, a query sees: 0 to length_k. For a query beyond the last one, as many as the
/// last one sees at least.
//! [visible_keys]
template <class T>
__device__ int visible_keys(const Attention<T>& a, int query) {
  //! [keys_seen_body]
  if (!a.causal) return a.length_k;
  const int seen = query + 1 + a.length_k - a.length_q;
  return seen < 0 ? 0 : seen < a.length_k ? seen : a.length_k;
  //! [keys_seen_body]
}
//! [visible_keys]

/// exp(x - m), 0 for a hidden score, even when m is -infinity too.
__device__ inline float exp_diff(float x, float m) {
  return x == -INFINITY ? 0.0f : expf(x - m);
}

/// Natural logarithm of a sum of exponentials whose terms were divided by exp(m); -infinity for none.
__device__ inline float log_sum(float m, float l) {
  return l == 0 ? -INFINITY : m + logf(l);
}

}  // namespace fa::FA_TARGET
