/// @file
/// Time lines of rungs for Hopper, as the program of this lesson and that of the next show them.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "05_flash_forward/problem.hpp"
#include "common/cli/kernel_options.hpp"
#include "common/cli/table.hpp"
#include "common/files/write_file.hpp"
#include "common/lab/replay.hpp"
#include "common/lab/timeline.hpp"

namespace fa::flash::ladder {

/// What a section of time lines shows.
struct TimelineOptions {
  std::string kernel;  ///< only rungs whose name holds this text
  std::string svg;   ///< file for the drawing; "-": nothing but that, printed
  std::string json;  ///< file for programs, or empty
};

/// The sizes of a problem in words.
inline std::string words_of(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  return fmt::format("{} queries, {} keys, head_dim {}{}", s.length_q,
                     s.length_k, s.head_dim,
                     problem.causal ? ", causal" : "");
}

/// A launch on one multiprocessor: of its blocks those that multiply, without kernels before and after.
/// @param rung    of the machine "lab"
/// @param problem that it computes
/// @param inputs  of it
/// @param costs   of the model
/// @throws std::runtime_error when the rung does not compute in the lab
template <class Rung, class Problem, class Inputs>
lab::Timeline replayed(const Rung& rung, const Problem& problem,
                       const Inputs& inputs, const lab::Costs& costs) {
  // Prepared there, too: a persistent grid is as large as the device.
  std::vector<lab::BlockRecord> blocks =
      lab::record([&] { rung.prepare(problem, inputs).launch(); });
  const auto idle = [](const lab::BlockRecord& block) {
    return std::none_of(
        block.warps.begin(), block.warps.end(), [](const auto& steps) {
          return std::any_of(steps.begin(), steps.end(),
                             [](const lab::Step& step) {
                               return step.kind == lab::Step::Kind::kProduct;
                             });
        });
  };
  blocks.erase(std::remove_if(blocks.begin(), blocks.end(), idle),
               blocks.end());
  return lab::replay(blocks, costs);
}

/// The rungs that have a time line and whose name holds a text.
/// @param machine with the rungs
/// @param kernel  the text
/// @param first   the number of the first rung that has one, "09"
template <class Machine>
auto rungs_with_timeline(const Machine& machine, const std::string& kernel,
                         const std::string& first) {
  std::vector<decltype(machine.rungs.data())> rungs;
  for (const auto& rung : machine.rungs) {
    if (rung.name >= first && rung.name.find(kernel) != std::string::npos) {
      rungs.push_back(&rung);
    }
  }
  return rungs;
}

/// How busy the tensor cores are, in words.
inline std::string busy(const lab::Timeline& timeline) {
  return fmt::format("{:.0f} %", 100 * timeline.tensor_share());
}

/// Two cells of a table: cycles, and how busy the tensor cores are.
inline void add_busy(std::vector<std::string>& cells,
                     const lab::Timeline& timeline) {
  cells.push_back(fmt::format("{:.0f}", timeline.cycles));
  cells.push_back(busy(timeline));
}

/// The costs if tensor cores take products of two warpgroups in turn.
inline lab::Costs alternating() {
  lab::Costs costs;
  costs.waiting_products = 1;
  return costs;
}

/// Prints what the warps of each warpgroup do, as shares of the time.
/// @param one  a time line
/// @param work what arithmetic is: "softmax"
inline void show_shares(const lab::NamedTimeline& one,
                        const std::string& work) {
  using Kind = lab::Span::Kind;
  const auto share = [&](int warp, Kind kind) {
    double sum = 0;
    for (const lab::Span& span : one.timeline.warps) {
      if (span.warp == warp && span.kind == kind)
        sum += span.end - span.begin;
    }
    return 100 * sum / one.timeline.cycles;
  };
  const std::vector<lab::Lane> lanes = lab::lanes_of(one.timeline);
  std::vector<std::pair<std::string, Kind>> columns{
      {work, Kind::kWork},
      {"waits for products", Kind::kWaitsForProducts},
      {"for copies", Kind::kWaitsForCopy},
      {"for others", Kind::kWaitsForOthers},
      {"for stores", Kind::kWaitsForStores}};
  if (std::any_of(lanes.begin(), lanes.end(), [&](const lab::Lane& lane) {
        return share(lane.warp, Kind::kAdds) > 0;
      })) {
    columns.emplace_back("adds", Kind::kAdds);
  }
  std::vector<std::string> headings{"% of the time"};
  for (const auto& [heading, kind] : columns) headings.push_back(heading);
  cli::Table table(headings);
  for (const lab::Lane& lane : lanes) {
    std::vector<std::string> cells{lane.name};
    for (const auto& [heading, kind] : columns) {
      cells.push_back(fmt::format("{:.0f}", share(lane.warp, kind)));
    }
    table.add(cells);
  }
  fmt::print("{}\n{:.0f} cycles, tensor cores busy for {}\n{}\n", one.name,
             one.timeline.cycles, busy(one.timeline), table.text());
}

/// Shows time lines as the options ask: the drawing alone, or tables and files.
/// @param options of the program
/// @param drawn   time lines; none where the options mean rungs that have none
/// @param first   the number of the first rung that has one, "09"
/// @param legend  of the drawing
/// @param cycles  that the drawing's width stands for at least
/// @param work    what arithmetic is: "softmax"
/// @param tables  prints what is said of all rungs
/// @throws std::runtime_error when a file cannot be written
template <class Tables>
void show_timelines(const TimelineOptions& options,
                    const std::vector<lab::NamedTimeline>& drawn,
                    const std::string& first, const lab::Legend& legend,
                    double cycles, const std::string& work, Tables tables) {
  const std::string svg =
      drawn.empty() ? "" : lab::draw_timelines(drawn, legend, cycles);
  if (options.svg == "-") {
    fmt::print("{}", svg);
    return;
  }
  if (drawn.empty()) {
    fmt::print("Time lines are of rungs {} and later: {} has none.\n", first,
               options.kernel);
    return;
  }
  fmt::print("On one multiprocessor: a model, not a measurement\n\n");
  if (options.kernel.empty()) {
    tables();
  } else {
    for (const lab::NamedTimeline& one : drawn) show_shares(one, work);
  }
  if (!options.svg.empty()) {
    write_file(options.svg, svg);
    fmt::print("The time line: {}\n", options.svg);
  }
  if (!options.json.empty()) {
    write_file(options.json, lab::timelines_json(drawn, legend.tensors));
    fmt::print("The time line for programs: {}\n", options.json);
  }
}

/// The options of a section of time lines.
/// @param options of the program
/// @param machine with the rungs
/// @param lesson  its directory
/// @throws std::invalid_argument when no rung is wanted
template <class Machine>
TimelineOptions timeline_options(const cli::KernelOptions& options,
                                 const Machine& machine,
                                 const std::string& lesson) {
  std::vector<std::string> names;
  for (const auto& rung : machine.rungs) names.push_back(rung.name);
  cli::check_kernel(options, names, lesson);
  return {options.kernel, options.svg, options.json};
}

}  // namespace fa::flash::ladder
