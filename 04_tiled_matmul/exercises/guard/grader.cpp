#include "common/classroom/puzzles.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int n, unsigned threads) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.block[0] = threads;
  c.arrays = {{"x", n}, {"y", n}};
  const std::vector<float>& x = c.puzzle.in[0];
  c.right = made(n, [&](std::int64_t i) { return -double{x[i]}; });
  std::vector<double> short_of_one = c.right;
  short_of_one.back() = NAN;
  c.mistakes = {{"the sign was not changed", made(n, [&](std::int64_t i) { return double{x[i]}; })},
                {"the last element was not computed: the guard is too strict", short_of_one}};
  c.reasons = {{"out of bounds",
                "a surplus thread touches memory: the guard is missing, is off by one, or stands "
                "after the first access. See 'outside' in the drawing"}};
  c.where = fmt::format("{} elements, {} threads", n, threads);
  return c;
}

}  // namespace

FA_PLAY(easy, make(5, 8));
FA_PLAY(odd, make(1, 8), make(8, 8), make(31, 32), make(33, 128));
FA_PLAY_STRICTLY(races, make(33, 128));
