#include "common/classroom/puzzles.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int n) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1), random_floats(n, 2)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.block[0] = static_cast<unsigned>(n);
  c.arrays = {{"a", n}, {"b", n}, {"c", n}};
  const std::vector<float>&a = c.puzzle.in[0], &b = c.puzzle.in[1];
  const auto of = [&](auto f) { return made(n, f); };
  c.right = of([&](std::int64_t i) { return double{a[i]} - b[n - 1 - i]; });
  c.mistakes = {{"b is read forwards; thread 0 needs its last element",
                 of([&](std::int64_t i) { return double{a[i]} - b[i]; })},
                {"the sign is wrong: b is subtracted from a",
                 of([&](std::int64_t i) { return b[n - 1 - i] - double{a[i]}; })}};
  c.reasons = {{"out of bounds",
                "off by one: the last element of b is b[n - 1], and element n does not exist"}};
  c.where = fmt::format("{} elements", n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(8));
FA_PLAY(odd, make(1), make(7), make(45));
FA_PLAY_STRICTLY(races, make(45));
