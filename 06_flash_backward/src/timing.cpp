#include <algorithm>
#include <utility>

#include "06_flash_backward/src/sections.hpp"

namespace fa::backward {

Inputs timed_inputs(const Backend& backend, const Problem& problem) {
  const std::int64_t n = problem.shape.length_q, d = problem.shape.head_dim;
  Problem one = problem;
  one.shape = {1, 1, 1, n, n, d};
  attention::Inputs forward = attention::timed_inputs(n, d);
  attention::Outputs outputs = backend.forward(one, forward);
  Tensor<float, 4> d_o = attention::timed_inputs(n, d).v;
  // Not the values: P and dP would be of the same matrix.
  std::reverse(d_o.data(), d_o.data() + d_o.count());
  return {std::move(forward), std::move(outputs.o), std::move(outputs.lse), std::move(d_o)};
}

std::vector<cli::Measurement> time_rungs(const Backend& backend, const TimedGroup& group) {
  const TimingRules<Inputs> rules{
      5, "06", [&](const Problem& problem) { return timed_inputs(backend, problem); }};
  return attention::time_rungs(backend, group, rules);
}

}  // namespace fa::backward
