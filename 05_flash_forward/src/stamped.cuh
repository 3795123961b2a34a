/// @file
/// The steps with a timeline in float16, for the problems that are drawn. Compiled twice, without
/// stamps and with them: see common/gpu/stamps.hpp.
#pragma once

#include "05_flash_forward/src/backend.hpp"
#include "common/attention/host/step_row.cuh"
#include "common/gpu/stamps.cuh"
#include "steps/forward.cuh"

namespace fa::FA_TARGET {

/// A backend with these steps.
static flash::stamped::Backend backend(const std::string&) {
  auto result = backend_with<flash::stamped::Backend>(
      "gpu", drawn_ladder<flash::LadderStep, DeviceAttention, kForwardSteps>(
                 [](auto number, auto row) { return forward_step(number, row); }));
  result.clear_stamps = clear_stamps;
  result.take_stamps = take_stamps;
  return result;
}

}  // namespace fa::FA_TARGET
