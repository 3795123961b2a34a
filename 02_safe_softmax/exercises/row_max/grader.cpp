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
