#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// y[r][c] = u[r] v[c]; launched with 8 x 8 threads.
__global__ void outer_product(const float* u, const float* v, float* y, int rows, int cols) {
#ifdef FA_SOLUTION
  const int r = threadIdx.y, c = threadIdx.x;
  if (r < rows && c < cols) y[r * cols + c] = u[r] * v[c];
#else
  // TODO: row, column, guard.
  (void)u, (void)v, (void)y, (void)rows, (void)cols;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int rows, int cols) {
  PuzzleCase p;
  const std::int64_t size = std::int64_t{rows} * cols;
  p.puzzle.in = {random_floats(rows, 1), random_floats(cols, 2)};
  p.puzzle.out = size;
  p.puzzle.sizes = {rows, cols};
  p.puzzle.block = {8, 8};
  p.arrays = {{"u", rows}, {"v", cols}, {"y", size, cols}};
  const std::vector<float>&u = p.puzzle.in[0], &v = p.puzzle.in[1];
  const auto of = [&](auto f) {
    return made(size, [&](std::int64_t i) { return f(i / cols, i % cols); });
  };
  p.right = of([&](auto r, auto c) { return double{u[r]} * v[c]; });
  p.mistakes = {{"u and v were added, not multiplied",
                 of([&](auto r, auto c) { return double{u[r]} + v[c]; })}};
  if (rows == cols) {
    p.mistakes.push_back({"rows and columns are swapped: u has an element for each row",
                          of([&](auto r, auto c) { return double{u[c]} * v[r]; })});
  }
  p.reasons = {{"out of bounds",
                "an index is too large: u has rows elements, v has cols, and threads outside of "
                "the matrix must do nothing"}};
  p.twice =
      "a thread whose column does not exist lands in the next row. Guard row and column, and "
      "multiply the row by cols";
  p.where = fmt::format("{} rows, {} columns", rows, cols);
  return p;
}

}  // namespace

FA_PLAY(easy, make(8, 8));
FA_PLAY(odd, make(3, 5), make(7, 2), make(1, 1));
FA_PLAY(races, make(7, 5));
#endif
/* Other answers, as changes of the solution
# swapped: u by column, v by row
@ easy: rows and columns are swapped
- if (r < rows && c < cols) y[r * cols + c] = u[r] * v[c];
+ if (r < rows && c < cols) y[r * cols + c] = u[c] * v[r];

# added: a sum
@ easy: added, not multiplied
- if (r < rows && c < cols) y[r * cols + c] = u[r] * v[c];
+ if (r < rows && c < cols) y[r * cols + c] = u[r] + v[c];

# no_guard: none at all
@ odd: lands in the next row
- if (r < rows && c < cols) y[r * cols + c] = u[r] * v[c];
+ y[r * cols + c] = u[r] * v[c];
+ (void)rows;

# shared: both vectors in shared memory
@ right
- const int r = threadIdx.y, c = threadIdx.x;
- if (r < rows && c < cols) y[r * cols + c] = u[r] * v[c];
+  __shared__ float us[8]; __shared__ float vs[8];
+  int r = threadIdx.y; int c = threadIdx.x;
+  if (c == 0 && r < rows) { us[r] = u[r]; }
+  if (r == 0 && c < cols) { vs[c] = v[c]; }
+  __syncthreads();
+  if (r < rows) if (c < cols) y[r * cols + c] = us[r] * vs[c];
*/
