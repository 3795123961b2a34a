#if defined(FA_STUDENT)
#include <cmath>
#include <limits>

#include "02_safe_softmax/softmax.hpp"

namespace student {

using fa::View;
using fa::safe::exact;

/// The largest element of a row; -infinity for a row of -infinity; NaN as soon as one element is
/// NaN.
/// @param s [n], n at least 1
template <class T>
double row_max(View<const T, 1> s) {
#ifdef FA_SOLUTION
  // listing: 02_safe_softmax/softmax.hpp#row_max
#else
  double m = std::numeric_limits<double>::min();
  for (std::int64_t j = 0; j < s.size(0); ++j) {
    const double value = exact(s(j));
    if (value > m) m = value;
  }
  return m;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
#include "02_safe_softmax/softmax.hpp"

// What the lesson has is to be written, not called.
namespace fa::safe {

template <>
double row_max<double>(View<const double, 1>) = delete;

}  // namespace fa::safe

#include "student/row_max.hpp"

FA_ENTRY(row_max, [](const std::vector<double>& scores) {
  const auto n = static_cast<std::int64_t>(scores.size());
  return student::row_max<double>(fa::View<const double, 1>(scores.data(), {n}));
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The loop as it was at first, from another start.
double largest(const std::vector<double>& numbers, double start) {
  for (const double x : numbers) {
    if (x > start) start = x;
  }
  return start;
}
double right_max(const std::vector<double>& row) {
  const bool nan = std::any_of(row.begin(), row.end(), [](double x) { return std::isnan(x); });
  return nan ? kNan : largest(row, -kInfinity);
}
std::string words(const std::vector<double>& row) {
  std::string result = "scores";
  for (const double x : row) result += " " + text(x);
  return result;
}

void grade(const std::vector<double>& scores) {
  const std::vector<double> but_last(scores.begin(), scores.end() - 1);
  const double right = right_max(scores);
  std::vector<Mistake> mistakes{
      {"the result is not one of the scores",
       {largest(scores, std::numeric_limits<double>::min())}},
      {"the maximum starts at 0, so no negative score is ever larger", {largest(scores, 0)}},
      {"the last element is passed over", {largest(but_last, -kInfinity)}}};
  if (std::isnan(right)) {
    mistakes = {
        {"NaN was lost: the result is the largest of the others", {largest(scores, -kInfinity)}}};
  }
  // Exact: a maximum is not rounded.
  check({"maximum", {call<double>("row_max", scores)}}, {right}, 0, mistakes, words(scores));
}

}  // namespace

FA_STAGE(found) {
  const std::vector<double> row = evidence("a row of scores, as in -1 inf nan").numbers;
  const double m = largest(row, std::numeric_limits<double>::min());
  require(!agree({m}, {right_max(row)}, 0),
          fmt::format("not found: for the {} the function as it was returns {}, which is right",
                      words(row), text(m)));
}

FA_STAGE(easy) {
  grade({3, 1, 2});
  grade({-5, 2, 4});
  grade({-9, 7, 1});
}

FA_STAGE(odd) {
  grade({-3, -1, -2});
  grade({-3e4, -2e4});
  grade({1, kNan, 2});
  // All rows of up to four of these numbers: a rule for one order may fail in another.
  const std::vector<double> numbers{-kInfinity, -1e300, -1, 0, 1, kInfinity, kNan};
  for (std::size_t length = 1, rows = 7; length <= 4; ++length, rows *= 7) {
    for (std::size_t number = 0; number < rows; ++number) {
      std::vector<double> row;
      for (std::size_t rest = number; row.size() < length; rest /= 7) {
        row.push_back(numbers[rest % 7]);
      }
      grade(row);
    }
  }
}
#endif
/* Other answers, as changes of the solution
# starts_at_zero: the maximum of negative scores is 0
@ odd: the maximum starts at 0
- double m = -std::numeric_limits<double>::infinity();
+ double m = 0;

# nan_lost: NaN > m is false
@ odd: NaN was lost
- if (std::isnan(value)) return value;  // NaN > m is false
+

# first_only: it stops one short
@ easy: the last element
- for (std::int64_t j = 0; j < s.size(0); ++j) {
+ for (std::int64_t j = 0; j + 1 < s.size(0); ++j) {

# calls_the_lesson: the lesson's function
@ compiles: use of deleted function
- if (value > m) m = value;
+     if (value > m) m = fa::safe::row_max(s);

# negated: a comparison that NaN fails
@ right
- if (std::isnan(value)) return value;  // NaN > m is false
- if (value > m) m = value;
+    if (m != m) continue;
+    if (!(value <= m)) m = value;

# evidence_nan: a row with NaN as evidence
@ right
- // answer: -3 -1 -2
+ // answer: 1, nan, 2
*/
