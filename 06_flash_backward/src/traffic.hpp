/// @file
/// What the float32 rungs ask of global memory, by their own formulas, and what the watched lab
/// counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "06_flash_backward/src/backend.hpp"
#include "common/cli/program.hpp"

namespace fa::backward {

/// Elements of global memory.
struct Traffic {
  std::int64_t reads = 0;   ///< by all threads together
  std::int64_t writes = 0;  ///< likewise; atomic additions are writes, too
};

/// The traffic of a rung, as its loops over tiles have it.
struct TrafficFormula {
  std::string kernel;  ///< the rung
  std::string reads;   ///< with N, D, T = N / 32 and the padded P, for people
  std::string writes;  ///< likewise
  /// One head, no mask.
  /// @param n queries, and as many keys: a multiple of 32
  /// @param d head_dim, a multiple of 32
  Traffic (*traffic)(std::int64_t n, std::int64_t d);
};

/// The formulas of the rungs that have one.
std::vector<TrafficFormula> traffic_formulas();

/// The section: formulas, counts, and that they are equal.
/// @param program reports the checks
/// @param watched the watched lab
void show_traffic(cli::Program& program, const Backend& watched);

}  // namespace fa::backward
