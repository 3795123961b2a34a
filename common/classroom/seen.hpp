/// @file
/// What a watched launch saw, and the launches of puzzles, of which each access is noted so that a
/// grader can draw which thread touches what: as the grader and the student's process exchange it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "common/classroom/wire.hpp"
#include "common/lab/watch.hpp"
#include "common/tensor/random.hpp"

namespace fa::classroom {

/// What the lab saw of some launches. Its functions are compiled beforehand.
struct Seen {
  /// @{ As the compiler would make them.
  Seen();
  Seen(const Seen&);
  Seen(Seen&&) noexcept;
  Seen& operator=(const Seen&);
  Seen& operator=(Seen&&) noexcept;
  ~Seen();
  /// @}

  bool watched = false;               ///< whether there is a watched lab
  lab::Report report;                 ///< findings, and counts line by line
  std::int64_t bytes = 0;             ///< of global memory, requested
  std::int64_t sectors = 0;           ///< of global memory
  std::int64_t wavefronts = 0;        ///< of shared memory
  std::int64_t ideal = 0;             ///< wavefronts without bank conflicts
  std::int64_t atomics = 0;           ///< requests by atomic operations
  std::vector<lab::Touch> touches{};  ///< one by one; for entries only
};

/// For Wire, compiled beforehand; the coverage and the touches stay where they are.
void pass_by(Wire& wire, Seen& x);

/// What a launch gave.
struct Launched {
  Seen seen;                ///< by the lab
  std::vector<double> out;  ///< what the kernel wrote; NaN where it did not
};
/// The members, for Wire.
inline auto parts(Launched& x) {
  return std::tie(x.seen, x.out);
}

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

/// Random numbers, as float, for a seed.
inline std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(static_cast<float>(random_normal(seed, static_cast<std::uint64_t>(i))));
  }
  return result;
}

}  // namespace fa::classroom
