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
  const auto of = [&](auto f) {
    return made(n - 2, [&](std::int64_t i) -> double { return f(i); });
  };
  // Unwritten shared memory is 0 in the lab.
  const auto without = [&](std::int64_t end) {
    return of([&, end](std::int64_t i) {
      double sum = 0;
      for (std::int64_t j = 0; j < 3; ++j) {
        if (i % kThreads + j < end) sum += double{w[j]} * x[i + j];
      }
      return sum;
    });
  };
  c.right =
      of([&](std::int64_t i) { return double{w[0]} * x[i] + w[1] * x[i + 1] + w[2] * x[i + 2]; });
  c.mistakes = {
      {"the weights are flipped: w[0] belongs to x[i]",
       of([&](std::int64_t i) { return double{w[2]} * x[i] + w[1] * x[i + 1] + w[0] * x[i + 2]; })},
      {"the weights were not used: this is the sum of three neighbours",
       of([&](std::int64_t i) { return double{x[i]} + x[i + 1] + x[i + 2]; })},
      {"the halo is missing: the last two outputs of a block need elements of the next block",
       without(kThreads)},
      {"half of the halo is missing: two elements of the next block are needed",
       without(kThreads + 1)}};
  // One of the three terms with another weight, element or sign.
  for (std::int64_t j = 0; j < 3; ++j) {
    const auto with_term = [&](auto term) {
      return of([&, term](std::int64_t i) {
        const double right = double{w[0]} * x[i] + w[1] * x[i + 1] + w[2] * x[i + 2];
        return right - double{w[j]} * x[i + j] + term(i);
      });
    };
    const std::string instead =
        fmt::format("w[{0}] x[i + {0}] is a term of the sum; here it is ", j);
    c.mistakes.push_back({instead + "subtracted",
                          with_term([&](std::int64_t i) { return -double{w[j]} * x[i + j]; })});
    c.mistakes.push_back({instead + "a sum, not a product",
                          with_term([&](std::int64_t i) { return double{w[j]} + x[i + j]; })});
    for (std::int64_t p = 0; p < 3; ++p) {
      for (std::int64_t q = 0; q < 3; ++q) {
        if (p == j && q == j) continue;
        c.mistakes.push_back({instead + fmt::format("w[{}] x[i + {}]", p, q),
                              with_term([&](std::int64_t i) { return double{w[p]} * x[i + q]; })});
      }
    }
  }
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
