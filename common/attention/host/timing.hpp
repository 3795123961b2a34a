/// @file
/// How fast the steps are on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/attention/host/step.hpp"
#include "common/cli/table.hpp"

namespace fa::attention {

/// The problems of a group that are timed: tokens and width of the published measurements of
/// FlashAttention, 16384 tokens in all and 2048 elements for each, whatever the length of a
/// sequence. Source: Dao, FlashAttention-2, ICLR 2024, section 4.1.
Problem timed_problem(Type type, std::int64_t head_dim, bool causal, std::int64_t length);

/// What is timed: one head, which stands for all heads of all sequences.
Inputs timed_inputs(std::int64_t length, std::int64_t head_dim);

/// A row of a record: the time of some work, its rate, and what its largest kernel uses of an SM.
/// @param backend a GPU
/// @param problem that is computed, as many keys as queries
/// @param matmuls that are counted, length x length x head_dim each
/// @throws std::runtime_error when the device reports an error
cli::Measurement time_work(const BackendBase& backend, const Problem& problem,
                           const std::string& kernel, const std::function<void()>& launch,
                           int matmuls, int repeats);

/// What is timed of a group of problems.
struct TimedGroup {
  Type type;
  std::int64_t head_dim;
  bool causal;
  std::string kernel{};     ///< only steps whose name contains this text
  std::int64_t length = 0;  ///< the only one; 0: 1024 to 16384, and 4096 for slow steps
};

/// How a lesson's steps are timed.
template <class Given>
struct TimingRules {
  int matmuls;             ///< that are counted
  std::string first_fast;  ///< steps before this number are slow: one length, fewer repeats
  std::function<Given(const Problem&)> inputs_of;
};

/// A step's time on a problem, as a row of the record.
template <class LadderStep>
struct TimedStep {
  const LadderStep* step;
  std::int64_t length;
  cli::Measurement row;
};

/// Adds the price of each deterministic step: its time over that of the step before it, or else
/// after it, that is not deterministic.
template <class LadderStep>
void add_prices(const std::vector<LadderStep>& steps, std::vector<TimedStep<LadderStep>>& all) {
  const auto neighbour = [&](const LadderStep* step) -> const LadderStep* {
    const auto* const first = steps.data();
    if (step > first && !step[-1].deterministic) return step - 1;
    if (step + 1 < first + steps.size() && !step[1].deterministic) return step + 1;
    return nullptr;
  };
  const auto field_of = [](cli::Measurement& row, const std::string& name) {
    return std::find_if(row.begin(), row.end(),
                        [&](const auto& field) { return field.first == name; });
  };
  const auto milliseconds = [&](TimedStep<LadderStep>& timed) {
    return std::get<double>(field_of(timed.row, "milliseconds")->second);
  };
  for (TimedStep<LadderStep>& timed : all) {
    if (!timed.step->deterministic) continue;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const TimedStep<LadderStep>& other) {
          return other.step == neighbour(timed.step) && other.length == timed.length;
        });
    if (found == all.end()) continue;
    const double price = milliseconds(timed) / milliseconds(*found);
    timed.row.insert(field_of(timed.row, "registers"), {"deterministic_price", price});
  }
}

/// Times the steps on one group.
/// @param backend a GPU
/// @return a row for each step and length, with the price of determinism where a step beside it was
///   timed that does without; none where no step supports the group
/// @throws std::runtime_error when the device reports an error
template <class Backend, class Given>
std::vector<cli::Measurement> time_steps(const Backend& backend, const TimedGroup& group,
                                         const TimingRules<Given>& rules) {
  using LadderStep = typename decltype(backend.steps)::value_type;
  std::vector<TimedStep<LadderStep>> all;
  std::map<std::int64_t, Given> inputs;  // by length
  for (const LadderStep& step : backend.steps) {
    if (step.name.find(group.kernel) == std::string::npos) continue;
    const bool slow = step.name < rules.first_fast;
    std::vector<std::int64_t> lengths{1024, 2048, 4096, 8192, 16384};
    if (slow) lengths = {4096};
    if (group.length != 0) lengths = {group.length};
    for (const std::int64_t n : lengths) {
      const Problem problem = timed_problem(group.type, group.head_dim, group.causal, n);
      if (!step.supports(problem)) continue;
      if (inputs.find(n) == inputs.end()) inputs.emplace(n, rules.inputs_of(problem));
      const auto prepared = step.prepare(problem, inputs.at(n));
      all.push_back(
          {&step, n,
           time_work(backend, problem, step.name, prepared.launch, rules.matmuls, slow ? 5 : 20)});
    }
  }
  add_prices(backend.steps, all);
  std::vector<cli::Measurement> rows;
  for (TimedStep<LadderStep>& timed : all) rows.push_back(std::move(timed.row));
  return rows;
}

}  // namespace fa::attention
