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
  const auto matmul = [&](auto place_a, auto place_b, int first, int last) {
    return made(m * n, [&](std::int64_t at) {
      const std::int64_t r = at / n, c = at % n;
      double sum = 0;
      for (int i = first; i < last; ++i) {
        const std::int64_t of_a = place_a(r, i), of_b = place_b(i, c);
        if (of_a >= m * k || of_b >= k * n) return double{NAN};
        sum += double{a[of_a]} * b[of_b];
      }
      return sum;
    });
  };
  const auto in_a = [=](auto r, auto i) { return r * k + i; };
  const auto in_b = [=](auto i, auto c) { return i * n + c; };
  p.right = matmul(in_a, in_b, 0, k);
  p.mistakes = {
      {"B was read as if it were transposed: B[i][c] is b[i * n + c]",
       matmul(
           in_a, [=](auto i, auto c) { return c * k + i; }, 0, k)},
      {"A was read as if it were transposed: A[r][i] is a[r * k + i]",
       matmul([=](auto r, auto i) { return i * m + r; }, in_b, 0, k)},
      {"a row of A has k elements, not n",
       matmul([=](auto r, auto i) { return r * n + i; }, in_b, 0, k)},
      {"only the last product was stored: add them up", matmul(in_a, in_b, k - 1, k)},
      {"the first product is left out of the sum", matmul(in_a, in_b, 1, k)},
      {"A[r][i] is a[r * k + i], not a[r + k + i]",
       matmul([=](auto r, auto i) { return r + k + i; }, in_b, 0, k)},
      {"B[i][c] is b[i * n + c], not b[i + n + c]",
       matmul(
           in_a, [=](auto i, auto c) { return i + n + c; }, 0, k)},
      {"a row of A and a column of B are added, not multiplied", made(m * n, [&](std::int64_t at) {
         double sum = 0;
         for (int i = 0; i < k; ++i) {
           sum += double{a[in_a(at / n, i)]} + b[in_b(i, at % n)];
         }
         return sum;
       })}};
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
