/// @file
/// What the watched lab sees of a kernel of this lesson.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "04_tiled_matmul/machine.hpp"

namespace fa::tiled {

/// What a kernel asked of memory, and what was wrong with it.
struct Trace {
  std::int64_t findings = 0;      ///< 0 when nothing is wrong
  std::int64_t global_bytes = 0;  ///< asked for, reads and writes
  std::int64_t sectors =
      0;  ///< 32-byte pieces of global memory that were moved
  std::int64_t sectors_ideal =
      0;  ///< if the lanes of each warp stood side by side
  std::int64_t wavefronts = 0;        ///< rounds of shared memory
  std::int64_t wavefronts_ideal = 0;  ///< without bank conflicts
  std::string text;                   ///< the whole report, for people
  std::string json;                   ///< the same for programs, one line
};

/// Runs a kernel of the machine "watched" and watches it; none where this build has no watched lab.
/// @param kernel of that machine
/// @param inputs its inputs
std::optional<Trace> trace(const Kernel& kernel, const Inputs& inputs);

}  // namespace fa::tiled
