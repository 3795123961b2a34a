#include "05_flash_forward/src/timing.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/tensor/random.hpp"

namespace fa::flash {
namespace {

// A thread for each query or for each score: one length, and fewer repeats, or they would take most
// of the time.
bool is_slow(const Rung& rung) {
  return rung.name < "04";
}

// The kernel of a rung that uses the most registers.
KernelResources largest(const std::vector<KernelResources>& all) {
  return *std::max_element(all.begin(), all.end(),
                           [](const auto& left, const auto& right) {
                             return left.registers < right.registers;
                           });
}

}  // namespace

std::string group_of(const Problem& problem) {
  return fmt::format("{}, D {}{}", name_of(problem.type),
                     problem.shape.head_dim,
                     problem.causal ? ", causal" : "");
}

Problem timed_problem(Type type, std::int64_t head_dim, bool causal,
                      std::int64_t length) {
  constexpr std::int64_t tokens = 16384, width = 2048;
  const std::int64_t heads = width / head_dim;
  Problem problem;
  problem.shape = {std::max<std::int64_t>(1, tokens / length),
                   heads,
                   heads,
                   length,
                   length,
                   head_dim};
  problem.type = type;
  problem.causal = causal;
  return problem;
}

// To make and to round as many elements as are timed would take longer than the kernels, whose time
// does not depend on them.
Inputs timed_inputs(std::int64_t length, std::int64_t head_dim) {
  const auto tensor = [&](std::uint64_t seed) {
    Tensor<float, 4> result({1, 1, length, head_dim});
    for (std::int64_t i = 0; i < result.count(); ++i) {
      // -1.73 to 1.73, whose variance is 1
      result.data()[i] = static_cast<float>(
          3.46 * (random_uniform(seed, static_cast<std::uint64_t>(i)) - 0.5));
    }
    return result;
  };
  return {tensor(1), tensor(2), tensor(3)};
}

cli::Measurement time_work(const BackendBase& backend, const Problem& problem,
                           const std::string& kernel,
                           const std::function<void()>& launch, int products,
                           int repeats) {
  const double ms = backend.milliseconds(launch, repeats).value();
  const AttentionShape& s = problem.shape;
  // With the mask half of them.
  const double flops = (problem.causal ? 1.0 : 2.0) * products *
                       static_cast<double>(s.batch * s.heads) *
                       static_cast<double>(s.length_q) *
                       static_cast<double>(s.length_k * s.head_dim);
  cli::Measurement row{
      {"group", group_of(problem)},
      {"title", fmt::format("{}, B x N = {}, H x D = {}", group_of(problem),
                            s.batch * s.length_q, s.heads * s.head_dim)},
      {"kernel", kernel},
      {"length", s.length_q},
      {"milliseconds", ms},
      {"tflops", flops / ms / 1e9}};
  const auto peak =
      peak_flops(backend.properties, problem.type == Type::kFloat32
                                         ? Arithmetic::kFloat32
                                         : Arithmetic::kTensorCores16);
  if (peak) {
    row.emplace_back("percent_of_peak", 100 * flops / (ms / 1e3) / *peak);
  }
  cli::add_resources(row, largest(backend.resources(launch)));
  return row;
}

cli::Measurement time_prepared(const Backend& backend, const Problem& problem,
                               const std::string& kernel,
                               const Prepared& prepared, int repeats) {
  return time_work(backend, problem, kernel, prepared.launch, 2, repeats);
}

std::vector<cli::Measurement> time_rungs(const Backend& backend, Type type,
                                         std::int64_t head_dim, bool causal,
                                         const std::string& kernel,
                                         std::int64_t length) {
  std::vector<cli::Measurement> rows;
  for_each_timed(
      backend, type, head_dim, causal, kernel, length, is_slow,
      [&](const Rung& rung, const Problem& problem, int repeats) {
        const Prepared prepared = rung.prepare(
            problem, timed_inputs(problem.shape.length_q, head_dim));
        rows.push_back(
            time_prepared(backend, problem, rung.name, prepared, repeats));
      });
  return rows;
}

}  // namespace fa::flash
