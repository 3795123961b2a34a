#if defined(FA_STUDENT)
#include <cmath>
#include <cstdint>

#include "02_safe_softmax/softmax.hpp"

namespace student {

using fa::View;
using fa::safe::exact;
using fa::safe::row_max;

/// ln(sum of 2^x): the natural logarithm of a sum of powers of 2; -infinity for a row of -infinity.
/// @param x [n], n at least 1; the scores times log2(e)
template <class T>
double log_sum_exp2(View<const T, 1> x) {
#ifdef FA_SOLUTION
  const double m = row_max(x);
  if (!std::isfinite(m)) return m;  // all -inf
  double l = 0;
  for (std::int64_t j = 0; j < x.size(0); ++j) {
    l += std::exp2(exact(x(j)) - m);
  }
  return m * std::log(2.0) + std::log(l);
#else
  // TODO
  (void)x;
  return 0;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
#include "02_safe_softmax/softmax.hpp"

// What the lesson has is to be written, not called.
namespace fa::safe {

template <>
double log_sum_exp<double>(View<const double, 1>) = delete;

}  // namespace fa::safe

#include "student/log_sum_exp.hpp"

FA_ENTRY(log_sum_exp, [](const std::vector<double>& scores) {
  const auto n = static_cast<std::int64_t>(scores.size());
  return student::log_sum_exp2<double>(fa::View<const double, 1>(scores.data(), {n}));
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

void grade(const std::vector<double>& scores, const std::string& where) {
  const double m = *std::max_element(scores.begin(), scores.end());
  const bool masked = m == kMinusInfinity;
  double l = 0, unshifted = 0, of_e = 0;
  for (const double x : scores) {
    l += masked ? 0 : std::exp2(x - m);
    unshifted += std::exp2(x);
    of_e += masked ? 0 : std::exp(x - m);
  }
  const double of_m = m * std::log(2.0);
  check(
      {"LSE", {call<double>("log_sum_exp", scores)}}, {masked ? m : of_m + std::log(l)},
      1e-12 * (1 + (masked ? 0 : std::abs(m))),
      {{masked ? "a row that sees no key: its sum is 0, and ln 0 is -infinity" : "the result is 0",
        {0}},
       {"the maximum was not taken out: 2^x overflows, or underflows to 0", {std::log(unshifted)}},
       {"what was taken out is 2^m, and ln(2^m) is m ln 2, not m", {m + std::log(l)}},
       {"this is log2 of the sum; the LSE is a natural logarithm", {m + std::log2(l)}},
       {"e^x was summed: the powers are of 2", {of_m + std::log(of_e)}},
       {"the maximum that was taken out of the sum was not added back", {std::log(l)}},
       {"a row of -infinity: -infinity - -infinity is NaN", {NAN}}},
      where);
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 2, 3}, "1 2 3");
  grade({-1, 0.5, 0.25, 2}, "-1 0.5 0.25 2");
}

FA_STAGE(odd) {
  grade({1500, 1501}, "1500 1501");
  grade({-1500, -1501}, "-1500 -1501");
  grade({kMinusInfinity, 3, kMinusInfinity}, "-inf 3 -inf");
  grade({kMinusInfinity, kMinusInfinity}, "-inf -inf");
  grade({-7}, "-7");
  grade({-2000, 10}, "-2000 10");
  grade({-1e9, -1e9 + 1}, "-1e9 -999999999");
  grade({1e300, -1e300}, "1e300 -1e300");
  std::vector<double> row;
  for (int j = 0; j < 1023; ++j) {
    row.push_back(30 * fa::random_normal(1, static_cast<std::uint64_t>(j)));
  }
  grade(row, "1023 random scores");
}
#endif
/* Other answers, as changes of the solution
# m_itself: the maximum is added as it is
@ easy: m ln 2, not m
- return m * std::log(2.0) + std::log(l);
+ return m + std::log(l);

# base_two: the logarithm of base 2
@ easy: this is log2 of the sum
- return m * std::log(2.0) + std::log(l);
+ return m + std::log2(l);

# unshifted: the definition as it reads
@ odd: the maximum was not taken out
- l += std::exp2(exact(x(j)) - m);
+   l += std::exp2(exact(x(j)));
- return m * std::log(2.0) + std::log(l);
+ return std::log(l);

# no_key_is_nan: -infinity minus -infinity
@ odd: -infinity - -infinity
- if (!std::isfinite(m)) return m;  // all -inf
+

# calls_the_lesson: the lesson's function, of the scores times ln 2
@ compiles: use of deleted function
- double l = 0;
+   std::vector<T> natural;
+   for (std::int64_t j = 0; j < x.size(0); ++j) natural.push_back(x(j) * std::log(2.0));
+   return fa::safe::log_sum_exp(fa::View<const T, 1>(natural.data(), {x.size(0)}));
+   double l = 0;

# online: in one pass
@ right
- const double m = row_max(x);
- ...
- l += std::exp2(exact(x(j)) - m);
- }
+  double m = -INFINITY, l = 0;
+  for (std::int64_t j = 0; j < x.size(0); ++j) {
+    const double s = exact(x(j)); if (s == -INFINITY) continue;
+    if (s > m) { l = l * std::exp2(m - s) + 1; m = s; } else l += std::exp2(s - m);
+  }
+  if (m == -INFINITY) return m;
*/
