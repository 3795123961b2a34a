#include "common/classroom/puzzles.hpp"

using namespace fa::classroom;

namespace {

constexpr int kThreads = 64;

PuzzleCase make(int n) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1), random_floats(n, 2)};
  c.puzzle.out = 1;
  c.puzzle.sizes = {n};
  c.puzzle.block[0] = kThreads;
  c.arrays = {{"a", n}, {"b", n}, {"y", 1}};
  const std::vector<float>&a = c.puzzle.in[0], &b = c.puzzle.in[1];
  const auto sum = [&](int from, int to) {
    double result = 0;
    for (int i = from; i < std::min(n, to); ++i) {
      result += double{a[i]} * b[i];
    }
    return result;
  };
  c.right = {sum(0, n)};
  c.mistakes = {
      {"only the first product was written: nothing was added to it", {sum(0, 1)}},
      {"one half is missing: the first step adds the element 32 further on", {sum(0, 32)}}};
  c.reasons = {{"barrier",
                "only some threads come to a barrier: it must stand outside of every if, and no "
                "thread may return before the last one"},
               {"unwritten",
                "the tile is read where no thread has stored: threads without an element store 0, "
                "and a barrier follows"},
               {"race",
                "a step begins before all threads have ended the step before: a barrier belongs "
                "between two steps, and one before the first"},
               {"out of bounds", "a thread without an element, t >= n, reads a or b"}};
  c.unwritten_first = true;
  c.twice = "the sum is written by one thread, for example t == 0";
  c.where = fmt::format("{} elements", n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(64));
FA_PLAY(odd, make(63), make(33), make(1), make(5), make(2));
FA_PLAY_STRICTLY(races, make(64), make(33));

FA_STAGE(traffic) {
  const Played played = play_strictly(make(64));
  const std::int64_t most = most_loads(played);
  note("loads of one thread", most);
  require(played.seen.atomics == 0,
          "no atomics, which follow one another; reduce the sum as a tree");
  require(reads(played, 0) <= 64, "a was read several times: each thread reads one element");
  require(most <= 40,
          fmt::format("one thread does {} loads, one after the other; as a tree it needs about 15",
                      most));
}
