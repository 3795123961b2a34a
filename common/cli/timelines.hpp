/// @file
/// Section timeline of the lessons' programs: the order of operations of Hopper steps as the lab
/// records it, and timelines of what a GPU did; and the programs *_stamped, which run the same steps
/// with stamps on a GPU and print the stamps.
#pragma once

#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/cli/kernels.hpp"
#include "common/cli/table.hpp"
#include "common/data/files.hpp"
#include "common/gpu/backend.hpp"
#include "common/gpu/stamps.hpp"
#include "common/lab/measured.hpp"
#include "common/lab/record.hpp"
#include "common/lab/timeline.hpp"

namespace fa::cli {

/// The options of section timeline.
struct TimelineOptions {
  /// @{ A part of the step's name, and a trace file that is to be written; may be empty.
  std::string kernel, json;
  /// @}
  /// What a GPU did; without it the order of operations is shown.
  lab::StampedRuns stamps{};
};

/// What the lab has recorded of a step.
struct RecordedStep {
  std::string name, problem;             ///< of the step; the problem in words
  std::vector<std::string> tensors;      ///< by Step::tensor
  std::vector<lab::BlockRecord> blocks;  ///< that multiply
};

/// The steps that have a timeline and whose name contains a text.
/// @param steps of the backend "lab"; must outlive the result
/// @param draws whether a step has a timeline
template <class LadderStep, class Draws>
std::vector<const LadderStep*> steps_with_timeline(const std::vector<LadderStep>& steps,
                                                   const std::string& kernel, Draws draws) {
  std::vector<const LadderStep*> result;
  for (const LadderStep& step : steps) {
    if (step.name.find(kernel) != std::string::npos && draws(step)) {
      result.push_back(&step);
    }
  }
  return result;
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
/// @param work the name of the arithmetic: "softmax"
inline void show_shares(const lab::NamedTimeline& one, const std::string& work) {
  using Kind = lab::Span::Kind;
  const std::pair<std::string, Kind> columns[] = {{work, Kind::kWork},
                                                  {"waits: matmul", Kind::kWaitsForMatmuls},
                                                  {"copy", Kind::kWaitsForCopy},
                                                  {"other warps", Kind::kWaitsForOthers},
                                                  {"store", Kind::kWaitsForStores}};
  std::vector<std::string> headings{"% of time"};
  for (const auto& [heading, kind] : columns) headings.push_back(heading);
  Table table(headings);
  for (const lab::Lane& lane : lab::lanes_of(one.timeline)) {
    std::vector<std::string> cells{lane.name};
    for (const auto& [heading, kind] : columns) {
      cells.push_back(fmt::format(
          "{:.0f}", 100 * cycles_of(one.timeline, lane.warp, kind) / one.timeline.cycles));
    }
    table.add(cells);
  }
  fmt::print("{}\n{}\n", one.name, table.text());
}

/// Prints the cycles of each timeline, and what the stamps cost.
inline void show_cycles(const lab::StampedRuns& stamps,
                        const std::vector<lab::NamedTimeline>& drawn) {
  fmt::print("One SM of {}\n\n", printable(stamps.source));
  Table table({"kernel", "us", "with stamps", "times", "cycles", "% of peak"});
  for (const lab::NamedTimeline& one : drawn) {
    const std::string kernel = one.name.substr(0, one.name.find(','));
    const lab::StampedRun& run = *stamps.find(kernel);
    table.add({kernel, fmt::format("{:.1f}", 1e3 * run.milliseconds),
               fmt::format("{:.1f}", 1e3 * run.stamped_milliseconds),
               fmt::format("{:.2f}", run.stamped_milliseconds / run.milliseconds),
               fmt::format("{:.0f}", one.timeline.cycles),
               fmt::format("{:.0f}", one.percent_of_peak())});
  }
  fmt::print("{}\n", table.text());
}

/// Prints the cycles of a consumer, the mean of all consumers of the SM. The rest is the issue of
/// matmuls, stores, and the beginning and end of each block.
/// @param work the name of the arithmetic: "softmax"
inline void show_consumers(const std::vector<lab::NamedTimeline>& drawn, const std::string& work) {
  using Kind = lab::Span::Kind;
  Table table({"cycles of a consumer", work, "waits: matmul", "copy", "other warps", "rest"});
  for (const lab::NamedTimeline& one : drawn) {
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

/// Shows the order of operations of steps; or, with stamps, what a GPU did: tables, and a trace file
/// if the options ask for one. Matmuls are those that the lab has recorded.
/// @param steps  empty if the selected steps have no timeline
/// @param work   the name of the arithmetic: "softmax"
/// @throws std::runtime_error when a file cannot be written, or the stamps are of other kernels
inline void show_timelines(const TimelineOptions& options, const std::vector<RecordedStep>& steps,
                           const std::string& work) {
  if (steps.empty()) {
    fmt::print("Steps for Hopper have a timeline: {} has none.\n", options.kernel);
    return;
  }
  std::vector<lab::NamedTimeline> drawn;
  for (const RecordedStep& step : steps) {
    const std::string name = fmt::format("{}, {}", step.name, step.problem);
    if (options.stamps.runs.empty()) {
      fmt::print("{}: the order of operations\n\n{}\n", name,
                 lab::operations_text(step.blocks, step.tensors));
    } else if (const lab::StampedRun* const run = options.stamps.find(step.name)) {
      drawn.push_back({name, lab::timeline_of_stamps(run->stamps), lab::peak_cycles(step.blocks),
                       step.tensors});
    }
  }
  if (options.stamps.runs.empty()) return;
  if (drawn.empty()) throw std::runtime_error("the stamps are of other kernels");
  show_cycles(options.stamps, drawn);
  if (options.kernel.empty()) show_consumers(drawn, work);
  for (const lab::NamedTimeline& one : drawn) show_shares(one, work);
  if (!options.json.empty()) {
    write_file(options.json, lab::trace_events(drawn));
    fmt::print("Trace file: {}; ui.perfetto.dev opens it\n", printable(options.json));
  }
}

/// The options of section timeline.
/// @throws std::invalid_argument when no step is selected, or nothing can be drawn
template <class LadderStep>
TimelineOptions timeline_options(const KernelOptions& options, const std::vector<LadderStep>& steps,
                                 const std::string& lesson) {
  std::vector<std::string> names;
  for (const LadderStep& step : steps) names.push_back(step.name);
  check_kernel(options, names, lesson);
  if (!options.svg.empty()) throw std::invalid_argument("section timeline has no --svg");
  if (options.stamps.empty() && !options.json.empty()) {
    throw std::invalid_argument(
        "section timeline writes what a GPU did: it needs stamps (--stamps, in lessons 05 and 06)");
  }
  TimelineOptions result{options.kernel, options.json};
  if (!options.stamps.empty()) result.stamps = lab::read_stamps(options.stamps);
  return result;
}

/// A backend whose kernels can have stamps; those of a build without them have none.
template <class Backend>
struct StampedBackend : Backend {
  std::function<void()> clear_stamps;               ///< forgets all
  std::function<std::vector<Stamp>()> take_stamps;  ///< those since then
};

/// The main program: runs each step without stamps and with them, and prints the stamps.
/// @param backends   (): the same steps without stamps and with them
/// @param problem_of (step): what is drawn of it, one head
/// @param inputs_of  (problem): its inputs
template <class Backends, class ProblemOf, class InputsOf>
int print_stamps(const char* name, Backends backends, ProblemOf problem_of, InputsOf inputs_of) {
  constexpr int repeats = 50;
  try {
    const auto both = backends();
    const auto &plain = both.front(), &stamped = both.back();
    if (!plain.available) {
      throw std::runtime_error("there is no GPU with the kernels' instructions");
    }
    lab::StampedRuns runs{plain.properties.name, {}};
    for (std::size_t i = 0; i < stamped.steps.size(); ++i) {
      const auto& step = stamped.steps[i];
      auto problem = problem_of(step);
      const auto inputs = inputs_of(problem);
      // One head for each SM.
      problem.shape.heads = problem.shape.kv_heads = plain.properties.sm_count;
      lab::StampedRun run;
      run.kernel = step.name;
      run.milliseconds =
          plain.milliseconds(plain.steps.at(i).prepare(problem, inputs).launch, repeats)
              .value_or(0);
      const auto prepared = step.prepare(problem, inputs);
      run.stamped_milliseconds = stamped.milliseconds(prepared.launch, repeats).value_or(0);
      stamped.clear_stamps();
      prepared.launch();
      run.stamps = stamped.take_stamps();
      runs.runs.push_back(std::move(run));
    }
    fmt::print("{}", lab::stamps_text(runs));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 2;
  }
}

}  // namespace fa::cli
