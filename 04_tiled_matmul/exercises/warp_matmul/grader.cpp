#include "common/classroom/puzzles.hpp"

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
FA_PLAY_STRICTLY(races, make(3, 5, 7));
