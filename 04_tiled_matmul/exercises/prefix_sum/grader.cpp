#include "common/classroom/puzzles.hpp"

using namespace fa::classroom;

namespace {

constexpr int kThreads = 64;

PuzzleCase make(int n) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.block[0] = kThreads;
  c.arrays = {{"x", n}, {"y", n}};
  const std::vector<float>& x = c.puzzle.in[0];
  const auto sums = [&](std::int64_t most, std::int64_t own) {
    return made(n, [&](std::int64_t i) {
      double sum = 0;
      for (std::int64_t j = std::max<std::int64_t>(0, i - most + 1); j < i + own; ++j) {
        sum += x[j];
      }
      return sum;
    });
  };
  c.right = sums(n, 1);
  c.mistakes = {{"y is a copy of x: nothing was added", sums(1, 1)},
                {"the sum of all elements before i, without x[i] itself", sums(n + 1, 0)},
                {"steps are missing: a thread has the sum of 32 elements at most", sums(32, 1)}};
  c.reasons = {
      {"barrier", "only some threads come to a barrier: it must stand outside of every if"},
      {"unwritten",
       "the tile is read before it is written: is there a barrier after the store, and does a "
       "thread with t < d leave the tile alone?"},
      {"race",
       "a thread overwrites what another one has still to read, or reads what is not written yet: "
       "each step needs two barriers"}};
  c.where = fmt::format("{} elements", n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(64));
FA_PLAY(odd, make(63), make(1), make(37), make(5));
FA_PLAY_STRICTLY(races, make(64), make(37));

FA_STAGE(traffic) {
  const Played played = play_strictly(make(64));
  const std::int64_t most = most_loads(played);
  note("loads of one thread", most);
  note("loads of x", reads(played, 0));
  require(reads(played, 0) <= 64, fmt::format("x is read {} times: each thread reads one element, "
                                              "and the rest goes through shared memory",
                                              reads(played, 0)));
  require(most <= 40, fmt::format("one thread does {} loads; in 6 steps it needs about 7", most));
}
