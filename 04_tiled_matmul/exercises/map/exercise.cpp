#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// y[i] = 1.8 x[i] + 32, launched with one thread for each i.
__global__ void to_fahrenheit(const float* x, float* y) {
#ifdef FA_SOLUTION
  const int i = threadIdx.x;
  y[i] = 1.8f * x[i] + 32;
#else
  // TODO: two lines.
  (void)x, (void)y;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int n) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1)};
  c.puzzle.out = n;
  c.puzzle.block[0] = static_cast<unsigned>(n);
  c.arrays = {{"x", n}, {"y", n}};
  const std::vector<float>& x = c.puzzle.in[0];
  const auto of = [&](auto f) { return made(n, [&](std::int64_t i) { return f(double{x[i]}); }); };
  c.right = of([](double a) { return 1.8 * a + 32; });
  c.mistakes = {{"9 / 5 is 1: a quotient of integers is rounded down. Write 1.8f",
                 of([](double a) { return a + 32; })}};
  if (n > 1) {
    std::vector<double> one(static_cast<std::size_t>(n), NAN);
    one[0] = c.right[0];
    c.mistakes.push_back(
        {"only y[0] was computed: all threads work on the same element, or only one works", one});
  }
  c.where = fmt::format("{} elements, {} threads", n, n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(8));
FA_PLAY(odd, make(1), make(7), make(33), make(1000));
FA_PLAY(races, make(33));
#endif
/* Other answers, as changes of the solution
# integers: nine fifths in integers
@ easy: 9 / 5 is 1
- y[i] = 1.8f * x[i] + 32;
+ y[i] = 9 / 5 * x[i] + 32;

# one_element: every thread works on element 0
@ easy: only y[0] was computed
- const int i = threadIdx.x;
+ const int i = 0;

# loop: every thread computes everything
@ easy: 8 threads write y[0]
- const int i = threadIdx.x;
- y[i] = 1.8f * x[i] + 32;
+   for (unsigned i = 0; i < blockDim.x; ++i) y[i] = 1.8f * x[i] + 32;

# grid_stride: a loop over what one thread would have alone
@ right
- const int i = threadIdx.x;
- y[i] = 1.8f * x[i] + 32;
+  const auto fahrenheit = [](float celsius) { return (celsius * 9 + 160) / 5; };
+  for (auto i = threadIdx.x; i < blockDim.x; i += blockDim.x) y[i] = fahrenheit(x[i]);
*/
