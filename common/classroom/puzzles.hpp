/// @file
/// What the graders of the puzzles share: a drawing of which thread touches what, from the trace of
/// the student's own kernel, and the mistakes that every puzzle knows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/classroom/lab.hpp"

namespace fa::classroom {

/// An array in a drawing: those that are read in the order of the parameters, then the output.
struct Drawn {
  std::string name;       ///< "x"
  std::int64_t size = 0;  ///< elements
  std::int64_t cols = 0;  ///< of a matrix; 0 for a vector
};

/// How often an array was read: see Place::array.
std::int64_t reads(const Played& played, int array);

/// The most elements that one thread loads: work that is not shared shows in loads, while a store
/// may also clear a tile.
std::int64_t most_loads(const Played& played);

/// A case of a puzzle's grader.
struct PuzzleCase {
  Puzzle puzzle;
  std::vector<Drawn> arrays;      ///< as the parameters of the kernel
  std::vector<double> right;      ///< the output
  std::vector<Mistake> mistakes;  ///< in the order in which they are tried
  std::vector<Reason> reasons;    ///< for findings of the lab
  std::string where;              ///< the case, in words
  /// Whether a read of unwritten memory is reported before the mistakes: it may give the same
  /// result.
  bool unwritten_first = false;
  /// Whether the output depends on every element of the input.
  bool reads_all = true;
  /// Elements of the output that one thread may write.
  std::int64_t per_thread = 1;
  /// The message when several threads write the same element.
  std::string twice =
      "each element of the output belongs to one thread. A kernel has no loop over all elements: "
      "the launch has taken its place";
};

/// Runs the kernel, draws it, and refuses a wrong result.
Played play_puzzle(const PuzzleCase& c, double tolerance = 1e-5);

/// play_puzzle() for the stage "races": findings of every kind are refused.
Played play_strictly(const PuzzleCase& c);

/// A vector of a function of its index.
template <class F>
std::vector<double> made(std::int64_t size, F f) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < size; ++i) result.push_back(f(i));
  return result;
}

}  // namespace fa::classroom

/// FA_PLAY(odd, make(1), make(7)); is a stage that plays cases, one after the other.
#define FA_PLAY(stage, ...) FA_PLAY_BY(play_puzzle, stage, __VA_ARGS__)
/// The same with play_strictly().
#define FA_PLAY_STRICTLY(stage, ...) FA_PLAY_BY(play_strictly, stage, __VA_ARGS__)
/// @cond
#define FA_PLAY_BY(play, stage, ...)                                                 \
  FA_STAGE(stage) {                                                                  \
    for (const fa::classroom::PuzzleCase& c : {__VA_ARGS__}) fa::classroom::play(c); \
  }                                                                                  \
  static_assert(true)
/// @endcond
