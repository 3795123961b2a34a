/// @file
/// The Hopper steps with stamps, see common/gpu/stamps.hpp.
#pragma once

#include "05_flash_forward/src/backend.hpp"
#include "common/cli/timelines.hpp"

namespace fa::flash::stamped {

/// What runs them.
using Backend = cli::StampedBackend<flash::Backend>;
/// Without stamps, and with them.
std::vector<Backend> backends();

}  // namespace fa::flash::stamped
