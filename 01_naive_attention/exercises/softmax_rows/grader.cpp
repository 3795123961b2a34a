#ifdef FA_ENTRIES  // the student's process
using Scores = fa::Matrix<double>;

FA_ENTRY(safe_softmax, [](const Scores& s) { return student::safe_softmax<double>(s); });
#else  // the grader
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
using Scores = fa::Matrix<double>;

namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

std::vector<double> numbers(const Scores& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

enum class Sum { kRow, kAll, kNone };

// The softmax with some choices, by plain loops.
std::vector<double> softmax(const Scores& s, const std::function<double(int)>& shift,
                            Sum sum = Sum::kRow, bool no_key_is_zero = true) {
  Scores e = s;
  double all = 0;
  for (int i = 0; i < s.rows(); ++i) {
    for (int j = 0; j < s.cols(); ++j) {
      e(i, j) = s(i, j) == kMasked ? 0 : std::exp(s(i, j) - shift(i));
      all += e(i, j);
    }
  }
  for (int i = 0; i < s.rows(); ++i) {
    double l = 0;
    for (int j = 0; j < s.cols(); ++j) l += e(i, j);
    if (sum == Sum::kAll) l = all;
    if (sum == Sum::kNone || (l == 0 && no_key_is_zero)) l = 1;
    for (int j = 0; j < s.cols(); ++j) e(i, j) /= l;
  }
  return numbers(e);
}

void grade(const Scores& s, const std::string& where) {
  const auto row_max = [&](int i) {
    const double m = s.row(i).maxCoeff();
    return m == kMasked ? 0 : m;
  };
  const auto zero = [](int) { return 0.0; };
  const double all_max = s.maxCoeff();
  check(
      {"probabilities", numbers(call<Scores>("safe_softmax", s)), s.cols()}, softmax(s, row_max),
      1e-12,
      {{"the scores came back as they were", numbers(s)},
       {"the exponentials were not divided by the sum of the row", softmax(s, row_max, Sum::kNone)},
       {"the exponentials were divided by the sum of the whole matrix",
        softmax(s, row_max, Sum::kAll)},
       {"a row that sees no key gives 0 / 0: its sum is 0", softmax(s, row_max, Sum::kRow, false)},
       {all_max > 0
            ? "the maximum was not subtracted: e^s overflows, and infinity / infinity is NaN"
            : "every e^(s - shift) of a row is 0: the shift is not the row's maximum",
        softmax(s, zero)},
       {"the maximum of all rows was subtracted: in a row far below it every e^(s - max) is 0",
        softmax(s, [=](int) { return all_max; })},
       {"the maximum starts at 0: where all scores are far below 0 every e^(s - 0) is 0",
        softmax(s, [&](int i) { return std::max(0.0, row_max(i)); })},
       {"the smallest score of a row was subtracted: e^(s - min) overflows",
        softmax(s, [&](int i) { return s.row(i).minCoeff(); })},
       {"the mean of a row was subtracted: a score far above it overflows",
        softmax(s, [&](int i) { return s.row(i).mean(); })},
       {"the first score of a row was subtracted: a score far above it overflows",
        softmax(s, [&](int i) { return s(i, 0); })},
       {"the maximum was added and not subtracted",
        softmax(s, [&](int i) { return -row_max(i); })}},
      where);
}

}  // namespace

FA_STAGE(easy) {
  Scores s(2, 3);
  s << 1, 2, 3, 0.5, -1, 0;
  grade(s, "small scores");
}

FA_STAGE(odd) {
  Scores half(1, 3), low(1, 3), far(2, 3), large(2, 3), fully_masked(3, 2), one(1, 1), huge(2, 3);
  half << 400, 401, 402;
  grade(half, "scores around 400");
  large << 1000, 1001, 1002, 900, 900, 901;
  grade(large, "scores around 1000");
  low << -800, -801, -802;
  far << 800, 801, 802, -800, -801, -802;
  grade(low, "scores around -800");
  grade(far, "one row around 800, one around -800");
  fully_masked << 1, 2, kMasked, kMasked, kMasked, 3;
  grade(fully_masked, "a row of -infinity");
  one << -1e4;
  grade(one, "a single score");
  huge << 1e4, 1e4 - 1, -1e4, 1e300, -1e300, -1;
  grade(huge, "scores of 10000 and more");
  Scores wide(2, 3);
  wide << -1000, 0, 1000, 1000, -1000, 0;
  grade(wide, "scores from -1000 to 1000");
  Scores random(17, 113);
  for (int i = 0; i < random.size(); ++i) {
    random.data()[i] = 50 * fa::random_normal(1, i);
  }
  grade(random, "17 x 113 random scores");
}
#endif
