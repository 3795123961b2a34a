/// @file
/// Timelines of Hopper rungs, as the programs of lessons show them.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/cli/kernel_options.hpp"
#include "common/cli/table.hpp"
#include "common/data/files.hpp"
#include "common/lab/measured.hpp"
#include "common/lab/replay.hpp"
#include "common/lab/timeline.hpp"

namespace fa::cli {

/// The options of section timeline.
struct TimelineOptions {
  /// @{ A part of the rung's name, a file for the drawing ("-": print the drawing and nothing
  /// else), and a file for JSON; may be empty.
  std::string kernel, svg, json;
  /// @}
  /// What a GPU did, drawn below the model; none without the option --stamps.
  lab::StampedRuns stamps{};
};

/// The rungs that have a timeline and whose name contains a text.
/// @param rungs  of the backend "lab"; must outlive the result
/// @param kernel the text
/// @param first  the number of the first rung with a timeline, "09"
/// @param draws  whether the problem that is drawn is one for a rung
template <class Rung, class Draws>
std::vector<const Rung*> rungs_with_timeline(const std::vector<Rung>& rungs,
                                             const std::string& kernel, const std::string& first,
                                             Draws draws) {
  std::vector<const Rung*> result;
  for (const Rung& rung : rungs) {
    if (rung.name >= first && rung.name.find(kernel) != std::string::npos && draws(rung)) {
      result.push_back(&rung);
    }
  }
  return result;
}

/// The percentage of the time in which the tensor cores are busy.
inline std::string busy(const lab::Timeline& timeline) {
  return fmt::format("{:.0f}", 100 * timeline.tensor_share());
}

/// Adds two cells of a table: cycles, and busy().
inline void add_busy(std::vector<std::string>& cells, const lab::Timeline& timeline) {
  cells.push_back(fmt::format("{:.0f}", timeline.cycles));
  cells.push_back(busy(timeline));
}

/// The costs if the tensor cores alternate between the matmuls of two warpgroups.
inline lab::Costs alternating() {
  lab::Costs costs;
  costs.waiting_matmuls = 1;
  return costs;
}

/// The costs if copies, stores and additions took no time.
inline lab::Costs at_once() {
  lab::Costs costs;
  costs.copy_latency = 0;
  costs.copied_bytes = 1 << 20;
  return costs;
}

/// Prints the cost model of timelines.
inline void show_costs(const lab::Costs& costs) {
  Table table({"operation", "cycles"});
  const auto add = [&](const std::string& operation, double cycles) {
    table.add({operation, fmt::format("{:.0f}", cycles)});
  };
  add("matmul of 64 x 16 and 16 x 128", 64.0 * 128 * 16 * 2 / costs.flops);
  add("32 exponentials (one of four units, shared by its warps)", costs.exponential);
  add("all other work on 32 scores", costs.rest_of_score);
  add("shuffle or vote of a warp", costs.exchange);
  add("copy, from its issue to its arrival", costs.copy_latency);
  add("end of a block to the first step of the next", costs.next_block);
  fmt::print(
      "Clock cycles of one SM, with {} floating-point operations and {}\ncopied bytes per cycle\n{}"
      "The tensor cores execute one matmul at a time, in the order of issue. "
      "All other\noperations take no time.\n",
      costs.flops, costs.copied_bytes, table.text());
}

/// The cycles that a warp of a timeline spends on one kind of span.
inline double cycles_of(const lab::Timeline& timeline, int warp, lab::Span::Kind kind) {
  double sum = 0;
  for (const lab::Span& span : timeline.warps) {
    if (span.warp == warp && span.kind == kind) sum += span.end - span.begin;
  }
  return sum;
}

/// Prints what each warp does, in percent of the time.
/// @param work the name of the arithmetic: "softmax"; empty for none
inline void show_shares(const lab::NamedTimeline& one, const std::string& work) {
  using Kind = lab::Span::Kind;
  const auto share = [&](int warp, Kind kind) {
    return 100 * cycles_of(one.timeline, warp, kind) / one.timeline.cycles;
  };
  const std::vector<lab::Lane> lanes = lab::lanes_of(one.timeline);
  std::vector<std::pair<std::string, Kind>> columns{{"waits: matmul", Kind::kWaitsForMatmuls},
                                                    {"copy", Kind::kWaitsForCopy},
                                                    {"other warps", Kind::kWaitsForOthers}};
  if (!work.empty()) columns.insert(columns.begin(), {work, Kind::kWork});
  const auto add_if_any = [&](const char* heading, Kind kind) {
    if (std::any_of(lanes.begin(), lanes.end(),
                    [&](const lab::Lane& lane) { return share(lane.warp, kind) > 0; })) {
      columns.emplace_back(heading, kind);
    }
  };
  add_if_any("store", Kind::kWaitsForStores);
  add_if_any("adds", Kind::kAdds);
  add_if_any("writes", Kind::kWrites);
  std::vector<std::string> headings{"% of time"};
  for (const auto& [heading, kind] : columns) headings.push_back(heading);
  Table table(headings);
  for (const lab::Lane& lane : lanes) {
    std::vector<std::string> cells{lane.name};
    for (const auto& [heading, kind] : columns) {
      cells.push_back(fmt::format("{:.0f}", share(lane.warp, kind)));
    }
    table.add(cells);
  }
  fmt::print("{}\n{:.0f} cycles, tensor cores {} % busy\n{}\n", one.name, one.timeline.cycles,
             busy(one.timeline), table.text());
}

/// Adds a GPU's timeline of a kernel below that of the model, where there is one. Its matmuls are
/// the model's: so are the cycles that they take at the peak of the tensor cores.
/// @param make gives the timeline of the stamps
template <class Make>
void add_measured(std::vector<lab::NamedTimeline>& drawn, const TimelineOptions& options,
                  const std::string& kernel, Make make) {
  const lab::StampedRun* const run = options.stamps.find(kernel);
  if (run == nullptr) return;
  lab::NamedTimeline measured{drawn.back().name + ", measured", make(run->stamps), true};
  measured.timeline.tensor_busy = drawn.back().timeline.tensor_busy;
  drawn.push_back(std::move(measured));
}

/// Prints what the stamps cost, and the cycles of the model and of the GPU.
inline void show_measured(const lab::StampedRuns& stamps,
                          const std::vector<lab::NamedTimeline>& drawn) {
  fmt::print("One SM of {}, beside the model\n\n", printable(stamps.source));
  Table table({"kernel", "us", "with stamps", "times", "cycles", "model"});
  for (const lab::StampedRun& run : stamps.runs) {
    double cycles = 0, model = 0;
    for (const lab::NamedTimeline& one : drawn) {
      if (one.name.rfind(run.kernel + ",", 0) != 0) continue;
      (one.measured ? cycles : model) = one.timeline.cycles;
    }
    if (cycles == 0) continue;
    table.add({run.kernel, fmt::format("{:.1f}", 1e3 * run.milliseconds),
               fmt::format("{:.1f}", 1e3 * run.stamped_milliseconds),
               fmt::format("{:.2f}", run.stamped_milliseconds / run.milliseconds),
               fmt::format("{:.0f}", cycles), fmt::format("{:.0f}", model)});
  }
  fmt::print("{}\n", table.text());
}

/// Prints the measured cycles of a consumer, the mean of all consumers of the SM. The rest is the
/// issue of matmuls, stores, and the beginning and end of each block.
/// @param work the name of the arithmetic: "softmax"
inline void show_consumers(const std::vector<lab::NamedTimeline>& drawn, const std::string& work) {
  using Kind = lab::Span::Kind;
  Table table({"cycles of a consumer", work, "waits: matmul", "copy", "other warps", "rest"});
  for (const lab::NamedTimeline& one : drawn) {
    if (!one.measured) continue;
    std::vector<int> consumers;
    for (const lab::Lane& lane : lab::lanes_of(one.timeline)) {
      if (lane.name.rfind("consumer", 0) == 0) consumers.push_back(lane.warp);
    }
    std::vector<std::string> cells{one.name.substr(0, one.name.find(','))};
    double rest = one.timeline.cycles;
    for (const Kind kind :
         {Kind::kWork, Kind::kWaitsForMatmuls, Kind::kWaitsForCopy, Kind::kWaitsForOthers}) {
      double sum = 0;
      for (const int warp : consumers) sum += cycles_of(one.timeline, warp, kind);
      const double mean = sum / static_cast<double>(consumers.size());
      cells.push_back(fmt::format("{:.0f}", mean));
      rest -= mean;
    }
    cells.push_back(fmt::format("{:.0f}", rest));
    table.add(cells);
  }
  fmt::print("{}\n", table.text());
}

/// Shows timelines as the options ask: the drawing alone, or tables and files.
/// @param drawn   timelines; empty if the selected rungs have none
/// @param first   the number of the first rung with a timeline, "09"
/// @param legend  of the drawing
/// @param cycles  that the width of the drawing shows at least
/// @param work    the name of the arithmetic: "softmax"; empty for none
/// @param tables  prints the tables about all rungs
/// @throws std::runtime_error when a file cannot be written
template <class Tables>
void show_timelines(const TimelineOptions& options, const std::vector<lab::NamedTimeline>& drawn,
                    const std::string& first, const lab::Legend& legend, double cycles,
                    const std::string& work, Tables tables) {
  const std::string svg = drawn.empty() ? "" : lab::draw_timelines(drawn, legend, cycles);
  if (options.svg == "-") {
    fmt::print("{}", svg);
    return;
  }
  if (drawn.empty()) {
    fmt::print("Rungs {} and later have a timeline: {} has none.\n", first, options.kernel);
    return;
  }
  if (!options.stamps.runs.empty()) {
    show_measured(options.stamps, drawn);
    if (options.kernel.empty()) show_consumers(drawn, work);
  } else {
    fmt::print("One SM: a model, not a measurement\n\n");
  }
  if (!options.stamps.runs.empty()) {
    for (const lab::NamedTimeline& one : drawn) show_shares(one, work);
  } else if (options.kernel.empty()) {
    tables();
  } else {
    for (const lab::NamedTimeline& one : drawn) show_shares(one, work);
  }
  if (!options.svg.empty()) {
    write_file(options.svg, svg);
    fmt::print("Timeline: {}\n", printable(options.svg));
  }
  if (!options.json.empty()) {
    write_file(options.json, lab::timelines_json(drawn, legend.tensors));
    fmt::print("Timeline as JSON: {}\n", printable(options.json));
  }
}

/// The options of section timeline.
/// @throws std::invalid_argument when no rung is selected
template <class Rung>
TimelineOptions timeline_options(const KernelOptions& options, const std::vector<Rung>& rungs,
                                 const std::string& lesson) {
  std::vector<std::string> names;
  for (const Rung& rung : rungs) names.push_back(rung.name);
  check_kernel(options, names, lesson);
  TimelineOptions result{options.kernel, options.svg, options.json};
  if (!options.stamps.empty()) result.stamps = lab::read_stamps(options.stamps);
  return result;
}

}  // namespace fa::cli
