/// @file
/// Time lines of rungs for Hopper, as the programs of lessons show them.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/cli/kernel_options.hpp"
#include "common/cli/table.hpp"
#include "common/files/escape.hpp"
#include "common/files/write_file.hpp"
#include "common/lab/replay.hpp"
#include "common/lab/timeline.hpp"

namespace fa::cli {

/// What a section of time lines shows.
struct TimelineOptions {
  std::string kernel;  ///< only rungs whose name holds this text
  std::string svg;   ///< file for the drawing; "-": nothing but that, printed
  std::string json;  ///< file for programs, or empty
};

/// The rungs that have a time line and whose name holds a text.
/// @param rungs  of the machine "lab"; must outlive what is returned
/// @param kernel the text
/// @param first  the number of the first rung that has one, "09"
template <class Rung>
std::vector<const Rung*> rungs_with_timeline(const std::vector<Rung>& rungs,
                                             const std::string& kernel,
                                             const std::string& first) {
  std::vector<const Rung*> result;
  for (const Rung& rung : rungs) {
    if (rung.name >= first && rung.name.find(kernel) != std::string::npos) {
      result.push_back(&rung);
    }
  }
  return result;
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

/// The costs if copies, stores and additions took no time.
inline lab::Costs at_once() {
  lab::Costs costs;
  costs.copy_latency = 0;
  costs.copied_bytes = 1 << 20;
  return costs;
}

/// Prints what the warps of each warpgroup do, as shares of the time.
/// @param one  a time line
/// @param work what arithmetic is: "softmax"; empty where there is none
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
      {"waits for products", Kind::kWaitsForProducts},
      {"for copies", Kind::kWaitsForCopy},
      {"for others", Kind::kWaitsForOthers}};
  if (!work.empty()) columns.insert(columns.begin(), {work, Kind::kWork});
  const auto add_if_any = [&](const char* heading, Kind kind) {
    if (std::any_of(lanes.begin(), lanes.end(), [&](const lab::Lane& lane) {
          return share(lane.warp, kind) > 0;
        })) {
      columns.emplace_back(heading, kind);
    }
  };
  add_if_any("for stores", Kind::kWaitsForStores);
  add_if_any("adds", Kind::kAdds);
  add_if_any("writes", Kind::kWrites);
  std::vector<std::string> headings{"% of the time"};
  for (const auto& [heading, kind] : columns) headings.push_back(heading);
  Table table(headings);
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
/// @param work    what arithmetic is: "softmax"; empty where there is none
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
    fmt::print("The time line: {}\n", printable(options.svg));
  }
  if (!options.json.empty()) {
    write_file(options.json, lab::timelines_json(drawn, legend.tensors));
    fmt::print("The time line for programs: {}\n", printable(options.json));
  }
}

/// The options of a section of time lines.
/// @param options of the program
/// @param rungs   of the lesson
/// @param lesson  its directory
/// @throws std::invalid_argument when no rung is wanted
template <class Rung>
TimelineOptions timeline_options(const KernelOptions& options,
                                 const std::vector<Rung>& rungs,
                                 const std::string& lesson) {
  std::vector<std::string> names;
  for (const Rung& rung : rungs) names.push_back(rung.name);
  check_kernel(options, names, lesson);
  return {options.kernel, options.svg, options.json};
}

}  // namespace fa::cli
