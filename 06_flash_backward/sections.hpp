/// @file
/// Lesson 06: sections of the program, in the files that narrate them.
#pragma once

#include "common/cli/program.hpp"

namespace fa::backward {

/// From the derivative to gradients by tiles (derivation_sections.cpp).
void add_derivation(cli::Program& program);

/// The tape (autograd_sections.cpp).
void add_autograd(cli::Program& program);

}  // namespace fa::backward
