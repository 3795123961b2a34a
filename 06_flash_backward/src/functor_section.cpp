#include <algorithm>

#include <fmt/format.h>

#include "06_flash_backward/src/backend.hpp"
#include "06_flash_backward/src/functors.hpp"
#include "06_flash_backward/src/sections.hpp"
#include "common/cli/kernels.hpp"
#include "common/cli/table.hpp"

namespace fa::backward::functors {
namespace {

using flash::functors::TimedFunctor;

void check_functors(cli::Program& program, const Backend& backend) {
  for (const TimedFunctor& timed : flash::functors::timed_functors()) {
    for (const LadderStep& step : backend.steps) {
      const Problem problem = problem_of(Type::kBFloat16, {1, 4, 2, 150, 203, 128});
      FunctorSpec spec = timed.spec;
      if (spec.left >= 0) spec.left = 70;
      spec.block_size = 40;
      const FunctorInputs inputs = functor_inputs(problem, spec, Values::kNormal, 1);
      const FunctorChecker checker(problem, inputs);
      for (const Verdict& verdict : checker.check(timed.name, step.run(problem, inputs))) {
        program.check(verdict);
      }
    }
  }
}

// One head, which stands for all. O and LSE are those of no functor: times do not depend on them.
Inputs timed_inputs(const backward::Backend& ladder, const TimedFunctor& timed) {
  Problem problem = timed.problem;
  problem.causal = true;
  return backward::timed_inputs(ladder, problem);
}

}  // namespace

void show_functors(cli::Program& program, const cli::KernelOptions& options) {
  const std::vector<Backend> all = backends();
  const Backend& backend = *find_backend(all, program.on_gpu() ? "gpu" : "lab");
  for (const std::string& why : backend.left_out) fmt::print("{}\n", why);
  check_functors(program, backend);
  if (!cli::can_time(program, options)) return;
  const std::vector<backward::Backend> ladders = backward::backends();
  const backward::Backend& ladder = *find_backend(ladders, "gpu");
  cli::Table table({"functor", "kernel", "ms", "TFLOP/s"});
  cli::Record record(options, backend.properties,
                     "06_flash_backward --device gpu --section functors");
  for (const TimedFunctor& timed : flash::functors::timed_functors()) {
    std::vector<cli::Measurement> rows;
    const double flops = timed.flops(5);
    const auto add = [&](const std::string& kernel, const std::function<void()>& launch) {
      const double ms = backend.milliseconds(launch, 20).value();
      rows.push_back({{"group", "functors"},
                      {"functor", timed.name},
                      {"kernel", kernel},
                      {"batch", timed.problem.shape.batch},
                      {"length", timed.problem.shape.length_q},
                      {"milliseconds", ms},
                      {"tflops", flops / ms / 1e9}});
      table.add(
          {timed.name, kernel, fmt::format("{:.3f}", ms), fmt::format("{:.0f}", flops / ms / 1e9)});
    };
    const Inputs one = timed_inputs(ladder, timed);
    for (const LadderStep& step : backend.steps) {
      FunctorInputs inputs;
      static_cast<Inputs&>(inputs) = one;
      inputs.spec = timed.spec;
      inputs.tables = timed.tables;
      const auto prepared = step.prepare(timed.problem, inputs);
      add(step.name, prepared.launch);
      if (timed.spec.kind == FunctorKind::kSoftCap && step.name == "01_score_functor") {
        inputs.spec.dual = true;
        const auto with_dual = step.prepare(timed.problem, inputs);
        add("01_score_functor, dual", with_dual.launch);
      }
    }
    // The kernels without a functor that compute the same.
    const bool causal = timed.spec.kind == FunctorKind::kCausal;
    const bool computes = causal || timed.spec.kind == FunctorKind::kPlain;
    Problem problem = timed.problem;
    problem.causal = causal;
    for (const char* name : {"06_swizzled_pipeline", "12_store_then_reduce"}) {
      for (const backward::LadderStep& step : ladder.steps) {
        if (computes && step.name == name) add(name, step.prepare(problem, one).launch);
      }
    }
    record.add(rows);
  }
  fmt::print(
      "bfloat16, 16 heads, head_dim 128, 16384 tokens; TFLOP/s of the visible scores, five\n"
      "matmuls\n{}",
      table.text());
  record.finish();
}

}  // namespace fa::backward::functors
