#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// y[i] is the largest of x[3 i], x[3 i + 1] and x[3 i + 2], as far as they exist.
__global__ void pool_three(const float* x, float* y, int n) {
#ifdef FA_SOLUTION
  const int i = threadIdx.x;
  if (3 * i >= n) return;
  float m = x[3 * i];
  for (int j = 3 * i + 1; j < 3 * i + 3 && j < n; ++j) m = fmaxf(m, x[j]);
  y[i] = m;
#else
  // TODO: a guard, a short loop, a store.
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
  for (int i = 0; i < n && i < 3; ++i) {
    c.puzzle.in[0][i] = -1.0f - c.puzzle.in[0][i] * c.puzzle.in[0][i];
  }
  if (n > 6) {
    std::fill_n(c.puzzle.in[0].begin() + 3, 3, -0x1p100f);
    c.puzzle.in[0].back() = 9;  // the largest of its window
  }
  const int windows = (n + 2) / 3;
  c.puzzle.out = windows;
  c.puzzle.sizes = {n};
  c.puzzle.block[0] = threads;
  c.arrays = {{"x", n}, {"y", windows}};
  const std::vector<float>& x = c.puzzle.in[0];
  const auto pooled = [&](int stride, double start) {
    return made(windows, [&](std::int64_t i) {
      double m = start;
      for (std::int64_t j = stride * i; j < stride * i + 3 && j < n; ++j) {
        m = std::max<double>(m, x[j]);
      }
      return m;
    });
  };
  c.right = pooled(3, -INFINITY);
  c.mistakes = {{"the maximum begins at 0, which is larger than every element of a negative window",
                 pooled(3, 0)},
                {"the windows overlap: window i begins at x[3 i]", pooled(1, -INFINITY)}};
  c.reasons = {{"out of bounds",
                "a window reaches beyond the end of x, or a surplus thread works: see 'outside' in "
                "the drawing"}};
  c.where = fmt::format("{} elements, {} threads", n, threads);
  return c;
}

}  // namespace

FA_PLAY(easy, make(12, 4));
FA_PLAY(odd, make(11, 4), make(10, 8), make(9, 8), make(1, 32), make(100, 64));
FA_PLAY(races, make(100, 64));
#endif
/* Other answers, as changes of the solution
# from_zero: the maximum begins at 0
@ easy: begins at 0
- float m = x[3 * i];
+ float m = fmaxf(0, x[3 * i]);

# overlapping: windows at i
@ easy: the windows overlap
- float m = x[3 * i];
- for (int j = 3 * i + 1; j < 3 * i + 3 && j < n; ++j) m = fmaxf(m, x[j]);
+ float m = x[i];
+ for (int j = i + 1; j < i + 3 && j < n; ++j) m = fmaxf(m, x[j]);

# ragged: the last window is taken to be whole
@ odd: reaches beyond the end of x
- for (int j = 3 * i + 1; j < 3 * i + 3 && j < n; ++j) m = fmaxf(m, x[j]);
+ for (int j = 3 * i + 1; j < 3 * i + 3; ++j) m = fmaxf(m, x[j]);

# whole_windows: the last, shorter window is left out
@ odd: nothing was written there
- if (3 * i >= n) return;
+   if (i >= n / 3) return;

# clamp: indices that stay inside
@ right
- for (int j = 3 * i + 1; j < 3 * i + 3 && j < n; ++j) m = fmaxf(m, x[j]);
+  const int last = n - 1, j = 3 * i + 1 < last ? 3 * i + 1 : last, k = 3 * i + 2 < last ? 3 * i + 2 : last;
+  m = fmaxf(m, fmaxf(x[j], x[k]));
*/
