/// @file
/// What the kernels of this lesson are given: tensors, gradients, and the workspace, how large it is
/// and what lies where.
#pragma once

#include "common/attention/attention.cuh"

namespace fa::FA_TARGET {

/// Rows of each head in the workspace are padded to a multiple of this, so that tiles of queries
/// need no bounds checks there.
constexpr int kPaddedRows = 128;

/// Rows of the smallest tile that has semaphores.
constexpr int kSemaphoreRows = 64;

/// The gradients of attention over all heads of all sequences. Of the forward pass it has the
/// inputs, o and lse. A gradient has the shape of its tensor.
/// @tparam T of q, k, v, o and the gradients
template <class T>
struct AttentionGradient : Attention<T> {
  const T* d_o;
  T* d_q;
  T* d_k;
  T* d_v;
  RowStrides d_o_strides;
  RowStrides d_q_strides;
  RowStrides d_k_strides;
  RowStrides d_v_strides;

  // The workspace; [batch, heads, padded length_q] if nothing else is said.
  /// Row sums of d_o * o, elementwise.
  float* delta;
  /// lse / ln 2, so that P = 2^(s - lse_base_2); +infinity for rows that see no key or do not
  /// exist. Null for the float32 kernels.
  float* lse_base_2;
  /// 1 / the sum of a row's recomputed probabilities, 0 for rows that see no key or do not exist.
  /// Null for the 16-bit kernels, whose rounding hides the difference.
  float* inv_row_sum;
  /// The float32 accumulator of d_q: [batch, heads, padded length_q, columns of the kernel], in an
  /// order that the kernel chooses. Null for kernels without.
  float* d_q_accum;
  /// How many blocks have added to each part of a tile of d_q_accum:
  /// [batch * heads * padded length_q / kSemaphoreRows][2]. Null for kernels without.
  unsigned* d_q_semaphores;
  /// Of the dynamic tile scheduler, 0 before the kernel. Null without d_q_semaphores.
  unsigned* tile_counter;
  /// Parts of d_k and d_v in float32, in an order that the kernel chooses. Null for kernels without.
  float* d_kv_parts;
};

/// One query head: row 0 of each tensor, of lse and of the workspace; index is
/// batch * heads + head.
template <class T>
struct GradientHead {
  const T* q;
  const T* o;
  const T* d_o;
  T* d_q;
  const float* lse;
  std::int64_t padded_row;
  int index;
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

/// The first query that sees a key, 0 at least; length_q or more when no query does.
template <class T>
__device__ int first_query(const Attention<T>& a, int key) {
  const int query = a.causal ? key - (a.length_k - a.length_q) : 0;
  return query < 0 ? 0 : query;
}

/// Blocks that cover all keys of all key and value heads, block_n keys each.
template <class T>
Size grid_of_keys(const Attention<T>& a, int block_n) {
  return {static_cast<unsigned>(ceil_div(a.length_k, block_n)),
          static_cast<unsigned>(a.kv_heads), static_cast<unsigned>(a.batch)};
}

/// What kernels need beside delta and lse_base_2 or inv_row_sum.
struct Workspace {
  int d_q_columns;               ///< of d_q_accum; 0: there is none
  bool d_q_semaphores = false;   ///< and tile_counter
  std::int64_t d_kv_floats = 0;  ///< of d_kv_parts
};

/// Floats that the backward pass needs beside its inputs and results.
template <class T>
std::int64_t workspace_floats(const Attention<T>& a, const Workspace& what) {
  const std::int64_t rows = std::int64_t{a.batch} * a.heads * padded_rows(a);
  return rows * (2 + what.d_q_columns) + what.d_kv_floats +
         (what.d_q_semaphores ? rows / kSemaphoreRows * 2 + 1 : 0);
}

/// Tells the kernels where their workspace is.
/// @param a      on return with its pointers
/// @param floats device memory for workspace_floats(a, what), at a multiple of 16 bytes
template <class T>
void set_workspace(AttentionGradient<T>& a, float* floats,
                   const Workspace& what) {
  static_assert(sizeof(unsigned) == sizeof(float), "they share a buffer");
  const std::int64_t rows = std::int64_t{a.batch} * a.heads * padded_rows(a);
  a.delta = floats;
  float* const second = floats + rows;
  constexpr bool is_float = sizeof(T) == sizeof(float);
  a.lse_base_2 = is_float ? nullptr : second;
  a.inv_row_sum = is_float ? second : nullptr;
  float* const accum = floats + 2 * rows;
  a.d_q_accum = what.d_q_columns > 0 ? accum : nullptr;
  float* const parts = accum + rows * what.d_q_columns;
  a.d_kv_parts = what.d_kv_floats > 0 ? parts : nullptr;
  a.d_q_semaphores =
      what.d_q_semaphores
          ? reinterpret_cast<unsigned*>(parts + what.d_kv_floats)
          : nullptr;
  a.tile_counter = what.d_q_semaphores
                       ? a.d_q_semaphores + rows / kSemaphoreRows * 2
                       : nullptr;
}

}  // namespace fa::FA_TARGET
