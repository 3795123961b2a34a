#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// y[r][c] = x[r][c] for c <= r, else 0; launched with 8 x 8 threads.
__global__ void lower_triangle(const float* x, float* y, int rows, int cols) {
#ifdef FA_SOLUTION
  const int r = threadIdx.y, c = threadIdx.x;
  if (r < rows && c < cols) {
    y[r * cols + c] = c > r ? 0 : x[r * cols + c];
  }
#else
  // TODO: row, column, guard.
  (void)x, (void)y, (void)rows, (void)cols;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int rows, int cols, bool masked_infinity = false) {
  PuzzleCase p;
  const std::int64_t size = std::int64_t{rows} * cols;
  p.puzzle.in = {random_floats(size, 1)};
  p.reads_all = false;  // the upper triangle
  if (masked_infinity) p.puzzle.in[0][1] = INFINITY;
  p.puzzle.out = size;
  p.puzzle.sizes = {rows, cols};
  p.puzzle.block = {8, 8};
  p.arrays = {{"x", size, cols}, {"y", size, cols}};
  const std::vector<float>& x = p.puzzle.in[0];
  const auto of = [&](auto keeps) {
    return made(size,
                [&](std::int64_t i) { return keeps(i / cols, i % cols) ? double{x[i]} : 0.0; });
  };
  p.right = of([](auto r, auto c) { return c <= r; });
  p.mistakes = {
      {"the diagonal is 0; it belongs to what is kept", of([](auto r, auto c) { return c < r; })},
      {"nothing was set to 0", of([](auto, auto) { return true; })}};
  if (masked_infinity) {
    std::vector<double> multiplied = p.right;
    multiplied[1] = NAN;
    p.mistakes.push_back(
        {"an element of the upper triangle is infinite, and infinity times 0 is NaN: choose "
         "between two values, do not multiply",
         multiplied});
  }
  p.reasons = {{"out of bounds",
                "threads outside of the matrix touch memory: guard the row and the column"}};
  p.twice =
      "a thread whose column does not exist lands in the next row. Guard the column as well as the "
      "row, and multiply the row by cols";
  p.where = fmt::format("{} rows, {} columns", rows, cols);
  return p;
}

}  // namespace

FA_PLAY(easy, make(8, 8));
FA_PLAY(odd, make(5, 7), make(7, 3), make(1, 8), make(8, 1), make(6, 6, true));
FA_PLAY(races, make(5, 7));
#endif
/* Other answers, as changes of the solution
# diagonal: the diagonal is masked
@ easy: the diagonal is 0
- y[r * cols + c] = c > r ? 0 : x[r * cols + c];
+ y[r * cols + c] = c >= r ? 0 : x[r * cols + c];

# no_guard: none at all
@ odd: lands in the next row
- if (r < rows && c < cols) {
+ (void)rows;
+ {

# wrong_stride: a row has cols elements
@ odd: multiply the row by cols
- y[r * cols + c] = c > r ? 0 : x[r * cols + c];
+ y[r * rows + c] = c > r ? 0 : x[r * rows + c];

# mask_by_product: infinity times 0
@ odd: do not multiply
- y[r * cols + c] = c > r ? 0 : x[r * cols + c];
+     y[r * cols + c] = x[r * cols + c] * (c <= r);

# linear: a linear number of the thread, divided again
@ right
- const int r = threadIdx.y, c = threadIdx.x;
- if (r < rows && c < cols) {
- y[r * cols + c] = c > r ? 0 : x[r * cols + c];
- }
+  for (int e = threadIdx.y * blockDim.x + threadIdx.x; e < rows * cols; e += blockDim.x * blockDim.y) { const int r = e / cols, c = e - r * cols; y[e] = 0; if (r >= c) y[e] = x[e]; }
*/
