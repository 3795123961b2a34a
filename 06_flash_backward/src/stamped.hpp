/// @file
/// The Hopper steps with stamps, see common/gpu/stamps.hpp.
#pragma once

#include "06_flash_backward/src/backend.hpp"
#include "common/cli/timelines.hpp"

namespace fa::backward::stamped {

/// What runs them.
using Backend = cli::StampedBackend<backward::Backend>;
/// Without stamps, and with them.
std::vector<Backend> backends();

}  // namespace fa::backward::stamped
