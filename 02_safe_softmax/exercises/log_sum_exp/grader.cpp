#ifdef FA_ENTRIES  // the student's process
#include "02_safe_softmax/softmax.hpp"

// What the lesson has is to be written, not called.
namespace fa::safe {

template <>
double log_sum_exp<float>(View<const float, 1>) = delete;
template <>
double log_sum_exp<double>(View<const double, 1>) = delete;
template <>
double log_sum_exp<long double>(View<const long double, 1>) = delete;

}  // namespace fa::safe

#include "student/log_sum_exp.hpp"

FA_ENTRY(log_sum_exp, [](const std::vector<double>& scores) {
  const auto n = static_cast<std::int64_t>(scores.size());
  return student::log_sum_exp2<double>(fa::View<const double, 1>(scores.data(), {n}));
});
#else  // the grader
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void grade(const std::vector<double>& scores, const std::string& where) {
  const double ln2 = std::log(2.0);
  long double l = 0, unshifted = 0, with_e = 0;
  const double m = *std::max_element(scores.begin(), scores.end());
  const bool masked = m == -kInfinity;
  for (const double x : scores) {
    l += x == -kInfinity ? 0 : std::exp2(static_cast<long double>(x) - m);
    with_e += x == -kInfinity ? 0 : std::exp(static_cast<long double>(x) - m);
    unshifted += static_cast<long double>(std::exp2(x));
  }
  const double log_l = static_cast<double>(std::log(l));
  const double right = masked ? -kInfinity : m * ln2 + log_l;
  double of_first = 0;  // the sum relative to the first score
  for (const double x : scores) of_first += std::exp2(x - scores[0]);
  const double first = scores[0] == -kInfinity ? scores[0] : scores[0] * ln2 + std::log(of_first);
  check(
      {"LSE", {call<double>("log_sum_exp", scores)}}, {right},
      1e-12 * (1 + (masked ? 0 : std::abs(m))),
      {{masked ? "a row that sees no key: its sum is 0, and ln 0 is -infinity" : "the result is 0",
        {0}},
       {"the maximum was not taken out, or starts at 0, so that negative scores are not shifted: "
        "2^x "
        "underflows to 0",
        {m < 0 ? static_cast<double>(std::log(unshifted)) : right}},
       {"the first score was subtracted in place of the largest: 2^(x - x(0)) overflows, and x(0) "
        "may be -infinity",
        {first}},
       {"the maximum was not taken out: 2^x overflows, or underflows to 0",
        {static_cast<double>(std::log(unshifted))}},
       {"the maximum that was taken out of the sum was not added back", {log_l}},
       {"what was taken out is 2^m, and ln(2^m) is m ln 2, not m", {m + log_l}},
       {"m ln 2 is a product, not m + ln 2", {m + ln2 + log_l}},
       {"m was divided by ln 2; ln(2^m) is m times ln 2", {m / ln2 + log_l}},
       {"the terms are powers of e; the elements are scores times log2(e) already, so they are "
        "powers of 2",
        {m * ln2 + static_cast<double>(std::log(with_e))}},
       {"the logarithm has base 2; LSE is natural", {m + log_l / ln2}},
       {"the logarithm of the sum has base 2, and m ln 2 is natural: log2(l) is not ln(l)",
        {m * ln2 + log_l / ln2}},
       {"the logarithm of the sum has base 10; LSE is natural", {m * ln2 + log_l / std::log(10.0)}},
       {"this is ln(sum of e^x); the elements are scores times log2(e) already",
        {m + static_cast<double>(std::log(with_e))}},
       {"this is only the maximum: the other terms are missing", {m * ln2}},
       {"a row of -infinity: -infinity - -infinity is NaN",
        {std::numeric_limits<double>::quiet_NaN()}},
       {"the sum is too large by 1: does it start at 0?",
        {m * ln2 + static_cast<double>(std::log(l + 1))}},
       {"the first score is left out",
        {m * ln2 +
         static_cast<double>(std::log(l - std::exp2(static_cast<long double>(scores[0]) - m)))}},
       {"the last score is left out",
        {m * ln2 + static_cast<double>(
                       std::log(l - std::exp2(static_cast<long double>(scores.back()) - m)))}},
       {"the maximum was subtracted from the logarithm; it is added back", {log_l - m * ln2}},
       {"the logarithm was subtracted; LSE is m ln 2 + ln l", {m * ln2 - log_l}},
       {"the maximum was added in the exponent; it is subtracted", {3 * m * ln2 + log_l}}},
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
  grade({-kInfinity, 3, -kInfinity}, "-inf 3 -inf");
  grade({-kInfinity, -kInfinity}, "-inf -inf");
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
