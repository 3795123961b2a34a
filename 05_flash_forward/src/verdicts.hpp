/// @file
/// The decision on the outputs of a forward pass, for all checkers of this lesson.
#pragma once

#include <string>
#include <vector>

#include "05_flash_forward/src/checker.hpp"

namespace fa::flash {

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

}  // namespace fa::flash
