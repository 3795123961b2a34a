/// @file
/// Lesson 01 for sequences of different lengths: packed one behind another (varlen), and with keys
/// and values in the pages of a cache. Each sequence is computed by itself with forward(). It is
/// the reference of the kernels that serve a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "01_naive_attention/attention.hpp"

namespace fa {

/// Checks where sequences begin and end in a packed tensor: sequence i has the tokens from
/// cu_seqlens[i] up to, not including, cu_seqlens[i + 1]; it may be empty.
/// @param name   for messages: "cu_seqlens_q"
/// @param tokens of the tensor
/// @throws std::invalid_argument without a sequence, when the first element is not 0, one is less
///   than the one before it, or the last one is not `tokens`
void check_cu_seqlens(const std::string& name, const std::vector<std::int32_t>& cu_seqlens,
                      std::int64_t tokens);

/// Which pages hold the keys and values of each sequence. Page i of sequence b, pages(b, i), has
/// its tokens from i page_size on. Elements behind a sequence's last page are not read. Sequences
/// may share pages.
struct BlockTable {
  Tensor<std::int32_t, 2> pages;      ///< [batch, most pages of a sequence]
  std::vector<std::int32_t> lengths;  ///< tokens of each sequence

  /// Checks it against a cache.
  /// @throws std::invalid_argument when there are not as many lengths as rows, a length is
  ///   negative or more than the row's pages hold, or a page that is read is not in the cache
  void check(std::int64_t cache_pages, std::int64_t page_size) const;
};

namespace naive {

/// The result of the forward pass on packed sequences.
template <class T>
struct VarlenForward {
  /// [tokens_q, heads, head_dim_v]
  Tensor<T, 3> o;
  /// [heads, tokens_q], the natural logarithm of sum exp(S)
  Tensor<accumulator_t<T>, 2> lse;
};

/// Attention within each of several packed sequences; the causal mask is aligned to the bottom
/// right in each. Queries of a sequence without keys get O = 0 and LSE = -infinity.
/// @param q [tokens_q, heads, head_dim]
/// @param k [tokens_k, kv_heads, head_dim]
/// @param v [tokens_k, kv_heads, head_dim_v]
/// @param cu_seqlens_q where the queries of each sequence begin, and tokens_q
/// @param cu_seqlens_k where the keys of each sequence begin, and tokens_k
/// @throws std::invalid_argument as forward() and check_cu_seqlens(), when there is dropout, or
///   when the two do not have the same number of sequences
template <class T>
VarlenForward<T> forward_varlen(View<const T, 3> q, View<const T, 3> k, View<const T, 3> v,
                                const std::vector<std::int32_t>& cu_seqlens_q,
                                const std::vector<std::int32_t>& cu_seqlens_k,
                                const AttentionOptions& options = {});

/// Attention with the keys and values of a paged cache. A sequence without keys gets O = 0 and
/// LSE = -infinity.
/// @param q [batch, heads, length_q, head_dim]
/// @param k [cache pages, page_size, kv_heads, head_dim]
/// @param v [cache pages, page_size, kv_heads, head_dim_v]
/// @throws std::invalid_argument as forward() and BlockTable::check(), when there is dropout, or
///   when q has another batch than the table
template <class T>
Forward<T> forward_paged(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                         const BlockTable& table, const AttentionOptions& options = {});

}  // namespace naive
}  // namespace fa
