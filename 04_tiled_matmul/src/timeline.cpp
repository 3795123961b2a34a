#include <string>
#include <vector>

#include <fmt/format.h>

#include "04_tiled_matmul/src/sections.hpp"

namespace fa::tiled {

cli::RecordedStep recorded(const Backend& backend, const Kernel& step) {
  const Inputs inputs = group_of(backend, "mma").inputs(kDrawn.m, kDrawn.n, kDrawn.k);
  return {step.name,
          fmt::format("C of {} x {}, depth {}", kDrawn.m, kDrawn.n, kDrawn.k),
          {"A", "B"},
          lab::record_matmuls([&] { step.prepare(inputs).launch(); })};
}

void show_operations(const Backend& backend, const cli::TimelineOptions& options) {
  std::vector<cli::RecordedStep> steps;
  for (const Kernel* step : cli::steps_with_timeline(
           group_of(backend, "mma").kernels, options.kernel, [](const Kernel& kernel) {
             return kernel.needs.architecture == 90 && kernel.tiles.cluster == 1;
           })) {
    steps.push_back(recorded(backend, *step));
  }
  cli::show_timelines(options, steps, "");
}

}  // namespace fa::tiled
