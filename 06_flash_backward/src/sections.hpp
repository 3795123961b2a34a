/// @file
/// Lesson 06: sections of the program, in the files that narrate them, and how the steps are timed.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "06_flash_backward/src/backend.hpp"
#include "common/attention/host/sections.hpp"
#include "common/attention/host/timing.hpp"
#include "common/cli/program.hpp"

namespace fa::backward {

/// The tape and training (training_sections.cpp).
/// @param backends with the lab; must outlive the program's run
void add_training(cli::Program& program, const std::vector<Backend>& backends);

/// What is timed: one head, which stands for all heads of all sequences.
/// @param backend computes o and lse
/// @param problem what is timed; its type is one of the backend's forward pass
inline Inputs timed_inputs(const Backend& backend, const Problem& problem) {
  const std::int64_t n = problem.shape.length_q, d = problem.shape.head_dim;
  Problem one = problem;
  one.shape = {1, 1, 1, n, n, d};
  attention::Inputs forward = attention::timed_inputs(n, d);
  Outputs outputs = backend.forward(one, forward);
  Tensor<float, 4> d_o = attention::timed_inputs(n, d).v;
  // Not the values: P and dP would be of the same matrix.
  std::reverse(d_o.data(), d_o.data() + d_o.count());
  return {std::move(forward), std::move(outputs.o), std::move(outputs.lse), std::move(d_o)};
}

/// Times the steps on one group, five matmuls counted, lesson 05's forward pass on its problems
/// before; see attention::time_steps().
inline std::vector<cli::Measurement> time_steps(const Backend& backend, const TimedGroup& group) {
  return attention::time_steps(
      backend, group, 5, [&](const Problem& problem) { return timed_inputs(backend, problem); });
}

}  // namespace fa::backward
