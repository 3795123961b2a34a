#include <string>
#include <vector>

#include "05_flash_forward/src/sections.hpp"

namespace fa::flash {
Inputs random_inputs(const Problem& problem) {
  return make_inputs(problem, Values::kNormal, 1);
}

Problem drawn_problem(const LadderStep& step) {
  return step.drawn.value();
}

cli::RecordedStep recorded(const LadderStep& step, const Problem& problem) {
  const Inputs inputs = random_inputs(problem);
  return {step.name, problem.words(), {"Q", "K", "V", "O"}, lab::record_matmuls([&] {
            step.prepare(problem, inputs).launch();
          })};
}

void show_timelines(const Backend& backend, const cli::TimelineOptions& options) {
  std::vector<cli::RecordedStep> steps;
  for (const LadderStep* step :
       cli::steps_with_timeline(backend.steps, options.kernel,
                                [](const LadderStep& one) { return one.drawn.has_value(); })) {
    steps.push_back(recorded(*step, drawn_problem(*step)));
  }
  cli::show_timelines(options, steps, "softmax");
}

}  // namespace fa::flash
