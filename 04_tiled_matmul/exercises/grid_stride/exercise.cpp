#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// out[i] = a * x[i] + y[i] for all i < n, whatever the size of the grid.
__global__ void saxpy_any(float a, const float* x, const float* y, float* out, int n) {
#ifdef FA_SOLUTION
  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  const int threads = gridDim.x * blockDim.x;
  for (int i = first; i < n; i += threads) out[i] = a * x[i] + y[i];
#else
  // TODO: a loop over the elements of this thread.
  (void)a, (void)x, (void)y, (void)out, (void)n;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(run, [](const std::string& puzzle) {
  return play(puzzle, [](const auto& in, float* out, const auto& sizes, const auto& launched) {
    launch(saxpy_any, launched, 2.5f, in[0], in[1], out, sizes[0]);
  });
});
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int n, int blocks, int threads) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1), random_floats(n, 2)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.grid[0] = static_cast<unsigned>(blocks);
  c.puzzle.block[0] = static_cast<unsigned>(threads);
  c.arrays = {{"x", n}, {"y", n}, {"out", n}};
  const std::vector<float>&x = c.puzzle.in[0], &y = c.puzzle.in[1];
  const auto up_to = [&](std::int64_t end) {
    return made(n, [&](std::int64_t i) { return i < end ? 2.5 * x[i] + y[i] : NAN; });
  };
  c.right = up_to(n);
  c.mistakes = {
      {"each thread computed one element, and the grid is too small for that: the rest needs a "
       "loop",
       up_to(std::int64_t{blocks} * threads)},
      {"only the first block's elements were computed", up_to(threads)}};
  c.reasons = {
      {"out of bounds", "a thread goes beyond the end: the condition of the loop is the guard"}};
  c.twice =
      "threads share elements. The step of the loop is the number of threads of the whole grid, "
      "and every thread begins at another element";
  c.per_thread = (n + blocks * threads - 1) / (blocks * threads);
  c.where = fmt::format("{} elements, {} blocks of {} threads", n, blocks, threads);
  return c;
}

}  // namespace

FA_PLAY(easy, make(16, 2, 8));
FA_PLAY(odd, make(1, 3, 4), make(29, 2, 4), make(1000, 3, 32), make(64, 2, 4));
FA_PLAY(races, make(29, 2, 4));

FA_STAGE(traffic) {
  const Played played = play_puzzle(make(512, 2, 32), "races");
  const std::int64_t least = 3 * 512 / 8;
  budget("sectors of global memory", played.seen.sectors, least,
         "a thread takes a piece of its own, so neighbouring threads touch elements that are far "
         "apart",
         least);
}
#endif
/* Other answers, as changes of the solution
# one_each: no loop
@ odd: the rest needs a loop
- for (int i = first; i < n; i += threads) out[i] = a * x[i] + y[i];
+ (void)threads;
+ if (first < n) out[first] = a * x[first] + y[first];

# step_of_a_block: the step is the size of a block
@ easy: threads share elements
- const int threads = gridDim.x * blockDim.x;
+ const int threads = blockDim.x;

# lax: i <= n
@ easy: the condition of the loop is the guard
- for (int i = first; i < n; i += threads) out[i] = a * x[i] + y[i];
+ for (int i = first; i <= n; i += threads) out[i] = a * x[i] + y[i];

# pieces: each thread takes a piece of its own
@ traffic: a piece of its own
- for (int i = first; i < n; i += threads) out[i] = a * x[i] + y[i];
+ const int each = (n + threads - 1) / threads;
+ for (int i = first * each; i < n && i < first * each + each; ++i) out[i] = a * x[i] + y[i];

# from_the_end: from the last element to the first, with 64-bit indices
@ right
- for (int i = first; i < n; i += threads) out[i] = a * x[i] + y[i];
+  const auto* const ys = y;
+  for (auto i = std::int64_t{n} - 1 - first; i >= 0; i -= threads) { const float2 xy{__ldg(x + i), __ldg(ys + i)}; out[i] = xy.x * a + xy.y; }
*/
