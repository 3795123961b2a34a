#ifdef FA_ENTRIES  // the student's process
using Row = std::vector<double>;

FA_ENTRY(is_right,
         [](fa::classroom::Callback<Row(Row)> softmax) { return student::is_right(softmax); });
#else  // the grader
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

using Row = std::vector<double>;

enum class Divide { kSum, kMax };

// A softmax with some choices, in the type T.
template <class T>
Row softmax(const Row& scores, bool shifted, double start, double base, Divide divide,
            double clip) {
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  double m = start;
  for (const double s : scores) m = std::max(m, s);
  const bool fully_masked = m == minus_infinity;  // a row of -infinity
  if (!shifted || fully_masked) m = 0;
  std::vector<T> e;
  T sum = 0, largest = 0;
  for (const double s : scores) {
    const T difference = static_cast<T>(s) - static_cast<T>(m);
    const T limited = std::max(difference, static_cast<T>(-clip));
    e.push_back(std::pow(static_cast<T>(base), limited));
    sum += e.back();
    largest = std::max(largest, e.back());
  }
  if (fully_masked) sum = largest = 1;
  Row probs;
  for (const T x : e) {
    probs.push_back(static_cast<double>(x / (divide == Divide::kSum ? sum : largest)));
  }
  return probs;
}

const double kLowest = -std::numeric_limits<double>::infinity();
const double kE = std::exp(1.0);
constexpr double kNoClip = 1e30;

template <class T>
Row right(const Row& s) {
  return softmax<T>(s, true, kLowest, kE, Divide::kSum, kNoClip);
}

using Softmax = std::function<Row(const Row&)>;

bool is_right(const Softmax& softmax) {
  return call<bool>("is_right", function<Row, Row>(softmax));
}

void must_refuse(const Softmax& wrong, const std::string& which) {
  bool gave_nan = false;
  const bool accepted = is_right([&](const Row& scores) {
    const Row probs = wrong(scores);
    for (const double p : probs) gave_nan |= std::isnan(p);
    return probs;
  });
  require(!accepted,
          "your test accepts the one " + which +
              (gave_nan ? ". It returned NaN to your test: your comparison lets NaN pass" : ""));
}

}  // namespace

FA_STAGE(easy) {
  require(is_right(right<double>), "your test refuses the safe softmax in float64");
  require(is_right(right<float>),
          "your test refuses the safe softmax in float32, which is right up to rounding");
}

FA_STAGE(odd) {
  must_refuse(
      [](const Row& s) { return softmax<float>(s, false, kLowest, kE, Divide::kSum, kNoClip); },
      "that overflows: it does not subtract the maximum");
  must_refuse([](const Row& s) { return softmax<double>(s, true, 0, kE, Divide::kSum, kNoClip); },
              "whose maximum starts at 0: it fails where all scores are negative");
  must_refuse(
      [](const Row& s) { return softmax<double>(s, true, kLowest, kE, Divide::kMax, kNoClip); },
      "that divides by the largest and not by the sum");
  must_refuse(
      [](const Row& s) { return softmax<double>(s, true, kLowest, 2, Divide::kSum, kNoClip); },
      "with base 2");
  must_refuse(
      [](const Row& s) {
        Row scaled = s;
        for (double& x : scaled) x /= std::sqrt(double(s.size()));
        return right<double>(scaled);
      },
      "that divides the scores by the root of their number first");
  must_refuse(
      [](const Row& s) {
        Row probs = right<double>(s);
        std::reverse(probs.begin(), probs.end());
        return probs;
      },
      "whose probabilities stand in the opposite order");
  must_refuse(
      [](const Row& s) {
        Row limited = s;
        for (double& x : limited) x = std::min(x, 700.0);
        return right<double>(limited);
      },
      "that clips scores at 700, and shifts them only then");
  must_refuse([](const Row& s) { return Row(s.size(), 1.0 / double(s.size())); },
              "that gives equal probabilities");
  // e^-5 is 0.0067, which a tolerance of 1e-4 shows.
  must_refuse([](const Row& s) { return softmax<double>(s, true, kLowest, kE, Divide::kSum, 5); },
              "that clips differences at 5: far below the maximum its probabilities are too large");
}
#endif
