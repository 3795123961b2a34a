#include <string>
#include <vector>

#include <fmt/format.h>

#include "04_tiled_matmul/src/sections.hpp"

namespace fa::tiled {

cli::RecordedRung recorded(const Backend& backend, const Kernel& rung) {
  const Inputs inputs = group_of(backend, "mma").inputs(kDrawn.m, kDrawn.n, kDrawn.k);
  return {rung.name,
          fmt::format("C of {} x {}, depth {}", kDrawn.m, kDrawn.n, kDrawn.k),
          {"A", "B"},
          lab::record_matmuls([&] { rung.prepare(inputs).launch(); })};
}

void show_operations(const Backend& backend, const cli::TimelineOptions& options) {
  std::vector<cli::RecordedRung> rungs;
  for (const Kernel* rung : cli::rungs_with_timeline(
           group_of(backend, "mma").kernels, options.kernel, [](const Kernel& kernel) {
             return kernel.needs.architecture == 90 && kernel.tiles.cluster == 1;
           })) {
    rungs.push_back(recorded(backend, *rung));
  }
  cli::show_timelines(options, rungs, "");
}

}  // namespace fa::tiled
