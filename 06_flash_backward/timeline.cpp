#include "06_flash_backward/timeline.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "05_flash_forward/ladder.hpp"

namespace fa::backward {
namespace {

namespace ladder = flash::ladder;

// All rungs are drawn with the same scale: so many cycles.
constexpr double kScale = 52000;

// The first rung that has a time line.
const std::string kFirst = "08";

// Of the first rung Q comes before dO, as in the others; dV leaves before dK.
const lab::Legend kLegend{{"K", "Q", "V", "dO", "dV", "dK"},
                          {{lab::Span::Kind::kLoad, "copy, to its landing"},
                           {lab::Span::Kind::kStore, "copy of dV, dK"},
                           {lab::Span::Kind::kScores, "products S, dP"},
                           {lab::Span::Kind::kOutput, "products dV, dK"},
                           {lab::Span::Kind::kByColumns, "product dQ"},
                           {lab::Span::Kind::kWork, "P and dS"},
                           {lab::Span::Kind::kBulkAdd, "additions to dQ"},
                           {lab::Span::Kind::kWaitsForOthers, "waits"}}};

Problem problem_of(std::int64_t length_q, std::int64_t length_k,
                   std::int64_t head_dim, bool causal) {
  Problem problem =
      ladder::problem_of({1, 1, 1, length_q, length_k, head_dim}, causal);
  problem.type = Type::kFloat16;
  return problem;
}

// How busy the tensor cores are: in the problem that is drawn, with other costs, with more queries, and under the mask.
void show_table(const std::vector<const Rung*>& rungs) {
  cli::Table table({"tensor cores busy", "cycles", "drawn", "alternating",
                    "2048 queries", "causal", "D 64"});
  for (const Rung* rung : rungs) {
    std::vector<std::string> cells{rung->name};
    cli::add_busy(cells, timeline_of(*rung, drawn_problem()));
    cells.push_back(
        cli::busy(timeline_of(*rung, drawn_problem(), cli::alternating())));
    for (const Problem& problem : {problem_of(2048, 256, 128, false),
                                   problem_of(1024, 1024, 128, true),
                                   problem_of(2048, 256, 64, false)}) {
      cells.push_back(cli::busy(timeline_of(*rung, problem)));
    }
    table.add(cells);
  }
  fmt::print(
      "{}\n{}"
      "alternating: as drawn, if products of two warpgroups alternate\n"
      "causal: 1024 queries and keys; D 64: 2048 queries, head_dim 64\n",
      ladder::words_of(drawn_problem()), table.text());
}

}  // namespace

Problem drawn_problem() {
  return problem_of(256, 256, 128, false);
}

lab::Timeline timeline_of(const Rung& rung, const Problem& problem,
                          const lab::Costs& costs) {
  const auto inputs = backward::make_inputs(problem, Values::kNormal, 1);
  lab::Timeline result =
      lab::replayed([&] { rung.prepare(problem, inputs).launch(); }, costs);
  // Tensors have numbers by their first appearance. Rung 08 asks for V before Q, the others for Q before V.
  if (rung.name == "08_wgmma") {
    for (lab::Span& copy : result.copies) {
      if (copy.tensor == 1 || copy.tensor == 2) copy.tensor = 3 - copy.tensor;
    }
  }
  return result;
}

void show_timelines(const Machine& machine,
                    const cli::TimelineOptions& options) {
  const auto rungs =
      cli::rungs_with_timeline(machine.rungs, options.kernel, kFirst);
  std::vector<lab::NamedTimeline> drawn;
  for (const Rung* rung : rungs) {
    drawn.push_back(
        {fmt::format("{}, {}", rung->name, ladder::words_of(drawn_problem())),
         timeline_of(*rung, drawn_problem())});
  }
  cli::show_timelines(options, drawn, kFirst, kLegend, kScale, "P, dS",
                      [&] { show_table(rungs); });
}

}  // namespace fa::backward
