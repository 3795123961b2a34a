#include "common/classroom/puzzles.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int n, int threads) {
  PuzzleCase c;
  const int blocks = (n + threads - 1) / threads;
  c.puzzle.in = {random_floats(n, 1), random_floats(blocks, 2)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.grid[0] = static_cast<unsigned>(blocks);
  c.puzzle.block[0] = static_cast<unsigned>(threads);
  c.arrays = {{"x", n}, {"w", blocks}, {"y", n}};
  const std::vector<float>&x = c.puzzle.in[0], &w = c.puzzle.in[1];
  c.right = made(n, [&](std::int64_t i) { return double{x[i]} * w[i / threads]; });
  c.mistakes = {
      {"only the first elements were computed: the index is the same in all blocks",
       made(n,
            [&](std::int64_t i) {
              // The last block comes last; it may have fewer threads.
              const std::int64_t last = n - (blocks - 1) * threads;
              const int of = i < last ? blocks - 1 : blocks - 2;
              return i < threads ? double{x[i]} * w[std::max(0, of)] : NAN;
            })},
      {"the same without the guard of the tail: all blocks compute the first elements",
       made(n, [&](std::int64_t i) { return i < threads ? double{x[i]} * w[blocks - 1] : NAN; })},
      {"the factor is added, not multiplied",
       made(n, [&](std::int64_t i) { return double{x[i]} + w[i / threads]; })},
      {"all blocks took the factor w[0]",
       made(n, [&](std::int64_t i) { return double{x[i]} * w[0]; })}};
  if (blocks >= threads) {
    c.mistakes.push_back({"the factor is that of the block, not of the thread",
                          made(n, [&](std::int64_t i) { return double{x[i]} * w[i % threads]; })});
  }
  c.reasons = {{"out of bounds",
                "an index is too large: w has one element for each block, and surplus threads must "
                "do nothing"}};
  c.twice = "blocks overlap. Before block b come b * blockDim.x elements";
  c.where = fmt::format("{} elements, {} blocks of {} threads", n, blocks, threads);
  return c;
}

}  // namespace

FA_PLAY(easy, make(16, 4));
FA_PLAY(odd, make(10, 4), make(1, 4), make(29, 5), make(100, 32));
FA_PLAY_STRICTLY(races, make(29, 5));
