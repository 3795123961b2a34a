/// @file
/// How fast the rungs are on a GPU.
#pragma once

#include <vector>

#include "06_flash_backward/src/backend.hpp"
#include "common/attention/host/timing.hpp"

namespace fa::backward {

/// What is timed: one head, which stands for all heads of all sequences.
/// @param backend computes o and lse
/// @param problem what is timed; its type is one of the backend's forward pass
Inputs timed_inputs(const Backend& backend, const Problem& problem);

/// Times the rungs on one group, five matmuls counted, lesson 05's forward pass on its problems
/// before; see attention::time_rungs(). Rungs 01 to 05 are slow.
std::vector<cli::Measurement> time_rungs(const Backend& backend, const TimedGroup& group);

}  // namespace fa::backward
