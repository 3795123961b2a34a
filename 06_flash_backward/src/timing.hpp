/// @file
/// How fast the rungs are on a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "06_flash_backward/src/backend.hpp"
#include "common/cli/results.hpp"

namespace fa::backward {

/// What is timed: one head, which stands for all heads of all sequences.
/// @param backend computes o and lse
/// @param problem what is timed; its type is one of the backend's forward pass
Inputs timed_inputs(const Backend& backend, const Problem& problem);

/// Times the rungs on one group: lesson 05's problems, and its forward pass on them before.
/// @param backend  a GPU
/// @param type, head_dim, causal of the group
/// @param kernel   only rungs whose name holds this text
/// @param length   the only one that is timed; 0: 1024 to 16384, and 4096 for rungs 01 to 05
/// @return a row for each rung and length, five products counted; a deterministic rung's has its
///         price, too: its time over that of the last other rung, where both were timed. None
///         where no rung takes the group.
/// @throws std::runtime_error when the device reports an error
std::vector<cli::Measurement> time_rungs(const Backend& backend, Type type,
                                         std::int64_t head_dim, bool causal,
                                         const std::string& kernel,
                                         std::int64_t length);

}  // namespace fa::backward
