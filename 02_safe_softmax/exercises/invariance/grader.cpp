#ifdef FA_ENTRIES  // the student's process
using Row = std::vector<double>;

FA_ENTRY(is_right,
         [](fa::classroom::Callback<Row(Row)> softmax) { return student::is_right(softmax); });
#else  // the grader
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

using Row = std::vector<double>;

// How a softmax is computed; a wrong one changes something.
struct Choices {
  bool shifted = true;
  double start = -std::numeric_limits<double>::infinity();  // of the maximum
  double base = std::exp(1.0);
  bool by_sum = true;   // else it divides by the largest
  double clip = 1e300;  // of differences from the maximum
};

// A softmax in the type T.
template <class T>
Row softmax(const Row& scores, const Choices& by = {}) {
  double m = by.start;
  for (const double s : scores) m = std::max(m, s);
  const bool fully_masked = std::isinf(m) && m < 0;
  if (!by.shifted || fully_masked) m = 0;
  std::vector<T> e;
  T sum = 0, largest = 0;
  for (const double s : scores) {
    const T difference = static_cast<T>(std::max(s - m, -by.clip));
    e.push_back(std::pow(static_cast<T>(by.base), difference));
    sum += e.back();
    largest = std::max(largest, e.back());
  }
  if (fully_masked) sum = largest = 1;
  Row probs;
  for (const T x : e) probs.push_back(static_cast<double>(x / (by.by_sum ? sum : largest)));
  return probs;
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
  require(is_right([](const Row& s) { return softmax<double>(s); }),
          "your test refuses the safe softmax in float64");
  require(is_right([](const Row& s) { return softmax<float>(s); }),
          "your test refuses the safe softmax in float32, which is right up to rounding");
}

FA_STAGE(odd) {
  const auto must_refuse_with = [](auto change, const std::string& which) {
    Choices by;
    change(by);
    must_refuse([by](const Row& s) { return softmax<double>(s, by); }, which);
  };
  must_refuse_with([](Choices& by) { by.shifted = false; },
                   "that overflows: it does not subtract the maximum");
  must_refuse_with([](Choices& by) { by.start = 0; },
                   "whose maximum starts at 0: it fails where all scores are negative");
  must_refuse_with([](Choices& by) { by.by_sum = false; },
                   "that divides by the largest and not by the sum");
  must_refuse_with([](Choices& by) { by.base = 2; }, "with base 2");
  must_refuse([](const Row& s) { return Row(s.size(), 1.0 / double(s.size())); },
              "that gives equal probabilities");
  must_refuse(
      [](const Row& s) {
        Row limited = s;
        for (double& x : limited) x = std::min(x, 700.0);
        return softmax<double>(limited);
      },
      "that clips scores at 700, and shifts them only then");
  // e^-5 is 0.0067, which a tolerance of 1e-4 shows.
  must_refuse_with([](Choices& by) { by.clip = 5; },
                   "that clips differences at 5: far below the maximum its probabilities are too "
                   "large");
}
#endif
