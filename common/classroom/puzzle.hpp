/// @file
/// Puzzles: small launches of which each access is noted, so that a grader can draw which thread
/// touches what. The entry of a puzzle calls play(), which is compiled beforehand.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "common/classroom/seen.hpp"
#include "common/gpu/launch_sizes.hpp"

namespace fa::classroom {

/// A launch of a puzzle's kernel.
struct Puzzle {
  std::vector<std::vector<float>> in;   ///< arrays that it reads
  std::int64_t out = 0;                 ///< elements of the array that it writes
  std::vector<int> sizes;               ///< its last parameters
  std::array<unsigned, 2> grid{1, 1};   ///< blocks, x and y
  std::array<unsigned, 2> block{1, 1};  ///< threads of a block, x and y
};
/// The members, for Wire.
inline auto parts(Puzzle& x) {
  return std::tie(x.in, x.out, x.sizes, x.grid, x.block);
}

/// A load or store of one element by one thread.
struct Place {
  int block = 0;             ///< in the grid, x fastest
  int thread = 0;            ///< in the block, x fastest
  int array = 0;             ///< in the order of the parameters; -1 is shared memory
  std::int64_t element = 0;  ///< of the array, which may be outside of it
  int write = 0;             ///< 1 for a store
};

/// What came of it.
struct Played {
  Seen seen;                  ///< by the lab
  std::vector<double> out;    ///< what the kernel wrote; NaN where it did not
  std::vector<Place> places;  ///< in their order; none without a watched lab
};
/// The members, for Wire.
inline auto parts(Played& x) {
  return std::tie(x.seen, x.out, x.places);
}

/// Launches a puzzle's kernel.
/// @param in       arrays that it reads
/// @param out      the array that it writes
/// @param sizes    its last parameters
/// @param launched grid and block
using Launcher = std::function<void(const std::vector<const float*>& in, float* out,
                                    const std::vector<int>& sizes, const Launch& launched)>;

/// Runs a puzzle's kernel and notes which thread touches which element.
/// @param puzzle as bytes
/// @param run    launches
/// @return Played, as bytes
std::string play(const std::string& puzzle, const Launcher& run);

}  // namespace fa::classroom
