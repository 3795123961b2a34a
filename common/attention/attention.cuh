/// @file
/// The parameters of the attention kernels of lessons 05 and 06, and what all of them use: heads
/// and their groups, the grid, the causal mask, exponentials and logarithms that are safe for fully
/// masked rows.
///
/// Everywhere in kernels query0 and key0 are the first query and the first key of what the caller
/// computes: a warp, a warpgroup or a block. Tiles have d columns, at least head_dim. exponent_scale
/// is scale / ln 2, for exponentials to base 2.
#pragma once

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/gpu/philox.cuh"

namespace fa::FA_TARGET {

/// Head dimensions that a kernel is compiled for, in ascending order.
template <int... d>
struct HeadDims {};

/// One of them, and that of V.
template <int columns, int columns_v = columns>
struct HeadDim : std::integral_constant<int, columns> {
  static constexpr int v = columns_v;
};

/// Calls work(std::integral_constant<int, d>) with the first d of an ascending list that is not
/// less than head_dim.
/// @param head_dim at most the last of them
template <int d, int... larger, class Work>
auto with_head_dim(std::int64_t head_dim, Work work) {
  if constexpr (sizeof...(larger) > 0) {
    if (head_dim > d) return with_head_dim<larger...>(head_dim, work);
  }
  return work(std::integral_constant<int, d>{});
}

/// exp(x) = 2^(kLog2E x)
constexpr float kLog2E = 1.4426950408889634f;

/// Strides of a [batch, heads, length, head_dim] tensor, in elements. The elements of a row are
/// contiguous, and rows begin at multiples of 16 bytes.
struct RowStrides {
  std::int64_t batch;
  std::int64_t head;
  std::int64_t row;
};

/// Attention over all heads of all sequences, with tensors in global memory.
/// @tparam T type of the elements of q, k, v and o
template <class T>
struct Attention {
  //! [tensors]
  const T* q;  ///< [batch, heads, length_q, head_dim]
  const T* k;  ///< [batch, kv_heads, length_k, head_dim]
  const T* v;  ///< [batch, kv_heads, length_k, head_dim_v]
  T* o;        ///< [batch, heads, length_q, head_dim_v]
  float* lse;  ///< [batch, heads, length_q], natural logarithm
  //! [tensors]
  RowStrides q_strides;
  RowStrides k_strides;
  RowStrides v_strides;
  RowStrides o_strides;
  int batch;
  int heads;
  int kv_heads;  ///< divides heads: grouped-query attention
  int length_q;
  int length_k;
  int head_dim;
  int head_dim_v;   ///< head_dim, for most kernels
  float scale;      ///< of the scores
  bool causal;      ///< query i sees keys up to i + length_k - length_q
  Dropout dropout;  ///< of the attention probabilities
};

/// Query heads of a group: they share a head of K and V.
template <class T>
__host__ __device__ int group_size(const Attention<T>& a) {
  return a.heads / a.kv_heads;
}

/// The head of K and V of a query head.
template <class T>
__device__ int kv_head_of(const Attention<T>& a, int head) {
  return head / group_size(a);
}

/// Row 0 of each tensor of one head.
template <class T>
struct AttentionHead {
  const T* q;
  const T* k;
  const T* v;
  T* o;
  float* lse;
  int index;  ///< batch * heads + head
};

/// A head of a sequence, with the keys and values of its group.
template <class T>
__device__ AttentionHead<T> head_of(const Attention<T>& a, int batch, int head) {
  const int kv_head = kv_head_of(a, head);
  const int index = batch * a.heads + head;
  return {a.q + batch * a.q_strides.batch + head * a.q_strides.head,
          a.k + batch * a.k_strides.batch + kv_head * a.k_strides.head,
          a.v + batch * a.v_strides.batch + kv_head * a.v_strides.head,
          a.o + batch * a.o_strides.batch + head * a.o_strides.head,
          a.lse + std::int64_t{index} * a.length_q,
          index};
}

/// How many keys, from the first, a query sees: 0 to length_k. A query beyond the last one, in a
/// tile at the edge, sees at least as many as the last one.
template <class T>
__device__ int visible_keys(const Attention<T>& a, int query) {
  //! [visible_keys_body]
  if (!a.causal) return a.length_k;
  const int visible = query + 1 + a.length_k - a.length_q;
  return visible < 0 ? 0 : visible < a.length_k ? visible : a.length_k;
  //! [visible_keys_body]
}

/// Blocks that cover all queries of all heads, block_m queries each.
template <class T>
Size grid_of(const Attention<T>& a, int block_m) {
  return {static_cast<unsigned>(ceil_div(a.length_q, block_m)), static_cast<unsigned>(a.heads),
          static_cast<unsigned>(a.batch)};
}

/// This block's tile of queries in a grid of grid_of(). Under the causal mask the last tiles have
/// the most keys, and come first.
template <class T>
__device__ int longest_first_m_block(const Attention<T>& a) {
  return a.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
}

/// exp(x - m); 0 for a masked score, even when m is -infinity too.
__device__ inline float exp_diff(float x, float m) {
  return x == -INFINITY ? 0.0f : expf(x - m);
}

/// Natural logarithm of a sum of exponentials whose terms were divided by exp(m); -infinity for an
/// empty sum.
__device__ inline float log_sum(float m, float l) {
  return l == 0 ? -INFINITY : m + logf(l);
}

}  // namespace fa::FA_TARGET
