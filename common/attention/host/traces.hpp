/// @file
/// The sections in which the lab observes the steps of a ladder: what they ask of memory, findings,
/// coverage, traffic by formulas.
#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/attention/host/ladder.hpp"
#include "common/cli/table.hpp"
#include "common/lab/trace.hpp"

namespace fa::attention {

/// What sections trace and once launch: work(step, problem) for each step that is wanted, with and
/// without the mask.
/// @throws std::invalid_argument when no step is wanted
template <class Lesson, class Backend, class Work>
void for_each_launch(const Lesson& lesson, const Backend& backend, Work work) {
  lesson.check_kernel(backend);
  const std::int64_t size = lesson.options.size_or(70);
  for (const bool causal : {false, true}) {
    for (const auto& step : backend.steps) {
      if (!lesson.options.wants(step.name)) continue;
      work(step,
           problem_of(step.types.front(), {1, 1, 1, size, size, step.head_dim_near(64)}, causal));
    }
  }
}

/// What the watched lab sees of a step; none where this build has none.
/// @param problems  that it supports; the accesses of the first are counted
template <class LadderStep, class InputsOf>
std::optional<lab::Trace> trace(const LadderStep& step, const std::vector<Problem>& problems,
                                InputsOf inputs_of) {
  const Problem& problem = problems.front();
  lab::TraceName name{step.name, problem.group(), {}};
  for (const Shape<4>& shape :
       {problem.shape_of_q(), problem.shape_of_kv(), problem.shape_of_kv()}) {
    name.inputs.emplace_back(shape.begin(), shape.end());
  }
  std::vector<lab::TracedProblem> traced;
  for (const Problem& one : problems) {
    traced.push_back(
        {watched_words(one), [&step, &inputs_of, &one] { step.run(one, inputs_of(one)); }});
  }
  return lab::trace(name, traced);
}

/// Elements of global memory that all threads together read and write; an atomic addition is a
/// write.
struct Traffic {
  std::int64_t reads = 0;
  std::int64_t writes = 0;
};

/// The traffic of a step as its loops over tiles have it.
struct TrafficFormula {
  std::string kernel;             ///< the step
  std::vector<std::string> rule;  ///< for people: further cells of the table of formulas
  /// One head in float32 without a mask: n queries, as many keys, lengths that are whole tiles.
  Traffic (*traffic)(const Tiles& tiles, std::int64_t n, std::int64_t d);
};

/// Prints formulas and counts of the watched lab, and checks that they are equal.
/// @param tensors  inputs and results, of N x D elements each
template <class Lesson, class Backend>
void show_traffic(const Lesson& lesson, const Backend& watched,
                  const std::vector<std::string>& headings,
                  const std::vector<TrafficFormula>& formulas,
                  const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes, int tensors) {
  cli::Table rules(headings);
  const std::string least_words = fmt::format("{} N D", tensors);
  cli::Table table({"kernel", "N", "D", "reads", "writes", "sum by formula", least_words,
                    "sum / " + least_words});
  std::vector<std::int64_t> off;  // unexpected elements of each formula
  for (const TrafficFormula& formula : formulas) {
    std::vector<std::string> cells{formula.kernel};
    cells.insert(cells.end(), formula.rule.begin(), formula.rule.end());
    rules.add(cells);
    off.push_back(0);
    const auto& step = find_step(watched, formula.kernel);
    for (const auto& [n, d] : sizes) {
      const auto seen =
          trace(step, {problem_of(Type::kFloat32, {1, 1, 1, n, n, d})}, lesson.inputs_of);
      constexpr std::int64_t bytes = sizeof(float);
      const Traffic counted{(seen->global_bytes - seen->written_bytes) / bytes,
                            seen->written_bytes / bytes};
      const Traffic expected = formula.traffic(step.tiles.front(), n, d);
      const std::int64_t least = tensors * n * d;
      table.add({step.name, std::to_string(n), std::to_string(d), std::to_string(counted.reads),
                 std::to_string(counted.writes), std::to_string(expected.reads + expected.writes),
                 std::to_string(least),
                 fmt::format("{:.2f}", static_cast<double>(counted.reads + counted.writes) /
                                           static_cast<double>(least))});
      off.back() +=
          std::abs(counted.reads - expected.reads) + std::abs(counted.writes - expected.writes);
    }
  }
  fmt::print("{}\n{}\n", rules.text(), table.text());
  for (std::size_t i = 0; i < formulas.size(); ++i) {
    lesson.program.check_none(fmt::format("{}, formula", formulas[i].kernel), off[i],
                              "unexpected element");
  }
}

/// Launches steps once each, for a program that watches, and prints a line of JSON for each; in the
/// watched lab with its report. Nothing is checked.
template <class Lesson>
void launch_once(const Lesson& lesson) {
  const auto& backend = lesson.backends.observed();
  for_each_launch(lesson, backend, [&](const auto& step, const Problem& problem) {
    std::optional<lab::Trace> report;
    if (backend.kind == "watched") {
      report = trace(step, {problem}, lesson.inputs_of);
    } else {
      step.run(problem, lesson.inputs_of(problem));
    }
    fmt::print("{}", lab::launch_line(step.name, problem.group(), problem.shape.length_q,
                                      backend.kind, report));
  });
}

/// The watched lab's whole report on steps: what they ask of memory at one size, findings, and
/// which lines were reached with all problems of watched_problems(). With --size, and in a walk
/// through all sections, that one size only.
template <class Lesson, class Backend>
void trace_steps(const Lesson& lesson, const Backend& watched) {
  const cli::KernelOptions& options = lesson.options;
  const bool alone = lesson.program.runs_one_section();
  lab::TraceFiles files;
  lab::Coverage coverage;
  std::map<std::string, std::string> without_mask;  // by step
  for_each_launch(lesson, watched, [&](const auto& step, const Problem& problem) {
    std::vector<Problem> problems{problem};
    if (options.size == 0 && alone) {
      const auto chosen = watched_problems(step, step.types.back(), problem.causal);
      problems.insert(problems.end(), chosen.begin(), chosen.end());
    }
    const auto seen = trace(step, problems, lesson.inputs_of);
    if (!options.kernel.empty()) {
      const auto [before, first] = without_mask.emplace(step.name, seen->text);
      const bool same = !first && before->second == seen->text;
      fmt::print("{}, {}, N {}\n{}\n", step.name, problem.group(), problem.shape.length_q,
                 same ? "The same report as without the mask.\n" : seen->text.c_str());
    }
    lesson.program.check_none(step.name + (problem.causal ? ", causal" : ""), seen->findings,
                              "finding");
    files.add(*seen);
    coverage.add(seen->coverage);
  });
  if (alone) fmt::print("{}", lab::unreached_text(coverage));
  files.write(options.json, options.svg);
}

}  // namespace fa::attention
