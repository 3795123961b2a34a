#if defined(FA_STUDENT)
#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/tensor/matrix.hpp"

namespace student {

using fa::Matrix;

/// Masks for each query the keys that come after it, except those of the prefix.
/// @param q [length_q, head_dim]
/// @param k [length_k, head_dim]
/// @param prefix the first keys, which every query sees; 0 to length_k
/// @param s [length_q, length_k], the scores; what is masked becomes -infinity
template <class A>
void mask_behind_prefix(const Matrix<A>& q, const Matrix<A>& k, std::int64_t prefix, Matrix<A>& s) {
#ifdef FA_SOLUTION
  const std::int64_t shift = k.rows() - q.rows();
  for (std::int64_t i = 0; i < s.rows(); ++i) {
    const std::int64_t first_masked = std::max(prefix, i + shift + 1);
    for (std::int64_t j = first_masked; j < s.cols(); ++j) {
      s(i, j) = -std::numeric_limits<A>::infinity();
    }
  }
#else
  // TODO: -std::numeric_limits<A>::infinity() where a query must not look.
  (void)q, (void)k, (void)prefix, (void)s;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
using Scores = fa::Matrix<double>;
using Index = std::int64_t;

//! [entry]
FA_ENTRY(mask, [](const Scores& q, const Scores& k, Index prefix, Scores s) {
  student::mask_behind_prefix<double>(q, k, prefix, s);
  return s;
});
//! [entry]
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
using Scores = fa::Matrix<double>;

namespace {

Scores random_matrix(int rows, int cols) {
  Scores m(rows, cols);
  for (int i = 0; i < m.size(); ++i) {
    m.data()[i] = fa::random_normal(5, i);
  }
  return m;
}

template <class Sees>
std::vector<double> masked(Scores s, Sees sees, double value = kMinusInfinity) {
  for (int i = 0; i < s.rows(); ++i) {
    for (int j = 0; j < s.cols(); ++j) {
      if (!sees(i, j)) s(i, j) = value;
    }
  }
  return {s.data(), s.data() + s.size()};
}

void grade(int queries, int keys, int prefix = 0) {
  const Scores q = random_matrix(queries, 4), k = random_matrix(keys, 4);
  const Scores given = random_matrix(queries, keys);
  const auto s = call<Scores>("mask", q, k, static_cast<std::int64_t>(prefix), given);
  require(s.rows() == queries && s.cols() == keys, "the matrix has another size");
  const int shift = keys - queries;
  const auto right = [=](int i, int j) { return j < prefix || j <= i + shift; };
  std::vector<Mistake> mistakes{
      {"nothing is masked", masked(given, [](int, int) { return true; })},
      {"off by one: a query does not see itself",
       masked(given, [=](int i, int j) { return j < prefix || j < i + shift; })},
      {"the mask is aligned to the top left; the last query must see the last key",
       masked(given, [=](int i, int j) { return j < prefix || j <= i; })},
      {"a masked score is 0, whose exponential is e^0 = 1; it must be -infinity",
       masked(given, right, 0)}};
  if (prefix > 0) {
    mistakes.push_back({"the prefix is masked, too: every query sees its keys",
                        masked(given, [=](int i, int j) { return j <= i + shift; })});
    mistakes.push_back(
        {"prefix counts keys: the last one that all queries see is prefix - 1",
         masked(given, [=](int i, int j) { return j <= prefix || j <= i + shift; })});
  }
  check({"scores", {s.data(), s.data() + s.size()}, keys}, masked(given, right), 0, mistakes,
        fmt::format("{} queries, {} keys, prefix {}", queries, keys, prefix));
}

}  // namespace

FA_STAGE(easy) {
  grade(4, 4);
  grade(17, 17);
}

FA_STAGE(odd) {
  grade(3, 7);
  grade(1, 9);
  grade(5, 2);  // the first three queries see nothing
  grade(9, 1);
  grade(2, 300);
  grade(300, 2);
  grade(6, 6, 3);
  grade(3, 7, 6);
  grade(5, 2, 1);
  grade(4, 9, 9);
  grade(1, 1, 1);
}
#endif
/* Other answers, as changes of the solution
# hides_itself: the mask is one key too strict
@ easy: off by one: a query does not see itself
- const std::int64_t first_masked = std::max(prefix, i + shift + 1);
+     const std::int64_t first_masked = std::max(prefix, i + shift);

# zero_for_masked: masked scores are 0
@ easy: a masked score is 0
- s(i, j) = -std::numeric_limits<A>::infinity();
+         s(i, j) = 0;

# top_left: aligned to the first query
@ odd: aligned to the top left
- const std::int64_t shift = k.rows() - q.rows();
+   const std::int64_t shift = 0;

# no_prefix: the mask of the chapter
@ odd: the prefix is masked, too
- const std::int64_t first_masked = std::max(prefix, i + shift + 1);
+     const std::int64_t first_masked = std::max<std::int64_t>(0, i + shift + 1);

# step_by_step: each pair is asked
@ right
- for (std::int64_t j = first_masked; j < s.cols(); ++j) {
- s(i, j) = -std::numeric_limits<A>::infinity();
- }
+    (void)first_masked;
+    for (int j = 0; j < k.rows(); j++) { bool visible = false; if (j < prefix) visible = true; if (j <= i + shift) visible = true; if (!visible) s(i, j) = -1.0 / 0.0; }
*/
