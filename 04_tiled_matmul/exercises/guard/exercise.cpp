#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// y[i] = -x[i] for i < n, launched with at least n threads.
__global__ void negate(const float* x, float* y, int n) {
#ifdef FA_SOLUTION
  const int i = threadIdx.x;
  if (i < n) y[i] = -x[i];
#else
  // TODO: two lines.
  (void)x, (void)y, (void)n;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int n, unsigned threads) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.block[0] = threads;
  c.arrays = {{"x", n}, {"y", n}};
  const std::vector<float>& x = c.puzzle.in[0];
  c.right = made(n, [&](std::int64_t i) { return -double{x[i]}; });
  std::vector<double> short_of_one = c.right;
  short_of_one.back() = NAN;
  c.mistakes = {{"the sign was not changed", made(n, [&](std::int64_t i) { return double{x[i]}; })},
                {"the last element was not computed: the guard is too strict", short_of_one}};
  c.reasons = {{"out of bounds",
                "a surplus thread touches memory: the guard is missing, is off by one, or stands "
                "after the first access. See 'outside' in the drawing"}};
  c.where = fmt::format("{} elements, {} threads", n, threads);
  return c;
}

}  // namespace

FA_PLAY(easy, make(5, 8));
FA_PLAY(odd, make(1, 8), make(8, 8), make(31, 32), make(33, 128));
FA_PLAY(races, make(33, 128));
#endif
/* Other answers, as changes of the solution
# no_guard: surplus threads work
@ easy: a surplus thread touches memory
- if (i < n) y[i] = -x[i];
+ y[i] = -x[i];
+ (void)n;

# strict: off by one, the other way
@ easy: the guard is too strict
- if (i < n) y[i] = -x[i];
+ if (i < n - 1) y[i] = -x[i];

# one_for_all: one thread does the work of all
@ easy: must not do the work of the others
- if (i < n) y[i] = -x[i];
+   if (i == 0) {
+     for (int j = 0; j < n; ++j) y[j] = -x[j];
+   }

# last_element: the bound as a pointer
@ right
- const int i = threadIdx.x;
- if (i < n) y[i] = -x[i];
+  const float* const from = x + threadIdx.x;
+  if (const float* const end = x + n; from < end) *(y + (from - x)) = -*from;
*/
