#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Threads of a block.
constexpr int kThreads = 8;

/// y[i] = w[0] x[i] + w[1] x[i + 1] + w[2] x[i + 2] for i + 2 < n.
__global__ void convolve(const float* x, const float* w, float* y, int n) {
#ifdef FA_SOLUTION
  __shared__ float tile[kThreads + 2];
  const int t = threadIdx.x, i = blockIdx.x * kThreads + t;
  if (i < n) tile[t] = x[i];
  if (t < 2 && i + kThreads < n) tile[t + kThreads] = x[i + kThreads];
  __syncthreads();
  if (i + 2 < n) y[i] = w[0] * tile[t] + w[1] * tile[t + 1] + w[2] * tile[t + 2];
#else
  __shared__ float tile[kThreads + 2];
  const int t = threadIdx.x, i = blockIdx.x * kThreads + t;
  // TODO: load, load the halo, meet, compute.
  (void)x, (void)w, (void)y, (void)n, (void)tile, (void)i;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

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
FA_PLAY(races, make(18), make(13));

FA_STAGE(traffic) {
  const Played played = play_puzzle(make(34), "races");
  const std::int64_t budget = 4 * (kThreads + 2);
  note("loads of x", reads(played, 0));
  require(reads(played, 0) <= budget,
          fmt::format("x is read {} times; four blocks that load 10 elements each read {}",
                      reads(played, 0), budget));
}
#endif
/* Other answers, as changes of the solution
# no_halo: the block's own elements only
@ easy: is the whole halo loaded
- if (t < 2 && i + kThreads < n) tile[t + kThreads] = x[i + kThreads];

# no_barrier: computed at once
@ easy: is the barrier there
- __syncthreads();

# output_unguarded: y has n - 2 elements
@ odd: y has n - 2 elements
- if (i + 2 < n) y[i] = w[0] * tile[t] + w[1] * tile[t + 1] + w[2] * tile[t + 2];
+ if (i < n) y[i] = w[0] * tile[t] + w[1] * tile[t + 1] + w[2] * tile[t + 2];

# from_global: three reads for each output
@ traffic: x is read
- if (i + 2 < n) y[i] = w[0] * tile[t] + w[1] * tile[t + 1] + w[2] * tile[t + 2];
+ if (i + 2 < n) y[i] = w[0] * x[i] + w[1] * x[i + 1] + w[2] * x[i + 2];

# memcpy_halo: the halo by memcpy()
@ right
- if (t < 2 && i + kThreads < n) tile[t + kThreads] = x[i + kThreads];
+  const int rest = n - i - kThreads;
+  if (t == 0 && rest > 0) memcpy(tile + kThreads, x + i + kThreads, sizeof(float) * (rest < 2 ? rest : 2));
*/
