#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// out = A B. A is m x k, B is k x n; m is at most 4, n at most 8. One warp.
__global__ void warp_matmul(const float* a, const float* b, float* out, int m, int n, int k) {
#ifdef FA_SOLUTION
  const int r = threadIdx.x / 8, c = threadIdx.x % 8;
  if (r >= m || c >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[r * k + i] * b[i * n + c];
  out[r * n + c] = sum;
#else
  // TODO: row, column, guard, sum.
  (void)a, (void)b, (void)out, (void)m, (void)n, (void)k;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_GRADER)
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

PuzzleCase make(int m, int n, int k) {
  PuzzleCase p;
  p.puzzle.in = {random_floats(std::int64_t{m} * k, 1), random_floats(std::int64_t{k} * n, 2)};
  p.puzzle.out = m * n;
  p.puzzle.sizes = {m, n, k};
  p.puzzle.block[0] = 32;
  p.arrays = {{"A", m * k, k}, {"B", k * n, n}, {"out", m * n, n}};
  const std::vector<float>&a = p.puzzle.in[0], &b = p.puzzle.in[1];
  // With A[r][i] and B[i][c] at these distances from row to row and from column to column.
  const auto matmul = [&](int a_row, int a_col, int b_row, int b_col) {
    return made(m * n, [&, a_row, a_col, b_row, b_col](std::int64_t at) {
      double sum = 0;
      for (int i = 0; i < k; ++i) {
        const std::int64_t of_a = at / n * a_row + i * a_col, of_b = i * b_row + at % n * b_col;
        sum += of_a < m * k && of_b < k * n ? double{a[of_a]} * b[of_b] : NAN;
      }
      return sum;
    });
  };
  p.right = matmul(k, 1, n, 1);
  p.mistakes = {
      {"B was read as if it were transposed: B[i][c] is b[i * n + c]", matmul(k, 1, 1, k)},
      {"A was read as if it were transposed: A[r][i] is a[r * k + i]", matmul(1, m, n, 1)},
      {"a row of A has k elements, not n", matmul(n, 1, n, 1)}};
  p.reasons = {{"out of bounds",
                "an index is too large: lanes without an element of C must do nothing; rows of A "
                "have k elements, rows of B have n"}};
  p.twice = "lanes whose column does not exist land in the next row: guard row and column";
  p.where = fmt::format("m {}, n {}, k {}", m, n, k);
  return p;
}

}  // namespace

FA_PLAY(easy, make(4, 8, 8));
FA_PLAY(odd, make(3, 5, 7), make(4, 8, 1), make(1, 1, 13), make(2, 7, 33));
FA_PLAY(races, make(3, 5, 7));
#endif
/* Other answers, as changes of the solution
# b_transposed: B by columns
@ easy: B was read as if it were transposed
- for (int i = 0; i < k; ++i) sum += a[r * k + i] * b[i * n + c];
+ for (int i = 0; i < k; ++i) sum += a[r * k + i] * b[c * k + i];

# no_guard: all lanes work
@ odd: land in the next row
- if (r >= m || c >= n) return;
+ (void)m;

# stride_of_a: n for k
@ odd: a row of A has k elements
- for (int i = 0; i < k; ++i) sum += a[r * k + i] * b[i * n + c];
+ for (int i = 0; i < k; ++i) sum += a[r * n + i] * b[i * n + c];

# shuffles: each lane loads one element of A, the others get it by a shuffle
@ right
- if (r >= m || c >= n) return;
- float sum = 0;
- for (int i = 0; i < k; ++i) sum += a[r * k + i] * b[i * n + c];
- out[r * n + c] = sum;
+  float sum = 0;
+  for (int i0 = 0; i0 < k; i0 += 8) {
+    const float own = r < m && i0 + c < k ? a[r * k + i0 + c] : 0.0f;
+    for (int i = i0; i < i0 + 8; ++i) {
+      const float left = __shfl_sync(kAllLanes, own, 8 * r + i - i0);
+      if (i < k && c < n) sum = fmaf(left, b[i * n + c], sum);
+    }
+  }
+  if (r < m && c < n) out[r * n + c] = sum;
*/
