#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Threads of the block.
constexpr int kThreads = 64;

/// *y is the dot product of a and b, of n elements, n at most 64.
__global__ void dot(const float* a, const float* b, float* y, int n) {
#ifdef FA_SOLUTION
  __shared__ float tile[kThreads];
  const int t = threadIdx.x;
  tile[t] = t < n ? a[t] * b[t] : 0;
  __syncthreads();
  for (int s = kThreads / 2; s > 0; s /= 2) {
    if (t < s) tile[t] += tile[t + s];
    __syncthreads();  // the step is complete
  }
  if (t == 0) *y = tile[0];
#else
  __shared__ float tile[kThreads];
  const int t = threadIdx.x;
  // TODO: store the products, reduce, and let one thread write the sum.
  (void)a, (void)b, (void)y, (void)n, (void)tile, (void)t;
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
  c.twice = "the sum is written by one thread, for example t == 0";
  c.where = fmt::format("{} elements", n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(64));
FA_PLAY(odd, make(63), make(33), make(1), make(5), make(2));
FA_PLAY(races, make(64), make(33));

FA_STAGE(traffic) {
  const Played played = play_puzzle(make(64), "races");
  const std::int64_t most = most_loads(played);
  note("loads of one thread", most);
  require(played.seen.atomics == 0,
          "no atomics, which follow one another; reduce the sum as a tree");
  require(reads(played, 0) <= 64, "a was read several times: each thread reads one element");
  require(most <= 40,
          fmt::format("one thread does {} loads, one after the other; as a tree it needs about 15",
                      most));
}
#endif
/* Other answers, as changes of the solution
# no_step_barrier: steps overlap
@ easy: a barrier belongs between two steps
- if (t < s) tile[t] += tile[t + s];
- __syncthreads();  // the step is complete
+     if (t < s) tile[t] += tile[t + s];

# barrier_in_the_branch: half of the threads do not come
@ races: it must stand outside of every if
- if (t < s) tile[t] += tile[t + s];
- __syncthreads();  // the step is complete
+     if (t < s) {
+       tile[t] += tile[t + s];
+       __syncthreads();
+     }

# no_zero: threads without an element store nothing
@ odd: threads without an element store 0
- tile[t] = t < n ? a[t] * b[t] : 0;
+ if (t < n) tile[t] = a[t] * b[t];

# serial: one thread adds everything
@ traffic: one after the other
- for (int s = kThreads / 2; s > 0; s /= 2) {
- ...
- if (t == 0) *y = tile[0];
+ float sum = 0;
+ if (t == 0) for (int i = 0; i < kThreads; ++i) sum += tile[i];
+ if (t == 0) *y = sum;

# interleaved: neighbours first
@ right
- for (int s = kThreads / 2; s > 0; s /= 2) {
- if (t < s) tile[t] += tile[t + s];
+  for (int s = 1; s < kThreads; s *= 2) {
+    if (t % (2 * s) == 0) tile[t] += tile[t + s];
*/
