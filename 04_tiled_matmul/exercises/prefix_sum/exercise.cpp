#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Threads of the block.
constexpr int kThreads = 64;

/// y[i] = x[0] + ... + x[i] for i < n, n at most 64.
__global__ void prefix_sums(const float* x, float* y, int n) {
#ifdef FA_SOLUTION
  __shared__ float tile[kThreads];
  const int t = threadIdx.x;
  float sum = t < n ? x[t] : 0;
  for (int d = 1; d < kThreads; d *= 2) {
    tile[t] = sum;
    __syncthreads();
    if (t >= d) sum += tile[t - d];
    __syncthreads();  // before the tile is written again
  }
  if (t < n) y[t] = sum;
#else
  __shared__ float tile[kThreads];
  const int t = threadIdx.x;
  float sum = t < n ? x[t] : 0;
  // TODO: six steps.
  (void)tile;
  if (t < n) y[t] = sum;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kThreads = 64;

PuzzleCase make(int n) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.block[0] = kThreads;
  c.arrays = {{"x", n}, {"y", n}};
  const std::vector<float>& x = c.puzzle.in[0];
  const auto sums = [&](std::int64_t most, std::int64_t own) {
    return made(n, [&](std::int64_t i) {
      double sum = 0;
      for (std::int64_t j = std::max<std::int64_t>(0, i - most + 1); j < i + own; ++j) {
        sum += x[j];
      }
      return sum;
    });
  };
  c.right = sums(n, 1);
  c.mistakes = {{"y is a copy of x: nothing was added", sums(1, 1)},
                {"the sum of all elements before i, without x[i] itself", sums(n + 1, 0)},
                {"steps are missing: a thread has the sum of 32 elements at most", sums(32, 1)}};
  c.reasons = {
      {"barrier", "only some threads come to a barrier: it must stand outside of every if"},
      {"unwritten",
       "the tile is read before it is written: is there a barrier after the store, and does a "
       "thread with t < d leave the tile alone?"},
      {"race",
       "a thread overwrites what another one has still to read, or reads what is not written yet: "
       "each step needs two barriers"}};
  c.where = fmt::format("{} elements", n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(64));
FA_PLAY(odd, make(63), make(1), make(37), make(5));
FA_PLAY(races, make(64), make(37));

FA_STAGE(traffic) {
  const Played played = play_puzzle(make(64), "races");
  const std::int64_t most = most_loads(played);
  note("loads of one thread", most);
  note("loads of x", reads(played, 0));
  require(reads(played, 0) <= 64, fmt::format("x is read {} times: each thread reads one element, "
                                              "and the rest goes through shared memory",
                                              reads(played, 0)));
  require(most <= 40, fmt::format("one thread does {} loads; in 6 steps it needs about 7", most));
}
#endif
/* Other answers, as changes of the solution
# no_second_barrier: the tile is overwritten too early
@ easy: each step needs two barriers
- __syncthreads();  // before the tile is written again

# exclusive: without x[i]
@ easy: without x[i] itself
- if (t < n) y[t] = sum;
+ if (t < n) y[t] = sum - x[t];

# too_few_steps: ends at 16
@ easy: 32 elements at most
- for (int d = 1; d < kThreads; d *= 2) {
+ for (int d = 1; d < kThreads / 2; d *= 2) {

# loops_over_x: each thread adds what it needs
@ traffic: x is read
- for (int d = 1; d < kThreads; d *= 2) {
- ...
- __syncthreads();  // before the tile is written again
- }
+ (void)tile;
+ if (t < n) for (int i = 0; i < t; ++i) sum += x[i];

# shuffles: shuffles, and one sum between the warps
@ right
- for (int d = 1; d < kThreads; d *= 2) {
- ...
- __syncthreads();  // before the tile is written again
- }
+  for (int d = 1; d < 32; d *= 2) { const float o = __shfl_up_sync(kAllLanes, sum, d); if (t % 32 >= d) sum += o; }
+  if (t == 31) tile[0] = sum;
+  __syncthreads();
+  if (t >= 32) sum += tile[0];
*/
