/// @file
/// Lesson 06: sections of the program, in the files that narrate them.
#pragma once

#include <vector>

#include "06_flash_backward/src/backend.hpp"
#include "common/cli/program.hpp"

namespace fa::backward {

/// From the derivative to gradients by tiles (derivation_sections.cpp).
void add_derivation(cli::Program& program);

/// The tape (autograd_sections.cpp).
void add_autograd(cli::Program& program);

/// The kernels (kernel_sections.cpp). Adds options, too.
void add_kernels(cli::Program& program, const std::vector<Backend>& backends);

/// Training, as a section and as a command (train_sections.cpp).
/// @param backends with the lab; must outlive the program
void add_training(cli::Program& program, const std::vector<Backend>& backends);

}  // namespace fa::backward
