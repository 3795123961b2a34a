// The sections of lesson 05 that ./learn run does not compile.
#include <cstdio>

#include <fmt/format.h>

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/src/decode.hpp"
#include "05_flash_forward/src/fp8_kernels.hpp"
#include "05_flash_forward/src/functor_section.hpp"
#include "common/attention/host/timing.hpp"
#include "common/cli/kernels.hpp"
#include "common/cli/table.hpp"

namespace fa::flash {
namespace decode {
namespace {

// The steps that are selected, checked on small problems: in the lab, which runs them as well.
void check_steps(cli::Program& program, const Backend& backend, const cli::KernelOptions& options) {
  for (const auto& step : backend.steps) {
    if (!options.wants(step.name)) continue;
    fmt::print("{}: {}\n", step.name, step.idea);
    for (const AttentionShape& shape :
         {AttentionShape{2, 8, 2, 1, 333, 64}, AttentionShape{1, 4, 1, 16, 203, 128}}) {
      const Problem problem = problem_of(Type::kBFloat16, shape, true);
      DecodeInputs inputs = decode_inputs(problem, Values::kNormal, 1);
      if (step.supports_lengths && shape.batch == 2) inputs.lengths_k = {77, 333};
      const DecodeChecker checker(problem, inputs);
      program.check(checker.check(problem.words(), step.run(problem, inputs)));
    }
  }
}

// Batch, queries and keys that are timed, on 32 heads and 8 of keys with 128 columns.
struct TimedCache {
  std::int64_t batch, length_q, length_k;
};
constexpr TimedCache kTimed[] = {
    {1, 1, 32768}, {1, 1, 131072}, {16, 1, 8192}, {64, 1, 4096}, {4, 16, 32768}};

std::string group_of(const TimedCache& cache) {
  return fmt::format("B {}, {} {}, {} keys", cache.batch, cache.length_q,
                     cache.length_q == 1 ? "query" : "queries", cache.length_k);
}

Problem timed_problem(const TimedCache& cache) {
  return problem_of(Type::kBFloat16, {cache.batch, 32, 8, cache.length_q, cache.length_k, 128},
                    false);
}

// For all steps: it takes longer to draw them than to time a step.
DecodeInputs timed_cache_inputs(const AttentionShape& s) {
  DecodeInputs inputs;
  static_cast<Inputs&>(inputs) = timed_inputs(s.length_k, s.head_dim);
  inputs.q = timed_inputs(s.length_q, s.head_dim).q;
  inputs.page_size = 64;
  return inputs;
}

cli::Measurement time_step(const Backend& backend, const LadderStep& step, const TimedCache& cache,
                           const DecodeInputs& inputs) {
  const Problem problem = timed_problem(cache);
  const AttentionShape& s = problem.shape;
  const auto prepared = step.prepare(problem, inputs);
  const double ms = backend.milliseconds(prepared.launch, 20).value();
  // K and V once, q and o.
  const double bytes = 4.0 * static_cast<double>(s.batch * s.head_dim) *
                       static_cast<double>(s.kv_heads * s.length_k + s.heads * s.length_q);
  const std::string group = group_of(cache);
  cli::Measurement row{
      {"group", group},         {"title", group + ": bfloat16, 32 heads, 8 KV heads, head_dim 128"},
      {"kernel", step.name},    {"batch", s.batch},
      {"length_q", s.length_q}, {"length", s.length_k},
      {"milliseconds", ms},     {"gigabytes_per_second", bytes / ms / 1e6}};
  if (backend.properties.memory_bandwidth > 0) {
    row.emplace_back("percent_of_bandwidth",
                     100 * bytes / (ms / 1e3) / backend.properties.memory_bandwidth);
  }
  cli::add_resources(row, backend.resources(prepared.launch).front());
  return row;
}

// Every step is checked on small problems and, on a GPU, timed on the caches that a server has: a step
// that --kernel names, or those that read lengths from the device.
void show_decode(cli::Program& program, const cli::KernelOptions& options) {
  const std::vector<Backend> all = backends();
  const Backend& backend = *find_backend(all, program.on_gpu() ? "gpu" : "lab");
  cli::check_kernel(options, step_names(backend), "05_flash_forward");
  for (const std::string& why : backend.left_out) fmt::print("{}\n", why);
  check_steps(program, backend, options);
  if (!cli::can_time(program, options)) return;
  std::string command = "05_flash_forward --device gpu --section decode";
  if (!options.kernel.empty()) command += " --kernel " + options.kernel;
  cli::Record record(options, backend.properties, command);
  fmt::print("bfloat16, 32 heads, 8 KV heads, head_dim 128; pages of 64 keys\n");
  for (const TimedCache& cache : kTimed) {
    std::vector<cli::Measurement> rows;
    const DecodeInputs inputs = timed_cache_inputs(timed_problem(cache).shape);
    for (const LadderStep& step : backend.steps) {
      if (!options.wants(step.name)) continue;
      // The library launches the others; caches for all of them take long to make.
      if (options.kernel.empty() && !step.supports_lengths) continue;
      rows.push_back(time_step(backend, step, cache, inputs));
    }
    fmt::print("\n{}\n{}", group_of(cache),
               cli::table_of(
                   rows, std::vector<cli::Column>{{"kernel", "kernel"},
                                                  {"ms", "milliseconds", 4},
                                                  {"GB/s", "gigabytes_per_second"},
                                                  {"% of bandwidth", "percent_of_bandwidth", 1}}));
    std::fflush(stdout);
    record.add(rows);
  }
  record.finish();
}

}  // namespace
}  // namespace decode

namespace fp8 {
namespace {

// How far O of 64 queries is off from float64 on the inputs before they had 8 bits, in % of its norm.
double percent_error(const LadderStep& step, std::int64_t head_dim, bool causal,
                     std::int64_t length) {
  const Problem problem =
      problem_of(Type::kBFloat16, {1, 1, 1, kBlockRows, length, head_dim}, causal);
  Inputs inputs = timed_inputs(length, head_dim);
  inputs.q = timed_inputs(kBlockRows, head_dim).q;
  AttentionOptions options;
  options.causal = causal;
  const auto ref = naive::forward<double>(converted<double>(inputs.q), converted<double>(inputs.k),
                                          converted<double>(inputs.v), options);
  const Outputs out = step.run(problem, quantize(inputs, ScalePer::kHead));
  const Distance off = distance(out.o.view(), ref.o.view());
  return 100 * off.rms_error / off.rms_reference;
}

// Every kernel in 8 bits is checked on small problems and, on a GPU, timed.
void show_kernels(cli::Program& program, const cli::KernelOptions& options) {
  const std::vector<Backend> all = backends();
  const Backend& backend = *find_backend(all, program.on_gpu() ? "gpu" : "lab");
  cli::check_kernel(options, step_names(backend), "05_flash_forward");
  for (const std::string& why : backend.left_out) fmt::print("{}\n", why);
  const auto wanted = [&](const LadderStep& step, const Problem& problem) {
    return options.wants(step.name) && step.supports(problem);
  };
  for (const AttentionShape& shape :
       {AttentionShape{2, 4, 2, 150, 203, 64}, AttentionShape{1, 2, 1, 203, 401, 128},
        AttentionShape{1, 2, 1, 70, 150, 256}}) {
    const Problem problem = problem_of(Type::kBFloat16, shape, true);
    const Fp8Inputs inputs = fp8_inputs(problem, Values::kNormal, 1);
    const KernelChecker checker(problem, inputs);
    for (const LadderStep& step : backend.steps) {
      if (!wanted(step, problem)) continue;
      const std::string name = fmt::format("{}, {}", step.name, problem.words());
      program.check(checker.check(name, step.run(problem, inputs)));
    }
  }
  if (!cli::can_time(program, options)) return;
  std::string command = "05_flash_forward --device gpu --section fp8_kernels";
  if (!options.kernel.empty()) command += " --kernel " + options.kernel;
  cli::Record record(options, backend.properties, command);
  for (const std::int64_t head_dim : {64, 128, 256}) {
    for (const bool causal : {false, true}) {
      std::vector<cli::Measurement> rows;
      for (const std::int64_t length : {1024, 4096, 16384}) {
        const Problem problem = timed_problem(Type::kBFloat16, head_dim, causal, length);
        const Fp8Inputs inputs = quantize(timed_inputs(length, head_dim), ScalePer::kHead);
        for (const LadderStep& step : backend.steps) {
          if (!wanted(step, problem)) continue;
          rows.push_back(time_work(backend, problem, step.name,
                                   step.prepare(problem, inputs).launch, 2, 20,
                                   Arithmetic::kTensorCores8));
          rows.back()[0].second = fmt::format("e4m3, D {}{}", head_dim, causal ? ", causal" : "");
          rows.back()[1].second = fmt::format(
              "{}, B x N = {}, H x D = {}", std::get<std::string>(rows.back()[0].second),
              problem.shape.batch * length, problem.shape.heads * head_dim);
          rows.back().emplace_back("percent_error", percent_error(step, head_dim, causal, length));
        }
      }
      if (rows.empty()) continue;
      fmt::print("\n{}\n{}", std::get<std::string>(rows[0][1].second),
                 cli::table_of(rows, {"kernel"}));
      std::fflush(stdout);
      record.add(rows);
    }
  }
  record.finish();
}

}  // namespace
}  // namespace fp8

namespace {

void show_functors(cli::Program& program, const cli::KernelOptions& options) {
  const std::vector<functors::Backend> all = functors::backends();
  const functors::Backend& backend = *find_backend(all, program.on_gpu() ? "gpu" : "lab");
  for (const std::string& why : backend.left_out) fmt::print("{}\n", why);
  functors::check_functors<functors::FunctorChecker>(program, backend, functors::functor_inputs);
  if (!cli::can_time(program, options)) return;
  const std::vector<Backend> ladders = backends();
  functors::time_functors(options, backend, *find_backend(ladders, "gpu"), "05_flash_forward", 2,
                          false, [](const Problem& problem) {
                            return timed_inputs(problem.shape.length_q, problem.shape.head_dim);
                          });
}

}  // namespace
}  // namespace fa::flash

int main(int argc, char** argv) {
  using namespace fa;
  cli::Program program("05_flash_forward",
                       "Lesson 05: decode kernels, kernels in 8 bits, and functors.");
  const cli::KernelBackends<flash::Backend> backends(program, flash::backends());
  cli::KernelOptions options;
  program.option("--kernel", options.kernel,
                 "sections decode and fp8_kernels: only kernels whose name contains this text");
  cli::add_record_options(program, options, "sections decode, fp8_kernels and functors");
  program.section_apart("decode", "Decode kernels: few queries, many keys",
                        [&] { flash::decode::show_decode(program, options); });
  program.section_apart("fp8_kernels", "Kernels in 8 bits",
                        [&] { flash::fp8::show_kernels(program, options); });
  program.section_apart("functors", "Masks and scores by functors",
                        [&] { flash::show_functors(program, options); });
  return program.run(argc, argv);
}
