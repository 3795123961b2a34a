/// @file
/// The backward kernels with functors as the tests see them: inputs, what they return, and how it
/// is checked.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "05_flash_forward/src/functors.hpp"
#include "06_flash_backward/src/problem.hpp"
#include "common/attention/host/step.hpp"

namespace fa::backward::functors {

/// Inputs of the backward pass with a functor.
struct FunctorInputs : Inputs {
  FunctorSpec spec;  ///< without pointers
  FunctorTables tables;
};

/// What it returns. Where a functor has no bias, or no sinks, their gradient has no elements.
struct FunctorGradients : Gradients {
  Tensor<float, 1> d_bias;   ///< as FunctorTables::bias
  Tensor<float, 1> d_sinks;  ///< [heads]
};

/// One kernel with functors.
using LadderStep = attention::LadderStep<FunctorInputs, FunctorGradients>;

/// What runs them.
struct Backend : LadderBackend<LadderStep> {};

/// The backends of this build: the lab first.
std::vector<Backend> backends();

/// Random inputs of a problem with a functor; O and LSE from lesson 01 in float64.
FunctorInputs functor_inputs(const Problem& problem, const FunctorSpec& spec, Values values,
                             std::uint64_t seed, const flash::functors::ChangeTables& change = {});

/// Checks dQ, dK, dV and the gradients of bias and sinks against lesson 01 with the functor. What
/// follows from the rounding of O and LSE is allowed, as in backward::Checker.
class FunctorChecker {
 public:
  /// Computes lesson 01's gradients in float64, and in the problem's type.
  FunctorChecker(const Problem& problem, const FunctorInputs& inputs);
  /// The verdicts on all gradients.
  /// @throws std::invalid_argument when one has another shape
  std::vector<Verdict> check(const std::string& name, const FunctorGradients& gradients) const;

 private:
  struct Expected {
    Tensor<double, 4> d_q, d_k, d_v;
    Tensor<double, 1> d_bias, d_sinks;
  };
  // Gradients of lesson 01, or errors of them, with that of the bias from those of the scores.
  template <class G>
  static Expected expected_of(const FunctorInputs& inputs, const G& gradients);

  Type type_;
  Expected ref_;
  std::array<Distance, 5> allowed_;  // of these, before the factor
};

}  // namespace fa::backward::functors
