/// @file
/// The softmax of one row in float32, without anything else: directly from its definition, and
/// safe. softmax.hpp has both for all types, and counts what they do.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace fa::safe {

/// exp(s) / sum exp(s), directly from the definition.
/// @return the probabilities; NaN where an exponential overflows
//! [definition]
inline std::vector<float> softmax(const std::vector<float>& scores) {
  float l = 0;
  for (const float s : scores) l += std::exp(s);
  std::vector<float> p;
  for (const float s : scores) p.push_back(std::exp(s) / l);
  return p;
}
//! [definition]

/// The same, with the largest score subtracted from all of them.
/// @param scores scores, at least one, finite
/// @return the probabilities
//! [safe]
inline std::vector<float> shifted_softmax(const std::vector<float>& scores) {
  const float m = *std::max_element(scores.begin(), scores.end());
  float l = 0;
  for (const float s : scores) l += std::exp(s - m);
  std::vector<float> p;
  for (const float s : scores) p.push_back(std::exp(s - m) / l);
  return p;
}
//! [safe]

}  // namespace fa::safe
