/// @file
/// The kernels in 8 bits as the program and the tests see them: from host tensors to host tensors, on
/// each backend that this build has.
#pragma once

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
    Quantized<> result = quantize<e4m3>(x, ScalePer::kTensor);
    const std::int64_t group = x.size(1) / problem.shape.kv_heads;
    for (std::int64_t head = 0; head < result.scales.count(); ++head) {
      // Codes up to 448 / 4 at least: the scale is up to 4 times what the largest code would need.
      result.scales.data()[head] *= static_cast<float>(
          1 + 3 * random_uniform(seed + tensor, static_cast<std::uint64_t>(head / group)));
    }
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
