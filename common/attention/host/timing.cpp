#include "common/attention/host/timing.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/tensor/random.hpp"

namespace fa::attention {
namespace {

// The kernel of a step that uses the most registers.
KernelResources largest(const std::vector<KernelResources>& all) {
  return *std::max_element(all.begin(), all.end(), [](const auto& left, const auto& right) {
    return left.registers < right.registers;
  });
}

}  // namespace

Problem timed_problem(Type type, std::int64_t head_dim, bool causal, std::int64_t length) {
  constexpr std::int64_t tokens = 16384, width = 2048;
  const std::int64_t heads = width / head_dim;
  return problem_of(
      type, {std::max<std::int64_t>(1, tokens / length), heads, heads, length, length, head_dim},
      causal);
}

// To make and to round as many elements as are timed would take longer than the kernels, whose time
// does not depend on them.
Inputs timed_inputs(std::int64_t length, std::int64_t head_dim) {
  const auto tensor = [&](std::uint64_t seed) {
    Tensor<float, 4> result({1, 1, length, head_dim});
    for (std::int64_t i = 0; i < result.count(); ++i) {
      // -1.73 to 1.73, whose variance is 1
      result.data()[i] =
          static_cast<float>(3.46 * (random_uniform(seed, static_cast<std::uint64_t>(i)) - 0.5));
    }
    return result;
  };
  return {tensor(1), tensor(2), tensor(3)};
}

cli::Measurement time_work(const BackendBase& backend, const Problem& problem,
                           const std::string& kernel, const std::function<void()>& launch,
                           int matmuls, int repeats) {
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
      peak_flops(backend.properties, problem.type == Type::kFloat32 ? Arithmetic::kFloat32
                                                                    : Arithmetic::kTensorCores16);
  if (peak) {
    row.emplace_back("percent_of_peak", 100 * flops / (ms / 1e3) / *peak);
  }
  cli::add_resources(row, largest(backend.resources(launch)));
  return row;
}

}  // namespace fa::attention
