#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "06_flash_backward/src/sections.hpp"

namespace fa::backward {
namespace {

// All rungs are drawn with the same scale: so many cycles.
constexpr double kScale = 52000;

// The first rung that has a timeline.
const std::string kFirst = "08";

// Names of tensors in the order of timeline_of().
const std::vector<std::string> kTensors{"K", "Q", "V", "dO", "dV", "dK", "dQ"};

// Of the rungs that add to dQ.
const lab::Legend kLegend{kTensors,
                          {{lab::Span::Kind::kLoad, "copy, until it arrives"},
                           {lab::Span::Kind::kStore, "store of dV, dK"},
                           {lab::Span::Kind::kScores, "matmuls S, dP"},
                           {lab::Span::Kind::kOutput, "matmuls dV, dK"},
                           {lab::Span::Kind::kByColumns, "matmul dQ"},
                           {lab::Span::Kind::kWork, "P and dS"},
                           {lab::Span::Kind::kBulkAdd, "additions to dQ"},
                           {lab::Span::Kind::kWaitsForOthers, "waits"}}};

// Of rung 13 alone.
const lab::Legend kWideLegend{kTensors,
                              {{lab::Span::Kind::kLoad, "copy, until it arrives"},
                               {lab::Span::Kind::kStore, "store of dQ, dV, dK"},
                               {lab::Span::Kind::kScores, "matmuls S, dP"},
                               {lab::Span::Kind::kOutput, "matmuls dQ, dV, dK"},
                               {lab::Span::Kind::kWork, "P and dS"},
                               {lab::Span::Kind::kWaitsForOthers, "waits"}}};

// Of the problems that are drawn; the second one for rung 13.
constexpr std::int64_t kDrawnHeadDim = 128, kDrawnWideHeadDim = 256;

bool is_wide(const Rung& rung) {
  return rung.min_head_dim > 128;
}
bool has_blocks_of_queries(const Rung& rung) {
  return rung.name == "13_wide_heads";
}

Problem one_head(std::int64_t length_q, std::int64_t length_k, std::int64_t head_dim, bool causal) {
  return problem_of(Type::kFloat16, {1, 1, 1, length_q, length_k, head_dim}, causal);
}

// How busy the tensor cores are: in the problem that is drawn, with other costs, with more
// queries, and under the mask.
void show_table(const std::vector<const Rung*>& rungs) {
  cli::Table table({"kernel", "cycles", "drawn", "alternating", "2048 queries", "causal", "D 64"});
  for (const Rung* rung : rungs) {
    const Problem drawn = drawn_problem(*rung);
    const std::int64_t head_dim = drawn.shape.head_dim;
    std::vector<std::string> cells{rung->name};
    cli::add_busy(cells, timeline_of(*rung, drawn));
    cells.push_back(cli::busy(timeline_of(*rung, drawn, cli::alternating())));
    for (const Problem& problem :
         {one_head(2048, 256, head_dim, false), one_head(1024, 1024, head_dim, true),
          one_head(2048, 256, 64, false)}) {
      cells.push_back(rung->supports(problem) ? cli::busy(timeline_of(*rung, problem)) : "-");
    }
    table.add(cells);
  }
  fmt::print(
      "Tensor cores busy, % of the time: {}, rung 13: {}\n{}"
      "alternating: as drawn, if the matmuls of two warpgroups alternate\n"
      "causal: 1024 queries and keys; D 64: 2048 queries, head_dim 64\n",
      one_head(256, 256, kDrawnHeadDim, false).words(), kDrawnWideHeadDim, table.text());
}

}  // namespace

Inputs random_inputs(const Problem& problem) {
  return backward::make_inputs(problem, Values::kNormal, 1);
}

Problem drawn_problem(const Rung& rung) {
  const std::int64_t head_dim = is_wide(rung) ? kDrawnWideHeadDim : kDrawnHeadDim;
  return one_head(256, 256, rung.head_dim_near(head_dim), false);
}

namespace {

// A timeline of a rung with the numbers of kTensors.
lab::Timeline with_tensors(const Rung& rung, lab::Timeline result) {
  // Tensors have numbers by their first appearance. Most rungs ask for K, Q, V and dO in this
  // order, and write dV before dK. Rung 08 asks for V before Q; blocks of queries of rung 13 ask
  // for Q, K, dO and V, and write dQ.
  std::vector<int> numbers{0, 1, 2, 3, 4, 5};
  if (rung.name == "08_wgmma") numbers = {0, 2, 1, 3, 4, 5};
  if (has_blocks_of_queries(rung)) numbers = {1, 0, 3, 2, 6, 4, 5};
  for (lab::Span& copy : result.copies) {
    if (copy.tensor >= 0) {
      copy.tensor = numbers.at(static_cast<std::size_t>(copy.tensor));
    }
  }
  return result;
}

}  // namespace

lab::Timeline timeline_of(const Rung& rung, const Problem& problem, const lab::Costs& costs) {
  const auto inputs = random_inputs(problem);
  return with_tensors(rung, lab::replayed([&] { rung.prepare(problem, inputs).launch(); }, costs));
}

void show_timelines(const Backend& backend, const cli::TimelineOptions& options) {
  const auto rungs =
      cli::rungs_with_timeline(backend.rungs, options.kernel, kFirst, [](const Rung& rung) {
        return rung.supports(drawn_problem(rung)) &&
               rung.tiles.front().cluster == 1;  // they are of one SM
      });
  std::vector<lab::NamedTimeline> drawn;
  for (const Rung* rung : rungs) {
    const Problem problem = drawn_problem(*rung);
    drawn.push_back(
        {fmt::format("{}, {}", rung->name, problem.words()), timeline_of(*rung, problem)});
    cli::add_measured(drawn, options, rung->name, [&](const auto& stamps) {
      return with_tensors(*rung, lab::timeline_of_stamps(stamps));
    });
  }
  const bool wide = std::all_of(rungs.begin(), rungs.end(),
                                [](const Rung* rung) { return has_blocks_of_queries(*rung); });
  cli::show_timelines(options, drawn, kFirst, wide ? kWideLegend : kLegend, kScale, "P, dS",
                      [&] { show_table(rungs); });
}

}  // namespace fa::backward
