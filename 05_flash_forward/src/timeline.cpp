#include <string>
#include <vector>

#include <fmt/format.h>

#include "05_flash_forward/src/sections.hpp"

namespace fa::flash {
namespace {

// Rungs that are drawn at the same problem have the same scale: so many cycles.
constexpr double kScale = 36000;

// The first rung that has a timeline.
const std::string kFirst = "09";

const lab::Legend kLegend{{"Q", "K", "V", "O"},
                          {{lab::Span::Kind::kLoad, "copy, until it arrives"},
                           {lab::Span::Kind::kStore, "store of O"},
                           {lab::Span::Kind::kScores, "matmul Q K^T"},
                           {lab::Span::Kind::kOutput, "matmul P V"},
                           {lab::Span::Kind::kWork, "softmax"},
                           {lab::Span::Kind::kWaitsForOthers, "waits"}}};

Problem one_head(std::int64_t length_q, std::int64_t length_k, std::int64_t head_dim, bool causal) {
  return problem_of(Type::kFloat16, {1, 1, 1, length_q, length_k, head_dim}, causal);
}

// How busy the tensor cores are without a mask: in the problem that is drawn, in a longer one, and
// with other costs.
void show_lengths(const std::vector<const Rung*>& rungs) {
  const Problem drawn = one_head(256, 512, 128, false), longer = one_head(256, 4096, 128, false);
  cli::Table table({"kernel", "cycles", "512 keys", "alternating", "4096 keys", "no copy time"});
  for (const Rung* rung : rungs) {
    std::vector<std::string> cells{rung->name};
    cli::add_busy(cells, timeline_of(*rung, drawn));
    cells.push_back(cli::busy(timeline_of(*rung, drawn, cli::alternating())));
    cells.push_back(cli::busy(timeline_of(*rung, longer)));
    cells.push_back(cli::busy(timeline_of(*rung, longer, cli::at_once())));
    table.add(cells);
  }
  fmt::print(
      "Tensor cores busy, % of the time: {}\n{}"
      "alternating: 512 keys, if the matmuls of two warpgroups alternate\n"
      "no copy time: 4096 keys, if copies took no time\n\n",
      drawn.words(), table.text());
}

// What a mask leaves.
void show_mask(const std::vector<const Rung*>& rungs) {
  cli::Table table({"kernel", "cycles", "no mask", "cycles", "causal"});
  for (const Rung* rung : rungs) {
    std::vector<std::string> cells{rung->name};
    for (const bool causal : {false, true}) {
      cli::add_busy(cells, timeline_of(*rung, one_head(384, 512, 64, causal)));
    }
    table.add(cells);
  }
  fmt::print(
      "Tensor cores busy, % of the time: {}\n"
      "(rungs 09 to 14 multiply 128 columns, half of them zeros)\n{}\n",
      one_head(384, 512, 64, false).words(), table.text());
}

}  // namespace

Inputs random_inputs(const Problem& problem) {
  return make_inputs(problem, Values::kNormal, 1);
}

Problem drawn_problem(const Rung& rung) {
  return rung.name < "15" ? one_head(256, 512, 128, false) : one_head(384, 512, 64, true);
}

lab::Timeline timeline_of(const Rung& rung, const Problem& problem, const lab::Costs& costs) {
  const Inputs inputs = random_inputs(problem);
  return lab::replayed([&] { rung.prepare(problem, inputs).launch(); }, costs);
}

void show_timelines(const Backend& backend, const cli::TimelineOptions& options) {
  const auto rungs =
      cli::rungs_with_timeline(backend.rungs, options.kernel, kFirst,
                               [](const Rung& rung) { return rung.supports(drawn_problem(rung)); });
  std::vector<lab::NamedTimeline> drawn;
  for (const Rung* rung : rungs) {
    const Problem problem = drawn_problem(*rung);
    const std::string name = fmt::format("{}, {}", rung->name, problem.words());
    drawn.push_back({name, timeline_of(*rung, problem)});
    // The scheduler barrier matters only if the matmuls of two warpgroups can alternate.
    if (options.stamps.runs.empty() &&
        (rung->name == "11_overlap" || rung->name == "12_ping_pong")) {
      drawn.push_back({name + ", alternating", timeline_of(*rung, problem, cli::alternating())});
    }
    cli::add_measured(drawn, options, rung->name, lab::timeline_of_stamps);
  }
  const bool to_scale = !rungs.empty() && rungs.front()->name < "15";
  cli::show_timelines(options, drawn, kFirst, kLegend, to_scale ? kScale : 0, "softmax", [&] {
    show_lengths(rungs);
    show_mask(rungs);
  });
}

}  // namespace fa::flash
