/// @file
/// The sections of lesson 05's program on 8 bits: formats, scales, errors of S, P and O, rotation.
#pragma once

#include "common/cli/program.hpp"

namespace fa::flash::fp8 {

/// Adds the sections; each runs when it is named, or in a verbose run.
void add_sections(cli::Program& program);

}  // namespace fa::flash::fp8
