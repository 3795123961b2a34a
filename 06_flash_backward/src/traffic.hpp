/// @file
/// What the float32 rungs ask of global memory, by their own formulas, and what the watched lab
/// counts.
#pragma once

#include "06_flash_backward/src/backend.hpp"

namespace fa::backward {

/// The section: formulas, counts, and that they are equal.
void show_traffic(const Lesson<Backend>& lesson, const Backend& watched);

}  // namespace fa::backward
