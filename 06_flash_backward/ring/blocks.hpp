/// @file
/// Lesson 06: what a rank computes with the queries that it owns and a block of keys that it holds
/// for a while. The tiles are those of lessons 03 and 06, the merge is that of lesson 03. No MPI.
#pragma once

#include <vector>

#include "01_naive_attention/attention.hpp"
#include "03_online_softmax/row.hpp"
#include "06_flash_backward/ring/layout.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::ring {

/// K and V of some positions, or their gradients, as one message: [2, batch, kv_heads, rows,
/// head_dim].
template <class T>
using Block = Tensor<T, 5>;

/// A block of zeros for the keys of a rank.
template <class T>
Block<T> empty_block(const Problem& problem, int owner) {
  const AttentionShape& s = problem.shape;
  return Block<T>({2, s.batch, s.kv_heads, rows(keys_of(problem, owner)), s.head_dim});
}

/// The states (m, l, O) of the queries of a rank, into which results over some keys are merged.
template <class T>
class States {
 public:
  /// States of no keys.
  /// @param shape [batch, heads, rows, head_dim] of the queries
  explicit States(const Shape<4>& shape);
  /// Merges a normalised output and its LSE over some keys into the rows from `row` on.
  /// @param part of [batch, heads, any number of rows, head_dim]
  void merge(const naive::Forward<T>& part, std::int64_t row);
  /// O and LSE over all keys so far; 0 and -infinity for a row that saw no key.
  naive::Forward<T> result() const;

 private:
  Shape<4> shape_;
  std::vector<online::RowState<T>> of_rows_;
};

/// Attention of a rank's queries over a block of keys, merged into their states.
/// @param q      [batch, heads, rows, head_dim], the queries of `queries`
/// @param kv     [2, batch, kv_heads, rows, head_dim], the keys and values of `keys`
/// @param states of the queries
template <class T>
void attend(const Problem& problem, const Ranges& queries, View<const T, 4> q, const Ranges& keys,
            View<const T, 5> kv, States<T>& states);

/// What a rank keeps from the forward pass, and the gradient that comes from behind.
template <class T>
struct Saved {
  /// @{ [batch, heads, rows, head_dim]; lse without head_dim. O and LSE are those over all keys.
  View<const T, 4> q, o, d_o;
  View<const T, 3> lse;
  /// @}
};

/// Adds what a rank's queries and a block of keys contribute to dQ, dK and dV.
/// @param d_q  shape of q
/// @param d_kv shape of kv
template <class T>
void add_gradients(const Problem& problem, const Ranges& queries, const Saved<T>& saved,
                   const Ranges& keys, View<const T, 5> kv, View<T, 4> d_q, View<T, 5> d_kv);

}  // namespace fa::ring
