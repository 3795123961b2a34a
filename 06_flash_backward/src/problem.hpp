/// @file
/// What the kernels of this lesson compute, on the host: the problems of the forward
/// pass with dO and the three gradients, and how results are checked.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "01_naive_attention/score_functor.hpp"
#include "common/attention/host/problem.hpp"

namespace fa::backward {

using namespace attention;  // problems and steps, as in lesson 05

/// What the backward pass is given, as numbers that the type holds exactly.
struct Inputs {
  attention::Inputs forward;  ///< q, k and v
  Tensor<float, 4> o;         ///< [batch, heads, length_q, head_dim_v]
  Tensor<float, 3> lse;       ///< [batch, heads, length_q], natural logarithm
  Tensor<float, 4> d_o;       ///< [batch, heads, length_q, head_dim_v]
};

/// What it returns.
struct Gradients {
  Tensor<float, 4> d_q;  ///< [batch, heads, length_q, head_dim]
  Tensor<float, 4> d_k;  ///< [batch, kv_heads, length_k, head_dim]
  Tensor<float, 4> d_v;  ///< [batch, kv_heads, length_k, head_dim_v]
};

/// Adds to q, k and v what the forward pass returns, by lesson 01 in float64, and a random d_o;
/// all rounded to the problem's type, but LSE to float32.
/// @param problem with the sizes of the inputs
/// @param forward q, k and v as the type holds them
Inputs with_forward(const Problem& problem, attention::Inputs forward, std::uint64_t seed);

/// Random inputs of the problem's sizes and type.
Inputs make_inputs(const Problem& problem, Values values, std::uint64_t seed);

/// What follows for the gradients from the rounding of the O and LSE that the forward pass kept. The
/// probabilities exp(S' - LSE) are off by the float32 rounding of both, up or down; delta by that of
/// O and of its sum in float32.
/// @param exact   O and LSE of the problem in float64
/// @param options of dropout
naive::FunctorGradients<double> errors_of_kept(const Inputs& in,
                                               const naive::Forward<double>& exact,
                                               const ScoreFunctor& functor,
                                               const AttentionOptions& options = {});

/// How far from `ref` the textbook algorithm's `plain` is, or as far as `errors` say, where that is
/// more.
template <class T, int Rank>
Distance allowed_distance(const Tensor<T, Rank>& plain, const Tensor<double, Rank>& ref,
                          const Tensor<double, Rank>& errors) {
  Distance result = distance(plain.view(), ref.view());
  const Tensor<double, Rank> zeros(errors.shape());
  const Distance more = distance(errors.view(), zeros.view());
  result.max_error = std::max(result.max_error, more.max_error);
  result.rms_error = std::max(result.rms_error, more.rms_error);
  return result;
}

/// Checks what a kernel returned: dQ, dK and dV against lesson 01.
///
/// The backward pass begins with what the forward pass kept, an O in the problem's type and an LSE
/// in float32. delta comes from that O, which shows where P dP and P delta nearly cancel, as in
/// rows that see one key; and the probabilities exp(S - LSE) of a row with scores of 1e4 are off
/// by a thousandth. What follows from either is allowed as the errors of the textbook algorithm
/// are.
class Checker {
 public:
  /// Computes lesson 01's gradients in float64, and in the problem's type.
  /// @throws std::invalid_argument as naive::backward()
  Checker(const Problem& problem, const Inputs& inputs);
  /// The verdicts on dQ, dK and dV.
  /// @throws std::invalid_argument when one has another shape
  std::vector<Verdict> check(const std::string& name, const Gradients& gradients) const;

 private:
  Type type_;
  naive::Gradients<double> ref_;
  std::array<Distance, 3> plain_;  // of d_q, d_k, d_v: allowed, before the factor
};

}  // namespace fa::backward
