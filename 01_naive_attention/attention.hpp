/// @file
/// Lesson 01: attention written exactly as the formulas, on Eigen. It is slow, it stores the whole
/// length_q x length_k matrix of scores, and it is the reference for every later lesson.
///
/// For one head, with queries Q, keys K, values V and the gradient dO of a loss with respect to O:
///
///     S = scale Q K^T      P = softmax of each row of S      O = P V
///     dV = P^T dO          dP = dO V^T
///     dS = P * (dP - rowsum(P * dP))      dQ = scale dS K      dK = scale dS^T Q
///
/// (o multiplies element by element.) Source: Vaswani et al. 2017, equation 1; for the gradients,
/// Dao et al. 2022, appendix B.2.
#pragma once

#include <cstdint>
#include <optional>

#include "common/attention/shape.hpp"
#include "common/tensor/matrix.hpp"
#include "common/tensor/tensor.hpp"

namespace fa {

/// Takes the sizes from the shapes of q, k and v and checks that they match.
/// @param q [batch, heads, length_q, head_dim]
/// @param k [batch, kv_heads, length_k, head_dim]
/// @param v [batch, kv_heads, length_k, head_dim_v], which need not be head_dim
/// @throws std::invalid_argument when a size is 0, sizes differ that must agree, or heads is not a
///   multiple of kv_heads
AttentionShape attention_shape(const Shape<4>& q, const Shape<4>& k, const Shape<4>& v);

/// The shape of o: [batch, heads, length_q, head_dim_v].
Shape<4> shape_of_o(const Shape<4>& q, const Shape<4>& v);

/// Scale, mask and dropout.
struct AttentionOptions {
  /// Multiplies the scores; 1 / sqrt(head_dim) when not given.
  std::optional<double> scale;
  /// Query i sees key j only when j <= i + length_k - length_q: the last query sees every key.
  bool causal = false;
  /// [batch, heads, length_q, length_k], 1 keeps an element of P and 0 drops it; null for no
  /// dropout.
  View<const std::uint8_t, 4> dropout_keep;
  /// Fraction of P that is dropped; kept elements are multiplied by 1 / (1 - probability).
  double dropout_probability = 0;

  /// The scale for a head dimension: the given one, or 1 / sqrt(head_dim).
  double scale_for(std::int64_t head_dim) const;

  /// Checks the options against the sizes of a problem.
  /// @throws std::invalid_argument for a scale that is not finite, and for a dropout mask of the
  ///   wrong shape or with a probability outside [0, 1)
  void check(const AttentionShape& shape) const;
};

namespace naive {

/// The result of the forward pass.
template <class T>
struct Forward {
  /// [batch, heads, length_q, head_dim_v]
  Tensor<T, 4> o;
  /// [batch, heads, length_q], the natural logarithm of sum exp(S)
  Tensor<accumulator_t<T>, 3> lse;
};

/// The result of the backward pass.
template <class T>
struct Gradients {
  /// @{ With the shapes of q, k and v. With GQA, dK and dV are sums over the query heads of a
  /// group.
  Tensor<T, 4> d_q, d_k, d_v;
  /// @}
};

/// Attention, O = softmax(scale Q K^T) V, threaded over heads. A fully masked row gives O = 0 and
/// LSE = -infinity.
///
/// With T = double it is the reference of the whole course. With a narrower T every stored
/// intermediate (S, P, O) is rounded to T, while sums use float32: the `plain` of the acceptance
/// rule.
///
/// Source: Vaswani et al., Attention Is All You Need, 2017, equation 1.
/// @param q [batch, heads, length_q, head_dim]
/// @param k [batch, kv_heads, length_k, head_dim]
/// @param v [batch, kv_heads, length_k, head_dim_v]
/// @throws std::invalid_argument as attention_shape(), for a scale that is not finite, and for a
///   dropout mask of the wrong shape or a probability outside [0, 1)
template <class T>
Forward<T> forward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                   const AttentionOptions& options = {});

/// The attention probabilities P before dropout.
/// @param q [batch, heads, length_q, head_dim]
/// @param k [batch, kv_heads, length_k, head_dim]
/// @return [batch, heads, length_q, length_k]; a row sums to 1, or to 0 without a visible key
/// @throws std::invalid_argument as forward()
template <class T>
Tensor<T, 4> weights(View<const T, 4> q, View<const T, 4> k, const AttentionOptions& options = {});

/// The gradients of a loss with respect to q, k and v, threaded over heads. Rounds as forward()
/// does.
/// Source: the derivation on this lesson's page, "Backward".
/// @param q [batch, heads, length_q, head_dim]
/// @param k [batch, kv_heads, length_k, head_dim]
/// @param v [batch, kv_heads, length_k, head_dim_v]
/// @param d_o gradient of the loss with respect to o, which has its shape
/// @throws std::invalid_argument as forward(), and when the shape of d_o is not that of o
template <class T>
Gradients<T> backward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                      View<const T, 4> d_o, const AttentionOptions& options = {});

/// The softmax of each row by its definition: exp(s) / sum exp(s). It overflows for the scores of
/// lesson 02, and exists only to show that.
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
