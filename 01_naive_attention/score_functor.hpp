/// @file
/// Lesson 01 with a mask and a change of the scores of one's own: the reference of the kernels that
/// take a functor. With the functions score() and visible(), for one head,
///
///     S = scale Q K^T      S'_ij = score(S_ij) where visible(i, j), else -infinity
///     P = softmax of each row of S', to which a sink may add a term      O = P V
///     dS' = P * (dP - rowsum(P * dP))      dS = dS' * score'(S)
///
/// and dQ, dK and dV as in attention.hpp. Source: Dong et al., FlexAttention, 2024, section 3; for
/// sinks, OpenAI, gpt-oss-120b & gpt-oss-20b Model Card, 2025, section 2.2.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "01_naive_attention/attention.hpp"

namespace fa {

/// A mask and a change of the scores; what is empty changes nothing.
struct ScoreFunctor {
  /// Where a score is: its sequence, query head, query and key.
  using Index = std::int64_t;

  /// The changed score, from a scaled one: score(s, batch, head, query, key).
  std::function<double(double, Index, Index, Index, Index)> score{};
  /// Its derivative with respect to s. Required with score for a backward pass.
  std::function<double(double, Index, Index, Index, Index)> derivative{};
  /// Whether a query sees a key: visible(batch, head, query, key).
  std::function<bool(Index, Index, Index, Index)> visible{};
  /// The logit of a head's sink, a further key in the softmax whose value is 0; -infinity: none.
  std::function<double(Index)> sink{};
};

/// A functor of kernels, for lesson 01: its own functions, in float64. They are asked even where a
/// constant of the functor says that it has none, and the derivative is that of its score() by
/// central differences: so a comparison finds a kernel that leaves one out, and a derivative() that
/// is wrong.
/// @param functor see common/attention/score_functors.cuh; with pointers of the host, which must
///   outlive the result
template <class Functor>
ScoreFunctor reference_of(const Functor& functor) {
  using Index = ScoreFunctor::Index;
  const auto n = [](Index index) { return static_cast<int>(index); };
  const auto score = [=](double s, Index b, Index h, Index i, Index j) -> double {
    return functor.score(s, n(b), n(h), n(i), n(j));
  };
  const auto derivative = [=](double s, Index b, Index h, Index i, Index j) {
    if (std::isinf(score(s, b, h, i, j))) return 0.0;  // masked
    const double step = 1e-5 * std::max(1.0, std::abs(s));
    return (score(s + step, b, h, i, j) - score(s - step, b, h, i, j)) / (2 * step);
  };
  const auto visible = [=](Index b, Index h, Index i, Index j) -> bool {
    return functor.visible(n(b), n(h), n(i), n(j));
  };
  const auto sink = [=](Index h) -> double { return functor.sink(n(h)); };
  return {score, derivative, visible, sink};
}

namespace naive {

/// The result of the backward pass with a functor.
template <class T>
struct FunctorGradients : Gradients<T> {
  /// [batch, heads, length_q, length_k], the gradient with respect to the changed scores: that of
  /// an additive bias, which sums over what it is broadcast to. 0 where a key is masked.
  Tensor<accumulator_t<T>, 4> d_scores;
  /// [heads], the gradient with respect to the sinks; 0 without.
  Tensor<accumulator_t<T>, 1> d_sinks;
};

/// Attention with a functor. A row without a visible key gives O = 0, and LSE = -infinity or its
/// head's sink. Rounds as naive::forward() does.
/// @param q [batch, heads, length_q, head_dim]
/// @param k [batch, kv_heads, length_k, head_dim]
/// @param v [batch, kv_heads, length_k, head_dim_v]
/// @param scale of the scores; 1 / sqrt(head_dim) when not given
/// @throws std::invalid_argument as attention_shape(), and for a scale that is not finite
template <class T>
Forward<T> forward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                   const ScoreFunctor& functor, std::optional<double> scale = {});

/// The gradients of a loss with respect to q, k, v, the changed scores and the sinks.
/// @param d_o gradient of the loss with respect to o, which has its shape
/// @throws std::invalid_argument as forward(), when the shape of d_o is not that of o, and for a
///   functor whose score has no derivative
template <class T>
FunctorGradients<T> backward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                             View<const T, 4> d_o, const ScoreFunctor& functor,
                             std::optional<double> scale = {});

}  // namespace naive
}  // namespace fa
