/// @file
/// What grader and entry of 06_delta_and_dv exchange.
#pragma once

#include <tuple>
#include <vector>

#include "common/classroom/seen.hpp"

namespace fa::classroom {

/// The inputs, in the layout of the exercise.
struct PackedInputs {
  int heads, length_q, length_k;
  float scale;
  bool causal;
  std::vector<float> q, o, d_o, k, lse;
};
/// The members, for Wire.
inline auto parts(PackedInputs& x) {
  return std::tie(x.heads, x.length_q, x.length_k, x.scale, x.causal, x.q, x.o, x.d_o, x.k, x.lse);
}

}  // namespace fa::classroom
