/// @file
/// Lesson 06: the derivation of the backward pass, statement by statement. Of each, statements()
/// says how far its two sides are apart: the program shows it and a test holds it.
///
/// Jacobians have a row for each output and a column for each input. dX is the gradient of a loss
/// with respect to X, of the shape of X.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "01_naive_attention/attention.hpp"
#include "common/tensor/matrix.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::backward {

/// A function of several numbers with several results.
using VectorFunction = std::function<Vector<double>(const Vector<double>&)>;

/// What a step size costs, at one point of one function.
struct StepError {
  double h = 0;          ///< the step
  double one_sided = 0;  ///< error of (f(x + h) - f(x)) / h, relative
  double central = 0;    ///< error of (f(x + h) - f(x - h)) / 2h, relative
};

/// The errors of both difference quotients of exp at 1, for h = 10^-1, 10^-2, ... 10^-15.
std::vector<StepError> step_errors();

/// The Jacobian of a function at x, column by column: one input at a time is moved by central
/// differences.
/// @return [results, x.size()]
Matrix<double> jacobian(const VectorFunction& f, const Vector<double>& x);

/// The softmax of one row of scores, as long as the row; the maximum is subtracted first.
Vector<double> softmax(const Vector<double>& s);

/// Its Jacobian diag(p) - p p^T, built in full. For inspection only: no code needs it.
/// @param p the probabilities, softmax(s)
/// @return [p.size(), p.size()]
Matrix<double> softmax_jacobian(const Vector<double>& p);

/// The product of that Jacobian and a vector in O(N): p * (d_p - p . d_p), elementwise.
/// @param d_p gradient with respect to them
/// @return gradient with respect to the scores
Vector<double> softmax_backward(const Vector<double>& p, const Vector<double>& d_p);

/// Gradients with respect to the factors of a product.
struct ProductGradients {
  Matrix<double> d_a;  ///< d_c b^T
  Matrix<double> d_b;  ///< a^T d_c
};

/// The gradients through c = a b.
/// @param a   [rows, inner]
/// @param b   [inner, cols]
/// @param d_c [rows, cols]
ProductGradients product_backward(const Matrix<double>& a, const Matrix<double>& b,
                                  const Matrix<double>& d_c);

/// The probabilities from the scores and LSE, exp(s - lse); 0 in rows of which LSE is -infinity.
/// @param s   [rows, cols], -infinity where hidden
/// @param lse [rows], natural logarithm
Matrix<double> recomputed_probs(const Matrix<double>& s, const Vector<double>& lse);

/// What is wrong with a backward pass. Each is a mistake that people have made.
enum class Mistake {
  kNone,                ///< nothing
  kNoDelta,             ///< dS = P o dP
  kDeltaPerElement,     ///< dS = P * (dP - P * dP): the sum is forgotten
  kSoftmaxSign,         ///< the Jacobian of softmax with + off the diagonal
  kNoScaleInDq,         ///< dQ = dS K
  kNoScaleInDk,         ///< dK = dS^T Q
  kScaleTwiceInDk,      ///< dK from Q that is scaled already, and scaled
  kLseInBaseTwo,        ///< P = exp(S - LSE) with LSE in base 2
  kMaskForgotten,       ///< P = exp(S - LSE) for masked keys, too
  kUndroppedInDv,       ///< dV = P^T dO, although dropout was applied
  kDropoutLeftOutOfDp,  ///< dP = dO V^T, although dropout was applied
};

/// A mistake, and a few words for tables.
struct NamedMistake {
  Mistake mistake;
  const char* name;  ///< "delta omitted"
};

/// All of them, kNone first.
const std::vector<NamedMistake>& all_mistakes();

/// One head of attention with a random gradient of its output. It is causal with more queries than
/// keys, so the first queries see no key, and it has dropout.
struct HeadProblem {
  Tensor<double, 4> q;                ///< [1, 1, length_q, head_dim]
  Tensor<double, 4> k;                ///< [1, 1, length_k, head_dim]
  Tensor<double, 4> v;                ///< [1, 1, length_k, head_dim]
  Tensor<double, 4> d_o;              ///< [1, 1, length_q, head_dim]
  Tensor<std::uint8_t, 4> keep;       ///< [1, 1, length_q, length_k]
  double dropout_probability = 0.25;  ///< of each element of P

  /// The options of lesson 01 for it; they point into this problem.
  AttentionOptions options() const;
};

/// A problem of random numbers.
HeadProblem head_problem(std::uint64_t seed);

/// The gradients of a problem in matrices, as this lesson derives them: from Q, K, V, dO, and of
/// the forward pass O and LSE only.
naive::Gradients<double> head_gradients(const HeadProblem& problem,
                                        Mistake mistake = Mistake::kNone);

/// How far gradients are from central differences of lesson 01's forward pass, relative to the
/// largest.
struct GradientErrors {
  double d_q = 0;  ///< of d_q
  double d_k = 0;  ///< of d_k
  double d_v = 0;  ///< of d_v
  /// The largest of the three; a NaN is kept.
  double worst() const;
};

/// Checks gradients of a problem.
GradientErrors errors_of(const HeadProblem& problem, const naive::Gradients<double>& gradients);

/// How far the two sides of a statement are apart.
struct Comparison {
  std::string what;       ///< the statement, in words
  double difference = 0;  ///< relative to the larger side
  double allowed = 0;     ///< what rounding, or the step of central differences, explains
};

/// The statements, in the order of the page.
std::vector<Comparison> statements();

}  // namespace fa::backward
