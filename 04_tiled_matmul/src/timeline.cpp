#include <string>
#include <vector>

#include <fmt/format.h>

#include "04_tiled_matmul/src/sections.hpp"

namespace fa::tiled {
namespace {

// All rungs are drawn with the same scale: so many cycles.
constexpr double kScale = 58000;

// The first rung that has a timeline.
const std::string kFirst = "19";

const lab::Legend kLegend{{"A", "B"},
                          {{lab::Span::Kind::kLoad, "copy, until it arrives"},
                           {lab::Span::Kind::kByColumns, "matmul"},
                           {lab::Span::Kind::kWrites, "write of C"},
                           {lab::Span::Kind::kWork, "shuffle"},
                           {lab::Span::Kind::kWaitsForOthers, "waits"}}};

std::string words_of(const MatmulSizes& sizes) {
  return fmt::format("C of {} x {}, depth {}", sizes.m, sizes.n, sizes.k);
}

// How busy the tensor cores are: in the matmul that is drawn, in a deeper one, and with other
// costs.
void show_table(const Backend& backend, const std::vector<const Kernel*>& rungs) {
  const lab::Costs costs;
  MatmulSizes deeper = kDrawn;
  deeper.k *= 8;
  cli::Table table({"kernel", "cycles", "8 steps", "64 steps", "no copy time"});
  for (const Kernel* rung : rungs) {
    std::vector<std::string> cells{rung->name};
    cli::add_busy(cells, timeline_of(backend, *rung, kDrawn));
    cells.push_back(cli::busy(timeline_of(backend, *rung, deeper)));
    cells.push_back(cli::busy(timeline_of(backend, *rung, deeper, cli::at_once())));
    table.add(cells);
  }
  fmt::print(
      "Tensor cores busy, % of the time: {}\n{}"
      "64 steps: depth {}; no copy time: the same, if copies and stores took no time\n\n"
      "Cycles: {:.0f} for a matmul of 64 x 16 and 16 x 256; {} from the issue "
      "of a copy\nto its arrival, plus 1 per {} bytes (as for stores of C); {} from "
      "the end of\na block to the start of the next\n",
      words_of(kDrawn), table.text(), deeper.k, 64. * 16 * 256 * 2 / costs.flops,
      costs.copy_latency, costs.copied_bytes, costs.next_block);
}

}  // namespace

lab::Timeline timeline_of(const Backend& backend, const Kernel& rung, const MatmulSizes& sizes,
                          const lab::Costs& costs) {
  const Inputs inputs = group_of(backend, "mma").inputs(sizes.m, sizes.n, sizes.k);
  return lab::replayed([&] { rung.prepare(inputs).launch(); }, costs);
}

void show_timelines(const Backend& backend, const cli::TimelineOptions& options) {
  std::vector<Kernel> of_one_sm;  // what timelines are of
  for (const Kernel& kernel : group_of(backend, "mma").kernels) {
    if (kernel.tiles.cluster == 1) of_one_sm.push_back(kernel);
  }
  const auto rungs =
      cli::rungs_with_timeline(of_one_sm, options.kernel, kFirst, [](const auto&) { return true; });
  std::vector<lab::NamedTimeline> drawn;
  for (const Kernel* rung : rungs) {
    drawn.push_back(
        {fmt::format("{}, {}", rung->name, words_of(kDrawn)), timeline_of(backend, *rung, kDrawn)});
  }
  cli::show_timelines(options, drawn, kFirst, kLegend, kScale, "",
                      [&] { show_table(backend, rungs); });
}

}  // namespace fa::tiled
