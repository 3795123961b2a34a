#include "common/classroom/puzzles.hpp"

using namespace fa::classroom;

namespace {

constexpr int kPiece = 8;

PuzzleCase make(int n) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.grid[0] = static_cast<unsigned>((n + kPiece - 1) / kPiece);
  c.puzzle.block[0] = kPiece;
  c.arrays = {{"x", n}, {"y", n}};
  const std::vector<float>& x = c.puzzle.in[0];
  c.right = made(n, [&](std::int64_t i) {
    const std::int64_t begin = i / kPiece * kPiece;
    const std::int64_t end = std::min<std::int64_t>(begin + kPiece, n);
    return double{x[begin + end - 1 - i]};
  });
  c.mistakes = {{"the pieces are copied and not reversed",
                 made(n, [&](std::int64_t i) { return double{x[i]}; })}};
  c.reasons = {{"barrier",
                "only some threads come to the barrier: it must not stand in a branch, and no "
                "thread may return before it"},
               {"unwritten",
                "a thread takes out what no thread has stored yet: is there a barrier between "
                "storing and taking out? In a shorter piece the last element is tile[length - 1]"},
               {"race",
                "a thread may take out an element before another one has stored it: a barrier "
                "belongs between them"}};
  c.where = fmt::format("{} elements", n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(16));
FA_PLAY(odd, make(13), make(1), make(7), make(33));
FA_PLAY_STRICTLY(races, make(16), make(13));

FA_STAGE(traffic) {
  const Played played = play_strictly(make(32));
  require(played.seen.wavefronts > 0,
          "shared memory was not used: store each element to the tile, and take another one out");
  require(
      reads(played, 0) <= 32,
      fmt::format("x was read {} times; each of its 32 elements once would do", reads(played, 0)));
}
