/// @file
/// What the float32 rungs ask of global memory, by their own formulas, and what the watched lab
/// counts.
#pragma once

#include "06_flash_backward/src/backend.hpp"
#include "common/cli/program.hpp"

namespace fa::backward {

/// The section: formulas, counts, and that they are equal.
/// @param program reports the checks
/// @param watched the watched lab
void show_traffic(cli::Program& program, const Backend& watched);

}  // namespace fa::backward
