/// @file
/// The ladder of this lesson as a table, on one backend. Compiled once for each: see
/// common/gpu/target.hpp.
#pragma once

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/src/dispatch.cuh"
#include "common/attention/host/step_row.cuh"
#include "steps/forward.cuh"

namespace fa::FA_TARGET {
namespace {  // one source file for each backend includes this

// What a step is given to make its row.
using ForwardRow = RowMaker<flash::LadderStep, DeviceAttention>;

// The kernel that is chosen for a device, as a step of this backend.
inline flash::LadderStep dispatched_step(const DeviceProperties& device) {
  return ForwardRow{}("dispatched", "", float{}, half{}, bfloat16{})
      .mla()
      .launch(
          [=](auto& a, auto, auto& stream) { forward_kernel(a, device).launch(stream, nullptr); });
}

// The file of the kernel that is chosen for a problem on a device.
inline std::string chosen_kernel(const Problem& problem, const DeviceProperties& device) {
  return with_device_type<float, half, bfloat16>(problem.type, [&](auto type) -> std::string {
    using T = typename decltype(type)::device;
    return forward_kernel(attention_of<T>(problem), device).name;
  });
}

}  // namespace

/// A backend with all kernels of the lesson.
static flash::Backend backend(const std::string& kind) {
  auto result = backend_with<flash::Backend>(kind, ladder_of<kForwardSteps>([](auto number) {
                                               return forward_step(number, ForwardRow{});
                                             }));
  result.chosen = chosen_kernel;
  result.dispatched = dispatched_step;
  return result;
}

}  // namespace fa::FA_TARGET
