/// @file
/// The softmax of one row in float32, without anything else: as its definition reads, and safe.
/// softmax.hpp has both for all types, and counts what they do.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace fa::safe {

/// exp(x) / sum exp(x), as the definition reads.
/// @return the probabilities; NaN where an exponential overflows
//! [definition]
inline std::vector<float> softmax(const std::vector<float>& x) {
  float l = 0;
  for (const float s : x) l += std::exp(s);
  std::vector<float> p;
  for (const float s : x) p.push_back(std::exp(s) / l);
  return p;
}
//! [definition]

/// The same, with the largest score subtracted from all of them.
/// @param x scores, at least one, finite
/// @return the probabilities
//! [safe]
inline std::vector<float> shifted_softmax(const std::vector<float>& x) {
  const float m = *std::max_element(x.begin(), x.end());
  float l = 0;
  for (const float s : x) l += std::exp(s - m);
  std::vector<float> p;
  for (const float s : x) p.push_back(std::exp(s - m) / l);
  return p;
}
//! [safe]

}  // namespace fa::safe
