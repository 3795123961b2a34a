#include <string>
#include <vector>

#include "05_flash_forward/src/sections.hpp"

namespace fa::flash {
namespace {

Problem one_head(std::int64_t length_q, std::int64_t length_k, std::int64_t head_dim, bool causal) {
  return problem_of(Type::kFloat16, {1, 1, 1, length_q, length_k, head_dim}, causal);
}

}  // namespace

Inputs random_inputs(const Problem& problem) {
  return make_inputs(problem, Values::kNormal, 1);
}

Problem drawn_problem(const Rung& rung) {
  return rung.name < "15" ? one_head(256, 512, 128, false) : one_head(384, 512, 64, true);
}

cli::RecordedRung recorded(const Rung& rung, const Problem& problem) {
  const Inputs inputs = random_inputs(problem);
  return {rung.name, problem.words(), {"Q", "K", "V", "O"}, lab::record_matmuls([&] {
            rung.prepare(problem, inputs).launch();
          })};
}

void show_timelines(const Backend& backend, const cli::TimelineOptions& options) {
  const std::string first = "09";
  std::vector<cli::RecordedRung> rungs;
  for (const Rung* rung :
       cli::rungs_with_timeline(backend.rungs, options.kernel, first,
                                [](const Rung& one) { return one.supports(drawn_problem(one)); })) {
    rungs.push_back(recorded(*rung, drawn_problem(*rung)));
  }
  cli::show_timelines(options, rungs, first, "softmax");
}

}  // namespace fa::flash
