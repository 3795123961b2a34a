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
  c.mistakes = {{"all blocks took the factor w[0]",
                 made(n, [&](std::int64_t i) { return double{x[i]} * w[0]; })}};
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
