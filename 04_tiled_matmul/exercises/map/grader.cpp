#include "common/classroom/puzzles.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int n) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1)};
  c.puzzle.out = n;
  c.puzzle.block[0] = static_cast<unsigned>(n);
  c.arrays = {{"x", n}, {"y", n}};
  const std::vector<float>& x = c.puzzle.in[0];
  const auto of = [&](auto f) { return made(n, [&](std::int64_t i) { return f(double{x[i]}); }); };
  c.right = of([](double a) { return 1.8 * a + 32; });
  c.mistakes = {{"9 / 5 is 1: a quotient of integers is rounded down. Write 1.8f",
                 of([](double a) { return a + 32; })}};
  if (n > 1) {
    std::vector<double> one(static_cast<std::size_t>(n), NAN);
    one[0] = c.right[0];
    c.mistakes.push_back(
        {"only y[0] was computed: all threads work on the same element, or only one works", one});
  }
  c.where = fmt::format("{} elements, {} threads", n, n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(8));
FA_PLAY(odd, make(1), make(7), make(33), make(1000));
FA_PLAY_STRICTLY(races, make(33));
