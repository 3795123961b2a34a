/// @file
/// The steps with a timeline in float16, for the problems that are drawn. Compiled twice, without
/// stamps and with them: see common/gpu/stamps.hpp.
#pragma once

#include "06_flash_backward/src/gradient_rows.cuh"
#include "common/gpu/stamps.cuh"
#include "steps/backward.cuh"

namespace fa::FA_TARGET {

/// A backend with these steps.
static backward::stamped::Backend backend(const std::string&) {
  auto result = backend_with<backward::stamped::Backend>(
      "gpu", drawn_ladder<LadderStep, DeviceGradient, kBackwardSteps>(
                 [](auto number, auto row) { return backward_step(number, row); }));
  result.clear_stamps = clear_stamps;
  result.take_stamps = take_stamps;
  return result;
}

}  // namespace fa::FA_TARGET
