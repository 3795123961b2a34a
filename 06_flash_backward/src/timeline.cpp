#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "06_flash_backward/src/sections.hpp"

namespace fa::backward {
Inputs random_inputs(const Problem& problem) {
  return backward::make_inputs(problem, Values::kNormal, 1);
}

Problem drawn_problem(const LadderStep& step) {
  return step.drawn.value();
}

namespace {

// Whether a step has blocks of queries beside blocks of keys: where dQ, dK and dV together need too
// many registers.
bool has_blocks_of_queries(const LadderStep& step) {
  return drawn_problem(step).shape.head_dim > 192;
}

// Tensors by their first appearance. Most steps ask for K, Q, V and dO in this order, and write dV
// before dK. Step 08 asks for V before Q; blocks of queries ask for Q, K, dO and V, and write dQ.
std::vector<std::string> tensors_of(const LadderStep& step) {
  if (step.name == "08_wgmma") return {"K", "V", "Q", "dO", "dV", "dK"};
  if (has_blocks_of_queries(step)) return {"Q", "K", "dO", "V", "dQ", "dV", "dK"};
  return {"K", "Q", "V", "dO", "dV", "dK"};
}

}  // namespace

cli::RecordedStep recorded(const LadderStep& step, const Problem& problem) {
  const auto inputs = random_inputs(problem);
  return {step.name, problem.words(), tensors_of(step),
          lab::record_matmuls([&] { step.prepare(problem, inputs).launch(); })};
}

void show_timelines(const Backend& backend, const cli::TimelineOptions& options) {
  std::vector<cli::RecordedStep> steps;
  for (const LadderStep* step :
       cli::steps_with_timeline(backend.steps, options.kernel,
                                [](const LadderStep& one) { return one.drawn.has_value(); })) {
    steps.push_back(recorded(*step, drawn_problem(*step)));
  }
  cli::show_timelines(options, steps, "P, dS");
}

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

std::vector<cli::Measurement> time_steps(const Backend& backend, const TimedGroup& group) {
  const TimingRules<Inputs> rules{
      5, "06", [&](const Problem& problem) { return timed_inputs(backend, problem); }};
  return attention::time_steps(backend, group, rules);
}

}  // namespace fa::backward
