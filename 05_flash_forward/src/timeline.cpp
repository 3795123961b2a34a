#include <string>
#include <vector>

#include "05_flash_forward/src/sections.hpp"

namespace fa::flash {
Inputs random_inputs(const Problem& problem) {
  return make_inputs(problem, Values::kNormal, 1);
}

Problem drawn_problem(const Rung& rung) {
  return rung.drawn.value();
}

cli::RecordedRung recorded(const Rung& rung, const Problem& problem) {
  const Inputs inputs = random_inputs(problem);
  return {rung.name, problem.words(), {"Q", "K", "V", "O"}, lab::record_matmuls([&] {
            rung.prepare(problem, inputs).launch();
          })};
}

void show_timelines(const Backend& backend, const cli::TimelineOptions& options) {
  std::vector<cli::RecordedRung> rungs;
  for (const Rung* rung : cli::rungs_with_timeline(
           backend.rungs, options.kernel, [](const Rung& one) { return one.drawn.has_value(); })) {
    rungs.push_back(recorded(*rung, drawn_problem(*rung)));
  }
  cli::show_timelines(options, rungs, "softmax");
}

}  // namespace fa::flash
