#include "common/classroom/puzzles.hpp"

using namespace fa::classroom;

namespace {

constexpr int kThreads = 8;

PuzzleCase make(int n) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1), {0.5f, -2.0f, 3.0f}};
  c.puzzle.out = n - 2;
  c.puzzle.sizes = {n};
  c.puzzle.grid[0] = static_cast<unsigned>((n - 2 + kThreads - 1) / kThreads);
  c.puzzle.block[0] = kThreads;
  c.arrays = {{"x", n}, {"w", 3}, {"y", n - 2}};
  const std::vector<float>&x = c.puzzle.in[0], &w = c.puzzle.in[1];
  const auto convolved = [&](int first, int last) {
    return made(n - 2, [&, first, last](std::int64_t i) {
      return double{w[first]} * x[i] + w[1] * x[i + 1] + w[last] * x[i + 2];
    });
  };
  c.right = convolved(0, 2);
  c.mistakes = {{"the weights are flipped: w[0] belongs to x[i]", convolved(2, 0)}};
  c.reasons = {
      {"barrier", "only some threads come to the barrier: it must stand outside of every if"},
      {"out of bounds",
       "x or y is touched beyond its end: the halo needs a guard, too, and y has n - 2 elements. "
       "See 'outside' in the drawing"},
      {"unwritten",
       "the tile is read where nothing was stored: is the barrier there, and is the whole halo "
       "loaded?"},
      {"race", "a barrier is missing between loading and computing"}};
  c.where = fmt::format("{} elements", n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(18));
FA_PLAY(odd, make(13), make(3), make(11), make(41));
FA_PLAY_STRICTLY(races, make(18), make(13));

FA_STAGE(traffic) {
  const Played played = play_strictly(make(34));
  const std::int64_t budget = 4 * (kThreads + 2);
  note("loads of x", reads(played, 0));
  require(reads(played, 0) <= budget,
          fmt::format("x is read {} times; four blocks that load 10 elements each read {}",
                      reads(played, 0), budget));
}
