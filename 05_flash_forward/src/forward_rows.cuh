/// @file
/// The rows of this lesson's steps: see common/attention/host/step_row.cuh.
#pragma once

#include "05_flash_forward/src/backend.hpp"
#include "common/attention/host/step_row.cuh"

namespace fa::FA_TARGET {

/// What a step is given to make its row.
using ForwardRow = RowMaker<flash::LadderStep, DeviceAttention>;

}  // namespace fa::FA_TARGET
