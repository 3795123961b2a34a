/// @file
/// What the graders of the puzzles and the process that runs the student's kernel exchange.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "common/classroom/seen.hpp"

namespace fa::classroom {

/// A launch of a puzzle's kernel.
struct Puzzle {
  std::vector<std::vector<float>> in;  ///< arrays that it reads
  std::int64_t out = 0;    ///< elements of the array that it writes
  std::vector<int> sizes;  ///< its last parameters
  std::array<unsigned, 2> grid{1, 1};   ///< blocks, x and y
  std::array<unsigned, 2> block{1, 1};  ///< threads of a block, x and y
};
/// The members, for Wire.
inline auto parts(Puzzle& x) {
  return std::tie(x.in, x.out, x.sizes, x.grid, x.block);
}

/// A load or store of one element by one thread.
struct Place {
  int block = 0;   ///< in the grid, x fastest
  int thread = 0;  ///< in the block, x fastest
  int array = 0;   ///< in the order of the parameters; -1 is shared memory
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

}  // namespace fa::classroom
