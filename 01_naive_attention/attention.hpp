/// @file
/// Lesson 01: attention exactly as the formulas read, on Eigen. It is slow, it keeps the whole
/// length_q x length_k matrix of scores, and it is the oracle that every later lesson is checked with.
///
/// For one head, with queries Q, keys K, values V and the gradient dO of some loss with respect to O:
///
///     S = scale Q K^T      P = softmax of each row of S      O = P V
///     dV = P^T dO          dP = dO V^T
///     dS = P o (dP - rowsum(P o dP))      dQ = scale dS K      dK = scale dS^T Q
///
/// (o multiplies element by element.) Source: Vaswani et al. 2017, equation 1; for the gradients, Dao et
/// al. 2022, appendix B.2.
#pragma once

#include <cstdint>
#include <optional>

#include "common/tensor/matrix.hpp"
#include "common/tensor/tensor.hpp"

namespace fa {

/// The sizes of an attention problem.
struct AttentionShape {
  std::int64_t batch = 0;  ///< independent sequences
  std::int64_t heads = 0;  ///< query heads
  std::int64_t kv_heads =
      0;  ///< key and value heads; each serves heads / kv_heads query heads
  std::int64_t length_q = 0;  ///< queries per head
  std::int64_t length_k = 0;  ///< keys per head
  std::int64_t head_dim = 0;  ///< elements of one query, key or value
};

/// Reads the sizes off the shapes of q, k and v and checks that they fit together.
/// @param q [batch, heads, length_q, head_dim]
/// @param k [batch, kv_heads, length_k, head_dim]
/// @param v [batch, kv_heads, length_k, head_dim]
/// @throws std::invalid_argument when a size is 0, sizes differ that must agree, or heads is no multiple
///   of kv_heads
AttentionShape attention_shape(const Shape<4>& q, const Shape<4>& k,
                               const Shape<4>& v);

/// What can be varied about attention.
struct AttentionOptions {
  /// Factor of the scores; 1 / sqrt(head_dim) when not given.
  std::optional<double> scale;
  /// Query i sees key j only when j <= i + length_k - length_q: the last query sees every key.
  bool causal = false;
  /// [batch, heads, length_q, length_k], 1 keeps a weight and 0 drops it; null when nothing is dropped.
  View<const std::uint8_t, 4> dropout_keep;
  /// Share of weights that are dropped; those kept are multiplied by 1 / (1 - probability).
  double dropout_probability = 0;

  /// The factor of the scores for a head dimension: the given one, or 1 / sqrt(head_dim).
  double scale_for(std::int64_t head_dim) const;

  /// Checks that the options fit a problem.
  /// @throws std::invalid_argument for a scale that is not finite, and for a dropout mask of the wrong
  ///   shape or with a probability outside [0, 1)
  void check(const AttentionShape& shape) const;
};

namespace naive {

/// What the forward pass returns.
template <class T>
struct Forward {
  Tensor<T, 4> o;  ///< [batch, heads, length_q, head_dim]
  Tensor<accumulator_t<T>, 3>
      lse;  ///< [batch, heads, length_q], natural logarithm of sum exp(S)
};

/// What the backward pass returns; shapes as q, k and v.
template <class T>
struct Gradients {
  Tensor<T, 4> d_q;  ///< [batch, heads, length_q, head_dim]
  Tensor<T, 4>
      d_k;  ///< [batch, kv_heads, length_k, head_dim], summed over the heads of a group
  Tensor<T, 4>
      d_v;  ///< [batch, kv_heads, length_k, head_dim], summed over the heads of a group
};

/// Attention, O = softmax(scale Q K^T) V, threaded over heads. A row that sees no key gives O = 0 and LSE = -infinity.
///
/// With T double it is the reference of the whole course. With a narrower T every stored intermediate
/// (S, P, O) is rounded to T while sums run in float32: the `plain` of the acceptance rule.
///
/// Source: Vaswani et al., Attention Is All You Need, 2017, equation 1.
/// @param q [batch, heads, length_q, head_dim]
/// @param k [batch, kv_heads, length_k, head_dim]
/// @param v [batch, kv_heads, length_k, head_dim]
/// @param options scale, mask and dropout
/// @throws std::invalid_argument as attention_shape(), for a scale that is not finite, and for a dropout
///   mask of the wrong shape or a probability outside [0, 1)
template <class T>
Forward<T> forward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                   const AttentionOptions& options = {});

/// The weights P themselves, before dropout, for looking at.
/// @param q [batch, heads, length_q, head_dim]
/// @param k [batch, kv_heads, length_k, head_dim]
/// @param options scale and mask
/// @return [batch, heads, length_q, length_k]; each row sums to 1, or to 0 when it sees no key
/// @throws std::invalid_argument as forward()
template <class T>
Tensor<T, 4> weights(View<const T, 4> q, View<const T, 4> k,
                     const AttentionOptions& options = {});

/// The gradients of a loss with respect to q, k and v, threaded over heads. Rounds as forward() does.
/// Source: the derivation on this lesson's page, "Backward".
/// @param q [batch, heads, length_q, head_dim]
/// @param k [batch, kv_heads, length_k, head_dim]
/// @param v [batch, kv_heads, length_k, head_dim]
/// @param d_o gradient of the loss with respect to o, shape of q
/// @param options as given to forward()
/// @throws std::invalid_argument as forward(), and when d_o has not the shape of q
template <class T>
Gradients<T> backward(View<const T, 4> q, View<const T, 4> k,
                      View<const T, 4> v, View<const T, 4> d_o,
                      const AttentionOptions& options = {});

/// The softmax of each row, as the definition reads: exp(s) / sum exp(s). Overflows for scores that
/// lesson 02 makes easy to meet; here only to show that it does.
/// @param scores [rows, cols]
/// @return [rows, cols]
template <class T>
Matrix<T> unsafe_softmax(const Matrix<T>& scores);

/// The softmax of each row, its maximum subtracted first. A row of -infinity gives zeros.
/// @param scores [rows, cols], finite or -infinity
/// @return [rows, cols]; each row sums to 1, or to 0
template <class T>
Matrix<T> safe_softmax(const Matrix<T>& scores);

/// ln(sum exp(s)) of each row; -infinity for a row of -infinity.
/// @param scores [rows, cols], finite or -infinity
/// @return [rows], natural logarithm
template <class T>
Vector<T> log_sum_exp(const Matrix<T>& scores);

}  // namespace naive
}  // namespace fa
