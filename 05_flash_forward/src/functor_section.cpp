#include <fmt/format.h>

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/src/functors.hpp"
#include "common/attention/host/timing.hpp"
#include "common/cli/kernels.hpp"
#include "common/cli/table.hpp"

namespace fa::flash::functors {
namespace {

void check_functors(cli::Program& program, const Backend& backend) {
  for (const TimedFunctor& timed : timed_functors()) {
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

cli::Measurement row_of(const TimedFunctor& timed, const std::string& kernel, double ms) {
  return {{"group", "functors"},
          {"functor", timed.name},
          {"kernel", kernel},
          {"batch", timed.problem.shape.batch},
          {"length", timed.problem.shape.length_q},
          {"milliseconds", ms},
          {"tflops", timed.flops(2) / ms / 1e9}};
}

}  // namespace

void show_functors(cli::Program& program, const cli::KernelOptions& options) {
  const std::vector<Backend> all = backends();
  const Backend& backend = *find_backend(all, program.on_gpu() ? "gpu" : "lab");
  for (const std::string& why : backend.left_out) fmt::print("{}\n", why);
  check_functors(program, backend);
  if (!cli::can_time(program, options)) return;
  const std::vector<flash::Backend> ladders = flash::backends();
  const flash::Backend& ladder = *find_backend(ladders, "gpu");
  cli::Table table({"functor", "kernel", "tiles", "partial", "whole", "ms", "TFLOP/s"});
  cli::Record record(options, backend.properties,
                     "05_flash_forward --device gpu --section functors");
  for (const TimedFunctor& timed : timed_functors()) {
    std::vector<cli::Measurement> rows;
    const AttentionShape& s = timed.problem.shape;
    const TileCounts tiles = count_tiles(timed.tables.pointed(timed.spec), s, 128, 64);
    const auto add = [&](const std::string& kernel, const std::function<void()>& launch) {
      const double ms = backend.milliseconds(launch, 20).value();
      rows.push_back(row_of(timed, kernel, ms));
      table.add({timed.name, kernel, std::to_string(tiles.all()), std::to_string(tiles.partial),
                 std::to_string(tiles.whole), fmt::format("{:.3f}", ms),
                 fmt::format("{:.0f}", timed.flops(2) / ms / 1e9)});
    };
    const Inputs one = timed_inputs(s.length_q, s.head_dim);
    for (const LadderStep& step : backend.steps) {
      FunctorInputs inputs;
      static_cast<Inputs&>(inputs) = one;
      inputs.spec = timed.spec;
      inputs.tables = timed.tables;
      const auto prepared = step.prepare(timed.problem, inputs);
      add(step.name, prepared.launch);
    }
    // The kernels without a functor that compute the same.
    const bool causal = timed.spec.kind == FunctorKind::kCausal;
    const bool computes = causal || timed.spec.kind == FunctorKind::kPlain;
    Problem problem = timed.problem;
    problem.causal = causal;
    for (const flash::LadderStep& step : ladder.steps) {
      if (!computes || (step.name != "08_edge_masks" && step.name != "14_lazy_rescaling")) continue;
      const auto prepared = step.prepare(problem, one);
      add(step.name, prepared.launch);
    }
    record.add(rows);
  }
  fmt::print(
      "bfloat16, 16 heads, head_dim 128, 16384 tokens; TFLOP/s of the visible scores; tiles of\n"
      "128 queries and 64 keys\n{}",
      table.text());
  record.finish();
}

}  // namespace fa::flash::functors
