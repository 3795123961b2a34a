/// @file
/// The kernels of this lesson as a table. Compiled once for each backend: see
/// common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/src/backend.hpp"
#include "06_flash_backward/src/dispatch.cuh"
#include "06_flash_backward/src/gradient_rows.cuh"
#include "steps/backward.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// What is chosen for a device.
inline LadderStep dispatched_step(bool deterministic, const DeviceProperties& device) {
  return GradientRow{}("dispatched", "", float{}, half{}, bfloat16{})
      .mla()
      .workspace([=](const auto& a, auto) { return workspace_of(a, deterministic, device); })
      .launch([=](auto& a, auto, auto& stream) {
        backward_kernels(a, deterministic, device).launch(stream);
      });
}

// The file of what is chosen for a problem on a device.
inline std::string chosen_kernels(const Problem& problem, bool deterministic,
                                  const DeviceProperties& device) {
  return with_device_type<float, half, bfloat16>(problem.type, [&](auto type) -> std::string {
    using T = typename decltype(type)::device;
    return backward_kernels(gradient_of<T>(problem), deterministic, device).name;
  });
}

}  // namespace

/// This backend with all kernels of the lesson.
static backward::Backend backend(const std::string& kind) {
  auto result = backend_with<backward::Backend>(kind, ladder_of<kBackwardSteps>([](auto number) {
                                                  return backward_step(number, GradientRow{});
                                                }));
  result.forward = [kind](const Problem& problem, const attention::Inputs& inputs) {
    return flash::dispatched_forward(kind, problem, inputs);
  };
  result.chosen = chosen_kernels;
  result.dispatched = dispatched_step;
  return result;
}

}  // namespace fa::FA_TARGET
