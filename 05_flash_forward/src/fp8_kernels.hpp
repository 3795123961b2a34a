/// @file
/// The kernels in 8 bits as the program and the tests see them: from host tensors to host tensors, on
/// each backend that this build has.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "05_flash_forward/src/fp8.hpp"
#include "common/attention/host/step.hpp"
#include "common/tensor/random.hpp"

namespace fa::flash::fp8 {

/// One step of the ladder of kernels in 8 bits. A problem's type is that of O; the heads of a group
/// have the first one's scale of Q. One head of one sequence stands for all of them.
using LadderStep = attention::LadderStep<Fp8Inputs, Outputs>;
/// What runs them.
using Backend = LadderBackend<LadderStep>;

/// The backends of this build: the lab first.
std::vector<Backend> backends();

/// Random inputs of a problem, with a random scale for each head of K and of V, and for each group of
/// heads of Q.
inline Fp8Inputs fp8_inputs(const Problem& problem, Values values, std::uint64_t seed) {
  const Inputs inputs = make_inputs(problem, values, seed);
  const auto quantized = [&](const Tensor<float, 4>& x, std::uint64_t tensor) {
    Quantized<> result{Tensor<e4m3, 4>(x.shape()), Tensor<float, 3>({x.size(0), x.size(1), 1}),
                       x.size(2)};
    const float largest = std::max(std::abs(*std::max_element(x.data(), x.data() + x.count())),
                                   std::abs(*std::min_element(x.data(), x.data() + x.count())));
    const auto group = static_cast<std::uint64_t>(x.size(1) / problem.shape.kv_heads);
    for_each_index(Shape<2>{x.size(0), x.size(1)}, [&](const Shape<2>& at) {
      const auto head = static_cast<std::uint64_t>(at[0] * x.size(1) + at[1]);
      // Codes up to 448 / 4 at least: the scale is up to 4 times what the largest code would need.
      result.scales(at[0], at[1], 0) =
          static_cast<float>((1 + 3 * random_uniform(seed + tensor, head / group)) *
                             static_cast<double>(largest) / 448);
    });
    for_each_index(x.shape(), [&](const Shape<4>& at) {
      result.codes.view()[at] = e4m3(x.view()[at] / result.scale(at[0], at[1], at[2]));
    });
    return result;
  };
  return {quantized(inputs.q, 100), quantized(inputs.k, 200), quantized(inputs.v, 300)};
}

/// Checks O and LSE by the acceptance rule for 8 bits.
struct KernelChecker : Fp8Checker {
  /// Computes the references.
  KernelChecker(const Problem& problem, const Fp8Inputs& inputs)
      : Fp8Checker(inputs, problem.causal) {}
  /// As Fp8Checker::check(), for the sums of tensor cores.
  std::vector<Verdict> check(const std::string& name, const Outputs& outputs) const {
    return Fp8Checker::check(name, outputs, std::ldexp(1.0, -kFp8FractionBits));
  }
};

}  // namespace fa::flash::fp8
