/// @file
/// How fast the steps are on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/attention/host/step.hpp"
#include "common/cli/table.hpp"
#include "common/tensor/random.hpp"

namespace fa::attention {

/// The problems of a group that are timed: tokens and width of the published measurements of
/// FlashAttention, 16384 tokens in all and 2048 elements for each, whatever the length of a
/// sequence. Source: Dao, FlashAttention-2, ICLR 2024, section 4.1.
inline Problem timed_problem(Type type, std::int64_t head_dim, bool causal, std::int64_t length) {
  constexpr std::int64_t tokens = 16384, width = 2048;
  const std::int64_t heads = width / head_dim;
  return problem_of(
      type, {std::max<std::int64_t>(1, tokens / length), heads, heads, length, length, head_dim},
      causal);
}

/// What is timed: one head, which stands for all heads of all sequences. To make and to round as many
/// elements as are timed would take longer than the kernels, whose time does not depend on them.
inline Inputs timed_inputs(std::int64_t length, std::int64_t head_dim) {
  const auto tensor = [&](std::uint64_t seed) {
    Tensor<float, 4> result({1, 1, length, head_dim});
    // -1.73 to 1.73, whose variance is 1
    fill_with(result.view(),
              [=](std::uint64_t i) { return 3.46 * (random_uniform(seed, i) - 0.5); });
    return result;
  };
  return {tensor(1), tensor(2), tensor(3)};
}

/// A row of a record: the time of some work, its rate, and what its largest kernel uses of an SM.
/// @param problem    that is computed, as many keys as queries
/// @param matmuls    that are counted, length x length x head_dim each
/// @param arithmetic of the kernel, for its share of the peak; by default that of the problem's type
/// @throws std::runtime_error when the device reports an error
inline cli::Measurement time_work(const BackendBase& backend, const Problem& problem,
                                  const std::string& kernel, const std::function<void()>& launch,
                                  int matmuls, int repeats,
                                  std::optional<Arithmetic> arithmetic = {}) {
  const double ms = backend.milliseconds(launch, repeats).value();
  const AttentionShape& s = problem.shape;
  // With the mask half of them.
  const double flops = (problem.causal ? 1.0 : 2.0) * matmuls *
                       static_cast<double>(s.batch * s.heads) * static_cast<double>(s.length_q) *
                       static_cast<double>(s.length_k * s.head_dim);
  cli::Measurement row{{"group", problem.group()},
                       {"title", fmt::format("{}, B x N = {}, H x D = {}", problem.group(),
                                             s.batch * s.length_q, s.heads * s.head_dim)},
                       {"kernel", kernel},
                       {"length", s.length_q},
                       {"milliseconds", ms},
                       {"tflops", flops / ms / 1e9}};
  const auto peak =
      peak_flops(backend.properties,
                 arithmetic.value_or(problem.type == Type::kFloat32 ? Arithmetic::kFloat32
                                                                    : Arithmetic::kTensorCores16));
  if (peak) row.emplace_back("percent_of_peak", 100 * flops / (ms / 1e3) / *peak);
  const std::vector<KernelResources> kernels = backend.resources(launch);
  cli::add_resources(row, *std::max_element(kernels.begin(), kernels.end(),
                                            [](const auto& left, const auto& right) {
                                              return left.registers < right.registers;
                                            }));
  return row;
}

/// What is timed of a group of problems.
struct TimedGroup {
  Type type;
  std::int64_t head_dim;
  bool causal;
  std::string kernel{};     ///< only steps whose name contains this text
  std::int64_t length = 0;  ///< the only one; 0: 1024 to 16384, and 4096 for slow steps
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
void add_prices(std::vector<TimedStep<LadderStep>>& all) {
  const auto milliseconds = [](const TimedStep<LadderStep>& timed) {
    const auto found = std::find_if(timed.row.begin(), timed.row.end(), [](const auto& field) {
      return field.first == "milliseconds";
    });
    return std::get<double>(found->second);
  };
  for (TimedStep<LadderStep>& timed : all) {
    for (const std::ptrdiff_t by : {-1, 1}) {
      const auto found = std::find_if(all.begin(), all.end(), [&](const auto& other) {
        return other.step - timed.step == by && other.length == timed.length &&
               !other.step->deterministic;
      });
      if (!timed.step->deterministic || found == all.end()) continue;
      timed.row.emplace_back("deterministic_price", milliseconds(timed) / milliseconds(*found));
      break;
    }
  }
}

/// Times the steps on one group.
/// @param matmuls   that rates count
/// @param inputs_of inputs_of(problem) of the lesson
/// @return a row for each step and length, with the price of determinism where a step beside it was
///   timed that does without; none where no step supports the group
/// @throws std::runtime_error when the device reports an error
template <class Backend, class InputsOf>
std::vector<cli::Measurement> time_steps(const Backend& backend, const TimedGroup& group,
                                         int matmuls, InputsOf inputs_of) {
  using LadderStep = typename decltype(backend.steps)::value_type;
  std::vector<TimedStep<LadderStep>> all;
  std::map<std::int64_t, typename LadderStep::GivenType> inputs;  // by length
  for (const LadderStep& step : backend.steps) {
    if (step.name.find(group.kernel) == std::string::npos) continue;
    std::vector<std::int64_t> lengths{1024, 2048, 4096, 8192, 16384};
    if (step.slow) lengths = {4096};
    if (group.length != 0) lengths = {group.length};
    for (const std::int64_t n : lengths) {
      const Problem problem = timed_problem(group.type, group.head_dim, group.causal, n);
      if (!step.supports(problem)) continue;
      if (inputs.find(n) == inputs.end()) inputs.emplace(n, inputs_of(problem));
      const auto prepared = step.prepare(problem, inputs.at(n));
      all.push_back(
          {&step, n,
           time_work(backend, problem, step.name, prepared.launch, matmuls, step.slow ? 5 : 20)});
    }
  }
  add_prices(all);
  std::vector<cli::Measurement> rows;
  for (TimedStep<LadderStep>& timed : all) rows.push_back(std::move(timed.row));
  return rows;
}

}  // namespace fa::attention
