/// @file
/// What the float32 rungs ask of global memory, by their own formulas, and what the watched lab counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "05_flash_forward/src/backend.hpp"
#include "common/cli/program.hpp"

namespace fa::flash {

/// Elements of global memory.
struct Traffic {
  std::int64_t reads = 0;   ///< by all threads together
  std::int64_t writes = 0;  ///< by all threads together
};

/// The traffic of a rung, as its loops over tiles have it.
struct TrafficFormula {
  std::string kernel;  ///< the rung
  std::string tiles;   ///< "keys" or "queries": what T counts the tiles of
  std::string reads;   ///< with T, N and D, for people
  std::string writes;  ///< with T, N and D, for people
  /// One head, no mask, lengths that are whole tiles.
  /// @param tiles of the rung
  /// @param n     queries, and as many keys
  /// @param d     head_dim, a multiple of the rung's tiles where it has tiles of columns
  Traffic (*traffic)(const Tiles& tiles, std::int64_t n, std::int64_t d);
};

/// The formulas of the rungs that have one.
std::vector<TrafficFormula> traffic_formulas();

/// The section: formulas, counts, and that they are equal.
/// @param program reports the checks
/// @param watched the watched lab
void show_traffic(cli::Program& program, const Backend& watched);

}  // namespace fa::flash
