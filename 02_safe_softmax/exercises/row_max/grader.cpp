#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double largest(const std::vector<double>& numbers, double start) {
  double m = start;
  for (const double x : numbers) {
    if (x > m) m = x;
  }
  return m;
}

void grade(const std::vector<double>& scores, double right, const std::string& where) {
  const std::vector<double> but_last(scores.begin(), scores.end() - 1);
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
  check({"maximum", {call<double>("row_max", scores)}}, {right}, 0, mistakes, where);
}

// The row whose scores are the digits of a number, in the base of the numbers to choose from.
void grade_row(const std::vector<double>& numbers, std::size_t digits, std::size_t length) {
  std::vector<double> scores;
  double right = -kInfinity;
  for (std::size_t j = 0; j < length; ++j, digits /= numbers.size()) {
    const double x = numbers[digits % numbers.size()];
    scores.push_back(x);
    right = std::isnan(x) || std::isnan(right) ? kNan : std::max(right, x);
  }
  std::string where;
  for (const double x : scores) where += (where.empty() ? "" : " ") + text(x);
  grade(scores, right, where);
}

}  // namespace

FA_STAGE(found) {
  const std::vector<double> row = evidence("a row of scores, as in -1 inf nan").numbers;
  double right = -kInfinity;
  for (const double x : row) {
    if (std::isnan(x) || x > right) right = x;
    if (std::isnan(x)) break;
  }
  const double m = largest(row, std::numeric_limits<double>::min());
  std::string words;
  for (const double x : row) words += " " + text(x);
  require(
      !agree({m}, {right}, 0),
      fmt::format("not found: for the scores{} the function as it was returns {}, which is right",
                  words, text(m)));
}

FA_STAGE(easy) {
  grade({3, 1, 2}, 3, "3 1 2");
  grade({-5, 2, 4}, 4, "-5 2 4");
  grade({-9, 7, 1}, 7, "-9 7 1");
}

FA_STAGE(odd) {
  grade({-3, -1, -2}, -1, "-3 -1 -2");
  grade({-3e4, -2e4}, -2e4, "-3e4 -2e4");
  grade({-kInfinity, -kInfinity}, -kInfinity, "-inf -inf");
  grade({1, kNan, 2}, kNan, "1 NaN 2");
  // All rows of up to four of these numbers: a rule for one order may fail in another.
  const std::vector<double> numbers{-kInfinity, -1e300, -1, 0, 1, kInfinity, kNan};
  for (std::size_t length = 1, rows = 7; length <= 4; ++length, rows *= 7) {
    for (std::size_t row = 0; row < rows; ++row) grade_row(numbers, row, length);
  }
}
#endif
