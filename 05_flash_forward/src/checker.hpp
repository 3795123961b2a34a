/// @file
/// Lesson 01 as the reference of the kernels: the outputs of the forward pass are checked against
/// it.
#pragma once

#include <string>
#include <vector>

#include "01_naive_attention/attention.hpp"
#include "common/attention/host/problem.hpp"

namespace fa::flash {

using namespace attention;  // problems and steps, which lesson 06 has as well

/// Lesson 01's options for a problem. They point into the mask, which must outlive them.
/// @param keep    filled when there is dropout
AttentionOptions options_of(const Problem& problem, Tensor<std::uint8_t, 4>& keep);

/// No sum of |q k| is larger, scaled: a bound by Cauchy and Schwarz. A score is a sum whose terms
/// may cancel, so its rounding errors go by them.
double score_magnitude(const AttentionOptions& options, const Inputs& inputs);

/// The verdicts on O and LSE.
/// @param ref       lesson 01 in float64
/// @param plain     the textbook algorithm in the type
/// @param magnitude of score_magnitude()
/// @throws std::invalid_argument when one has another shape
std::vector<Verdict> verdicts(const std::string& name, Type type, const Outputs& outputs,
                              const naive::Forward<double>& ref, const Outputs& plain,
                              double magnitude);

/// Checks the outputs of a kernel, O and LSE, against lesson 01.
class Checker {
 public:
  /// Computes lesson 01 in float64, and in the problem's type.
  /// @throws std::invalid_argument as naive::forward()
  Checker(const Problem& problem, const Inputs& inputs);
  /// The verdicts on O and LSE.
  /// @throws std::invalid_argument when one has another shape
  std::vector<Verdict> check(const std::string& name, const Outputs& outputs) const;

 private:
  Problem problem_;
  naive::Forward<double> ref_;
  Outputs plain_;
  double score_magnitude_ = 0;  // no sum of |q k| is larger, scaled
};

}  // namespace fa::flash
