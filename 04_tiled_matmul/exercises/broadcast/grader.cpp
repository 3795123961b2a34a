#include "common/classroom/puzzles.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int rows, int cols) {
  PuzzleCase p;
  const std::int64_t size = std::int64_t{rows} * cols;
  p.puzzle.in = {random_floats(rows, 1), random_floats(cols, 2)};
  p.puzzle.out = size;
  p.puzzle.sizes = {rows, cols};
  p.puzzle.block = {8, 8};
  p.arrays = {{"u", rows}, {"v", cols}, {"y", size, cols}};
  const std::vector<float>&u = p.puzzle.in[0], &v = p.puzzle.in[1];
  const auto of = [&](auto f) {
    return made(size, [&](std::int64_t i) { return f(i / cols, i % cols); });
  };
  p.right = of([&](auto r, auto c) { return double{u[r]} * v[c]; });
  p.mistakes = {{"u and v were added, not multiplied",
                 of([&](auto r, auto c) { return double{u[r]} + v[c]; })}};
  if (rows == cols) {
    p.mistakes.push_back({"rows and columns are swapped: u has an element for each row",
                          of([&](auto r, auto c) { return double{u[c]} * v[r]; })});
  }
  p.reasons = {{"out of bounds",
                "an index is too large: u has rows elements, v has cols, and threads outside of "
                "the matrix must do nothing"}};
  p.twice =
      "a thread whose column does not exist lands in the next row. Guard row and column, and "
      "multiply the row by cols";
  p.where = fmt::format("{} rows, {} columns", rows, cols);
  return p;
}

}  // namespace

FA_PLAY(easy, make(8, 8));
FA_PLAY(odd, make(3, 5), make(7, 2), make(1, 1));
FA_PLAY_STRICTLY(races, make(7, 5));
