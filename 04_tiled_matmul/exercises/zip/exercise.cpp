#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// c[i] = a[i] - b[n - 1 - i], launched with one block of n threads.
__global__ void zip_backwards(const float* a, const float* b, float* c, int n) {
#ifdef FA_SOLUTION
  const int i = threadIdx.x;
  c[i] = a[i] - b[n - 1 - i];
#else
  // TODO: two lines.
  (void)a, (void)b, (void)c, (void)n;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int n) {
  PuzzleCase c;
  c.puzzle.in = {random_floats(n, 1), random_floats(n, 2)};
  c.puzzle.out = n;
  c.puzzle.sizes = {n};
  c.puzzle.block[0] = static_cast<unsigned>(n);
  c.arrays = {{"a", n}, {"b", n}, {"c", n}};
  const std::vector<float>&a = c.puzzle.in[0], &b = c.puzzle.in[1];
  const auto of = [&](auto f) { return made(n, f); };
  c.right = of([&](std::int64_t i) { return double{a[i]} - b[n - 1 - i]; });
  c.mistakes = {{"b is read forwards; thread 0 needs its last element",
                 of([&](std::int64_t i) { return double{a[i]} - b[i]; })},
                {"the sign is wrong: b is subtracted from a",
                 of([&](std::int64_t i) { return b[n - 1 - i] - double{a[i]}; })}};
  c.reasons = {{"out of bounds",
                "off by one: the last element of b is b[n - 1], and element n does not exist"}};
  c.where = fmt::format("{} elements", n);
  return c;
}

}  // namespace

FA_PLAY(easy, make(8));
FA_PLAY(odd, make(1), make(7), make(45));
FA_PLAY(races, make(45));
#endif
/* Other answers, as changes of the solution
# forwards: b is read in the same order
@ easy: b is read forwards
- c[i] = a[i] - b[n - 1 - i];
+ c[i] = a[i] - b[i];
+ (void)n;

# off_by_one: n - i
@ easy: the last element of b is b[n - 1]
- c[i] = a[i] - b[n - 1 - i];
+ c[i] = a[i] - b[n - i];

# sign: b - a
@ easy: the sign is wrong
- c[i] = a[i] - b[n - 1 - i];
+ c[i] = b[n - 1 - i] - a[i];

# loop: every thread computes everything
@ easy: A kernel has no loop over all elements
- const int i = threadIdx.x;
- c[i] = a[i] - b[n - 1 - i];
+   for (int i = 0; i < n; ++i) c[i] = a[i] - b[n - 1 - i];

# shared: B is reversed in shared memory
@ right
- const int i = threadIdx.x;
- c[i] = a[i] - b[n - 1 - i];
+  __shared__ float turned[1024];
+  turned[n - 1 - static_cast<int>(threadIdx.x)] = b[threadIdx.x];
+  __syncthreads();
+  c[threadIdx.x] = a[threadIdx.x] - turned[threadIdx.x];
*/
