#if defined(FA_STUDENT)
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

namespace student {

/// From scores to probabilities.
using Softmax = std::function<std::vector<double>(const std::vector<double>&)>;

/// True for a softmax that one can trust.
inline bool is_right(const Softmax& softmax) {
  const std::vector<double> scores{0.1, 1.1, -2, 0.7};
  const std::vector<double> probs = softmax(scores);
  double sum = 0;
  for (const double w : probs) sum += w;
#ifdef FA_SOLUTION
  if (!(std::abs(sum - 1) <= 1e-5)) return false;
  for (const double shift : {-1000.0, -3.0, 40.0, 1000.0}) {
    std::vector<double> moved = scores;
    for (double& s : moved) s += shift;
    const std::vector<double> again = softmax(moved);
    for (std::size_t j = 0; j < probs.size(); ++j) {
      if (!(std::abs(again[j] - probs[j]) <= 1e-4)) return false;
    }
  }
  // One more score is e times the probability, also far apart.
  if (!(std::abs(probs[1] / probs[0] - std::exp(1.0)) <= 1e-4)) {
    return false;
  }
  const std::vector<double> far = softmax({0, 30});
  return far[0] > 0 && far[0] < 1e-12;
#else
  // TODO: the shifts, and whatever else a wrong softmax could get past.
  return std::abs(sum - 1) <= 1e-5;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
using Row = std::vector<double>;

FA_ENTRY(is_right,
         [](fa::classroom::Callback<Row(Row)> softmax) { return student::is_right(softmax); });
#elif defined(FA_GRADER)
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

Given given(bool right, const std::string& name, const Softmax& softmax) {
  return {name, right, [=] {
            bool gave_nan = false;
            const bool accepted = call<bool>("is_right", function<Row, Row>([&](const Row& scores) {
                                               Row probs = softmax(scores);
                                               for (const double p : probs)
                                                 gave_nan |= std::isnan(p);
                                               return probs;
                                             }));
            return std::pair(accepted, gave_nan);
          }};
}

const std::vector<Given> kRight{
    given(true, "the safe softmax in float64", [](const Row& s) { return softmax<double>(s); }),
    given(true, "the safe softmax in float32", [](const Row& s) { return softmax<float>(s); })};

}  // namespace

FA_STAGE(easy) {
  in_random_order(kRight);
}

FA_STAGE(odd) {
  std::vector<Given> all = kRight;
  const auto add = [&](const std::string& name, const Softmax& softmax) {
    all.push_back(given(false, "the one " + name, softmax));
  };
  const auto with = [&](auto change, const std::string& name) {
    Choices by;
    change(by);
    add(name, [by](const Row& s) { return softmax<double>(s, by); });
  };
  with([](Choices& by) { by.shifted = false; },
       "that overflows (it does not subtract the maximum)");
  with([](Choices& by) { by.start = 0; },
       "whose maximum starts at 0 (it fails where all scores are negative)");
  with([](Choices& by) { by.by_sum = false; }, "that divides by the largest and not by the sum");
  with([](Choices& by) { by.base = 2; }, "with base 2");
  add("that gives equal probabilities",
      [](const Row& s) { return Row(s.size(), 1.0 / double(s.size())); });
  add("that clips scores at 700, and shifts them only then", [](const Row& s) {
    Row limited = s;
    for (double& x : limited) x = std::min(x, 700.0);
    return softmax<double>(limited);
  });
  // e^-5 is 0.0067, which a tolerance of 1e-4 shows.
  with([](Choices& by) { by.clip = 5; },
       "that clips differences at 5 (far below the maximum its probabilities are too large)");
  in_random_order(all);
}
#endif
/* Other answers, as changes of the solution
# small_shifts: shifts that do not overflow
@ odd: your test accepts the one that overflows
- for (const double shift : {-1000.0, -3.0, 40.0, 1000.0}) {
+   for (const double shift : {-3.0, 2.0}) {

# nan_passes: a comparison with NaN is false
@ odd: It returned NaN to your test: your comparison lets NaN pass
- if (!(std::abs(again[j] - probs[j]) <= 1e-4)) return false;
+       if (std::abs(again[j] - probs[j]) > 1e-4) return false;

# too_strict: exact equality
@ easy: your test refuses the safe softmax
- if (!(std::abs(again[j] - probs[j]) <= 1e-4)) return false;
+       if (again[j] != probs[j]) return false;

# no_sum: the sum is not looked at
@ odd: your test accepts the one that divides by the largest
- if (!(std::abs(sum - 1) <= 1e-5)) return false;
+   (void)sum;

# step_by_step: two rows, each test by itself
@ right
- for (const double shift : {-1000.0, -3.0, 40.0, 1000.0}) {
- ...
- return far[0] > 0 && far[0] < 1e-12;
+  std::vector<double> up; std::vector<double> down; std::vector<double> far;
+  int j = 0;
+  while (j < 4) { up.push_back(scores[j] + 2000); down.push_back(scores[j] - 2000); far.push_back(scores[j] * 10); j++; }
+  std::vector<double> a = softmax(up); std::vector<double> b = softmax(down); std::vector<double> c = softmax(far);
+  for (j = 0; j < 4; j++) { if (std::isnan(a[j]) || std::isnan(b[j]) || std::isnan(c[j])) return false; if (std::abs(a[j] - probs[j]) > 1e-4) return false; if (std::abs(b[j] - probs[j]) > 1e-4) return false; }
+  for (j = 1; j < 4; j++) { double wanted = std::exp(scores[j] - scores[0]); if (std::abs(probs[j] / probs[0] - wanted) > 1e-4 * wanted) return false; }
+  for (j = 0; j < 4; j++) { double wanted = std::exp(far[j] - far[1]); if (std::abs(c[j] / c[1] - wanted) > 1e-4 * wanted) return false; }
+  return true;
*/
