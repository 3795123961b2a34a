/// @file
/// The section "functors" of lessons 05 and 06: every functor is checked on small problems and, on a
/// GPU, timed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "05_flash_forward/src/functors.hpp"
#include "common/cli/kernels.hpp"
#include "common/cli/table.hpp"

namespace fa::flash::functors {

/// Checks the steps of a backend with every functor that is timed.
/// @param make_inputs make_inputs(problem, spec, values, seed, change) of the lesson
template <class Checker, class Backend, class MakeInputs>
void check_functors(cli::Program& program, const Backend& backend, MakeInputs make_inputs) {
  for (const TimedFunctor& timed : timed_functors()) {
    for (const auto& step : backend.steps) {
      const Problem problem = problem_of(Type::kBFloat16, {1, 4, 2, 150, 203, 128});
      FunctorSpec spec = timed.spec;
      if (spec.left >= 0) spec.left = 70;
      spec.block_size = 40;
      const auto inputs = make_inputs(problem, spec, Values::kNormal, 1, {});
      const Checker checker(problem, inputs);
      program.check(checker.check(timed.name, step.run(problem, inputs)));
    }
  }
}

/// Times the steps, and those of the lesson's ladder that compute the same without a functor.
/// @param backend,    ladder of a GPU
/// @param matmuls     that rates count
/// @param derivatives whether the first step is also timed with a derivative by dual numbers
/// @param one_of      one_of(problem): inputs of one head without a functor, which stands for all
/// @throws std::runtime_error when the device reports an error, or the record cannot be written
template <class Backend, class Ladder, class OneOf>
void time_functors(const cli::KernelOptions& options, const Backend& backend, const Ladder& ladder,
                   const std::string& name, int matmuls, bool derivatives, OneOf one_of) {
  cli::Table table({"functor", "kernel", "tiles", "partial", "whole", "ms", "TFLOP/s"});
  cli::Record record(options, backend.properties, name + " --device gpu --section functors");
  for (const TimedFunctor& timed : timed_functors()) {
    std::vector<cli::Measurement> rows;
    Problem problem = timed.problem;
    const AttentionShape& s = problem.shape;
    const TileCounts tiles = count_tiles(pointed(timed.spec, timed.tables), s, 128, 64);
    const double flops = 2.0 * matmuls * static_cast<double>(s.batch * s.heads * s.head_dim) *
                         static_cast<double>(tiles.visible_scores);
    const auto add = [&](const std::string& kernel, const std::function<void()>& launch) {
      const double ms = backend.milliseconds(launch, 20).value();
      rows.push_back({{"group", "functors"},
                      {"functor", timed.name},
                      {"kernel", kernel},
                      {"batch", s.batch},
                      {"length", s.length_q},
                      {"milliseconds", ms},
                      {"tflops", flops / ms / 1e9}});
      table.add({timed.name, kernel, std::to_string(tiles.all()), std::to_string(tiles.partial),
                 std::to_string(tiles.whole), fmt::format("{:.3f}", ms),
                 fmt::format("{:.0f}", flops / ms / 1e9)});
    };
    const auto one = one_of(problem);
    problem.causal = timed.spec.kind == FunctorKind::kCausal;
    for (const auto& step : backend.steps) {
      typename decltype(backend.steps)::value_type::GivenType inputs;
      static_cast<std::decay_t<decltype(one)>&>(inputs) = one;
      inputs.spec = timed.spec;
      inputs.tables = timed.tables;
      add(step.name, step.prepare(timed.problem, inputs).launch);
      if (derivatives && timed.spec.kind == FunctorKind::kSoftCap && &step == &backend.steps[0]) {
        inputs.spec.dual = true;
        add(step.name + ", dual", step.prepare(timed.problem, inputs).launch);
      }
      if (problem.causal || timed.spec.kind == FunctorKind::kPlain) {
        add(step.without_functor,
            find_step(ladder, step.without_functor).prepare(problem, one).launch);
      }
    }
    record.add(rows);
  }
  fmt::print(
      "bfloat16, 16 heads, head_dim 128, 16384 tokens; TFLOP/s of {} matmuls of the visible "
      "scores;\n"
      "tiles of 128 queries and 64 keys\n{}",
      matmuls, table.text());
  record.finish();
}

}  // namespace fa::flash::functors
