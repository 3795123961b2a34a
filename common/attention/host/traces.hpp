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

#include "common/attention/host/step.hpp"
#include "common/cli/kernels.hpp"
#include "common/cli/table.hpp"
#include "common/lab/trace.hpp"

namespace fa::attention {

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

/// Prints the formulas of the steps that have them and counts of the watched lab, and checks that
/// they are equal.
/// @param sizes    queries, as many keys, and columns
/// @param tensors  inputs and results, of N x D elements each
template <class Lesson, class Backend>
void show_traffic(const Lesson& lesson, const Backend& watched,
                  const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes, int tensors) {
  cli::Table rules({"kernel", "reads", "writes and additions"});
  const std::string least_words = fmt::format("{} N D", tensors);
  cli::Table table({"kernel", "N", "D", "reads", "writes", "sum by formula", least_words,
                    "sum / " + least_words});
  std::vector<std::pair<std::string, std::int64_t>> off;  // unexpected elements of each step
  for (const auto& step : watched.steps) {
    if (!step.reads.value) continue;
    rules.add({step.name, step.reads.text, step.writes.text});
    off.emplace_back(step.name, 0);
    for (const auto& [n, d] : sizes) {
      const auto seen =
          trace(step, {problem_of(Type::kFloat32, {1, 1, 1, n, n, d})}, lesson.inputs_of);
      constexpr std::int64_t bytes = sizeof(float);
      const std::int64_t reads = (seen->global_bytes - seen->written_bytes) / bytes,
                         writes = seen->written_bytes / bytes, least = tensors * n * d;
      const std::int64_t expected_reads = step.reads.value(n, d),
                         expected_writes = step.writes.value(n, d);
      table.add({step.name, std::to_string(n), std::to_string(d), std::to_string(reads),
                 std::to_string(writes), std::to_string(expected_reads + expected_writes),
                 std::to_string(least),
                 fmt::format("{:.2f}",
                             static_cast<double>(reads + writes) / static_cast<double>(least))});
      off.back().second += std::abs(reads - expected_reads) + std::abs(writes - expected_writes);
    }
  }
  fmt::print("{}\n{}\n", rules.text(), table.text());
  for (const auto& [name, elements] : off) {
    lesson.program.check_none(name + ", formula", elements, "unexpected element");
  }
}

/// The watched lab's whole report on steps: what they ask of memory at one size, findings, and
/// which lines were reached with all problems of watched_problems(). With --size, and in a walk
/// through all sections, that one size only.
template <class Lesson, class Backend>
void trace_steps(const Lesson& lesson, const Backend& watched) {
  const cli::KernelOptions& options = lesson.options;
  lesson.check_kernel(watched);
  const std::int64_t size = options.size_or(70);
  const bool alone = lesson.program.runs_one_section();
  lab::TraceFiles files;
  lab::Coverage coverage;
  std::map<std::string, std::string> without_mask;  // by step
  const auto trace_one = [&](const auto& step, const Problem& problem) {
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
  };
  for (const bool causal : {false, true}) {
    for (const auto& step : watched.steps) {
      if (!options.wants(step.name)) continue;
      trace_one(step, problem_of(step.types.front(), {1, 1, 1, size, size, step.head_dim_near(64)},
                                 causal));
    }
  }
  if (alone) fmt::print("{}", lab::unreached_text(coverage));
  files.write(options.json, options.svg);
}

}  // namespace fa::attention
