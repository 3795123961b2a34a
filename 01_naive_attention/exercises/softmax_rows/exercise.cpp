#if defined(FA_STUDENT)
#include <limits>

#include "common/tensor/matrix.hpp"

namespace student {

using fa::Matrix;
using fa::Vector;

// listing: 01_naive_attention/attention.cpp#row_helpers

/// The softmax of each row; zeros for a row of -infinity.
/// @param scores [rows, cols], finite or -infinity
template <class T>
Matrix<T> safe_softmax(const Matrix<T>& scores) {
#ifdef FA_SOLUTION
  // listing: 01_naive_attention/attention.cpp#rows
#else
  // TODO: a shift for each row, the exponentials, their sums, the quotient.
  return scores;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
using Scores = fa::Matrix<double>;

FA_ENTRY(safe_softmax, [](const Scores& s) { return student::safe_softmax<double>(s); });
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
using Scores = fa::Matrix<double>;

namespace {

std::vector<double> numbers(const Scores& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

// The softmax of each row, or what it is without one of its parts.
std::vector<double> softmax(const Scores& s, bool shifted = true, bool divided = true,
                            bool no_key_is_zero = true) {
  std::vector<double> result;
  for (int i = 0; i < s.rows(); ++i) {
    const double m = s.row(i).maxCoeff(), shift = shifted && m != kMinusInfinity ? m : 0;
    double l = 0;
    for (int j = 0; j < s.cols(); ++j) l += std::exp(s(i, j) - shift);
    if (!divided || (l == 0 && no_key_is_zero)) l = 1;
    for (int j = 0; j < s.cols(); ++j) result.push_back(std::exp(s(i, j) - shift) / l);
  }
  return result;
}

void grade(const Scores& s, const std::string& where) {
  check({"probabilities", numbers(call<Scores>("safe_softmax", s)), s.cols()}, softmax(s), 1e-12,
        {{"the scores came back as they were", numbers(s)},
         {"the exponentials were not divided by the sum of the row", softmax(s, true, false)},
         {"a row that sees no key gives 0 / 0: its sum is 0", softmax(s, true, true, false)},
         {"the maximum was not subtracted: e^s overflows, or all of a row underflow to 0",
          softmax(s, false)}},
        where);
}

}  // namespace

FA_STAGE(easy) {
  Scores s(2, 3);
  s << 1, 2, 3, 0.5, -1, 0;
  grade(s, "small scores");
}

FA_STAGE(odd) {
  Scores far(2, 3), fully_masked(3, 2), one(1, 1), huge(2, 3), random(17, 113);
  far << 1000, 1001, 1002, -800, -801, -802;
  grade(far, "one row around 1000, one around -800");
  fully_masked << 1, 2, kMinusInfinity, kMinusInfinity, kMinusInfinity, 3;
  grade(fully_masked, "a row of -infinity");
  one << -1e4;
  grade(one, "a single score");
  huge << 1e4, 1e4 - 1, -1e4, 1e300, -1e300, -1;
  grade(huge, "scores of 10000 and more");
  for (int i = 0; i < random.size(); ++i) random.data()[i] = 50 * fa::random_normal(1, i);
  grade(random, "17 x 113 random scores");
}
#endif
/* Other answers, as changes of the solution
# not_divided: the exponentials are not divided by their sum
@ easy: not divided by the sum of the row
- return e.array().colwise() / l.array();
+   return e;

# no_max: the definition as it reads
@ odd: the maximum was not subtracted
- const Vector<T> m = finite_row_max(scores);
+   const Vector<T> m = Vector<T>::Zero(scores.rows());

# no_key_is_nan: a row without keys divides 0 by 0
@ odd: 0 / 0
- l = (l.array() == T(0)).select(T(1), l);  // fully masked: 0 / 1, not 0 / 0
+

# rowwise: the column of sums is taken for a row
@ compiles: `return e.array().rowwise() / l.array();`
- return e.array().colwise() / l.array();
+   return e.array().rowwise() / l.array();

# loops: plain loops, no Eigen
@ right
- const Vector<T> m = finite_row_max(scores);
- ...
- return e.array().colwise() / l.array();
+  Matrix<T> out(scores.rows(), scores.cols());
+  int i = 0;
+  while (i < scores.rows()) {
+    T m = scores(i, 0);
+    for (int j = 1; j < scores.cols(); j++) if (scores(i, j) > m) m = scores(i, j);
+    T sum = 0;
+    for (int j = 0; j < scores.cols(); j++) { out(i, j) = m == -std::numeric_limits<T>::infinity() ? T(0) : std::exp(scores(i, j) - m); sum += out(i, j); }
+    for (int j = 0; j < scores.cols(); j++) if (sum > 0) out(i, j) /= sum;
+    i++;
+  }
+  return out;
*/
