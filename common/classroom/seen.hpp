/// @file
/// What a watched launch saw, as the grader and the process that runs the student's code exchange
/// it.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "common/classroom/wire.hpp"
#include "common/lab/watch.hpp"
#include "common/tensor/random.hpp"

namespace fa::classroom {

/// What the lab saw of some launches.
struct Seen {
  bool watched = false;               ///< whether there is a watched lab
  lab::Report report;                 ///< findings, and counts line by line
  std::int64_t bytes = 0;             ///< of global memory, asked for
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

/// Random numbers, as float, for a seed.
inline std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(static_cast<float>(random_normal(seed, static_cast<std::uint64_t>(i))));
  }
  return result;
}

}  // namespace fa::classroom
