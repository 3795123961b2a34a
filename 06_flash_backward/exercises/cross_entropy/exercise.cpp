#if defined(FA_STUDENT)
#include <cmath>
#include <vector>

namespace student {

/// The gradient of the mean loss with respect to the logits.
/// @param logits  [rows, classes], one row after the other
/// @param lse     [rows]
/// @param targets [rows]; -1: the row does not count
/// @param smoothing 0 to 1
inline std::vector<double> cross_entropy_backward(const std::vector<double>& logits,
                                                  const std::vector<double>& lse,
                                                  const std::vector<int>& targets,
                                                  double smoothing) {
  const std::size_t rows = targets.size(), classes = logits.size() / rows;
  std::vector<double> d_logits(logits.size(), 0.0);
#ifdef FA_SOLUTION
  double tokens = 0;
  for (const int target : targets) tokens += target >= 0 ? 1 : 0;
  for (std::size_t row = 0; row < rows; ++row) {
    if (targets[row] < 0) continue;
    double allowed = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      allowed += std::isinf(logits[row * classes + c]) ? 0 : 1;
    }
    for (std::size_t c = 0; c < classes; ++c) {
      const double x = logits[row * classes + c];
      if (std::isinf(x)) continue;
      const double hit = static_cast<int>(c) == targets[row] ? 1 : 0;
      const double wanted = (1 - smoothing) * hit + smoothing / allowed;
      d_logits[row * classes + c] = (std::exp(x - lse[row]) - wanted) / tokens;
    }
  }
#else
  // TODO
  (void)lse, (void)smoothing, (void)classes;
#endif
  return d_logits;
}

}  // namespace student
#elif defined(FA_ENTRIES)
FA_ENTRY(backward, [](const std::vector<double>& logits, const std::vector<double>& lse,
                      const std::vector<int>& targets, double smoothing) {
  return student::cross_entropy_backward(logits, lse, targets, smoothing);
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

using Numbers = std::vector<double>;

struct Case {
  Numbers logits;
  std::vector<int> targets;
  double smoothing;

  std::size_t classes() const { return logits.size() / targets.size(); }
  double at(std::size_t row, std::size_t c) const { return logits[row * classes() + c]; }
  bool allowed(std::size_t row, std::size_t c) const { return !std::isinf(at(row, c)); }
  double count(std::size_t row) const {
    double result = 0;
    for (std::size_t c = 0; c < classes(); ++c) result += allowed(row, c);
    return result;
  }
  double tokens() const {
    double result = 0;
    for (const int target : targets) result += target >= 0;
    return result;
  }
  double lse(std::size_t row) const {
    double m = at(row, 0), sum = 0;
    for (std::size_t c = 0; c < classes(); ++c) m = std::max(m, at(row, c));
    for (std::size_t c = 0; c < classes(); ++c) sum += std::exp(at(row, c) - m);
    return m + std::log(sum);
  }
  double loss(std::size_t row) const {
    if (targets[row] < 0) return 0;
    const double of_row = lse(row);
    double sum = 0;
    for (std::size_t c = 0; c < classes(); ++c) {
      if (!allowed(row, c)) continue;
      const double hit = static_cast<int>(c) == targets[row];
      sum += ((1 - smoothing) * hit + smoothing / count(row)) * (of_row - at(row, c));
    }
    return sum / tokens();
  }
};

// The gradients, by central differences of the loss.
Numbers differences(const Case& c) {
  Numbers result(c.logits.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t row = i / c.classes();
    if (!c.allowed(row, i % c.classes()) || c.targets[row] < 0) continue;
    Case moved = c;
    const double h = 1e-4;
    moved.logits[i] = c.logits[i] + h;
    const double up = moved.loss(row);
    moved.logits[i] = c.logits[i] - h;
    result[i] = (up - moved.loss(row)) / (2 * h);
  }
  return result;
}

std::vector<Mistake> mistakes(const Case& c, const Numbers& right) {
  Case plain = c;
  plain.smoothing = 0;
  Numbers sums = right;
  for (double& x : sums) x *= c.tokens();
  return {{"the gradient is 0", Numbers(right.size(), 0.0)},
          {"the loss is a mean: the gradients are not divided by the number of tokens", sums},
          {"this is the gradient without smoothing", differences(plain)}};
}

void grade(const std::vector<int>& targets, std::size_t classes, double spread, double smoothing,
           bool masks) {
  Case c{{}, targets, smoothing};
  for (std::size_t i = 0; i < targets.size() * classes; ++i) {
    c.logits.push_back(spread * fa::random_normal(7, i));
  }
  if (masks) {
    // The class before the target, in each second row.
    for (std::size_t row = 0; row < targets.size(); row += 2) {
      const auto target = static_cast<std::size_t>(std::max(targets[row], 0));
      c.logits[row * classes + (target + classes - 1) % classes] =
          -std::numeric_limits<double>::infinity();
    }
  }
  Numbers lse;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    lse.push_back(c.lse(row));
  }
  const auto out = call<Numbers>("backward", c.logits, lse, targets, smoothing);
  for (const double x : out) {
    require(!std::isnan(x),
            c.tokens() == 0
                ? "no token counts, and 0 / 0 is NaN: all gradients are 0"
                : "it is NaN: e^x is infinite for a large logit. The LSE is subtracted first");
  }
  const Numbers right = differences(c);
  for (std::size_t i = 0; i < right.size() && out.size() == right.size(); ++i) {
    require(out[i] == 0 || c.targets[i / classes] >= 0, "rows that do not count have a gradient");
  }
  check({"d_logits", out, static_cast<std::int64_t>(classes)}, right, 2e-6, mistakes(c, right),
        fmt::format("{} rows, {} of which count, {} classes, smoothing {}{}", targets.size(),
                    c.tokens(), classes, smoothing, masks ? ", with masks" : ""));
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 0, 3}, 4, 1, 0, false);
}

FA_STAGE(odd) {
  grade({2, -1, 0, -1, 4}, 5, 2, 0, false);
  grade({2, 1, 6}, 7, 1, 0.1, false);
  grade({2, 1, -1, 5}, 7, 2, 0.2, true);
  grade({0}, 1, 1, 0.1, false);
  grade({1, 2}, 3, 1e4, 0.1, false);
  grade({-1, -1}, 3, 1, 0.1, false);
}
#endif
/* Other answers, as changes of the solution
# not_a_mean: no division
@ easy: the loss is a mean
- d_logits[row * classes + c] = (std::exp(x - lse[row]) - wanted) / tokens;
+       d_logits[row * classes + c] = std::exp(x - lse[row]) - wanted;

# padding_counts: rows without a target
@ odd: rows that do not count
- if (targets[row] < 0) continue;
+

# overflow: e^x / e^LSE
@ odd: e^x is infinite
- d_logits[row * classes + c] = (std::exp(x - lse[row]) - wanted) / tokens;
+       d_logits[row * classes + c] = (std::exp(x) / std::exp(lse[row]) - wanted) / tokens;

# algorithms: std::count_if and std::transform
@ right
- #include <cmath>
+ #include <algorithm>
+ #include <cmath>
- for (const int target : targets) tokens += target >= 0 ? 1 : 0;
- for (std::size_t row = 0; row < rows; ++row) {
- if (targets[row] < 0) continue;
- double allowed = 0;
- for (std::size_t c = 0; c < classes; ++c) {
- allowed += std::isinf(logits[row * classes + c]) ? 0 : 1;
- }
- for (std::size_t c = 0; c < classes; ++c) {
- const double x = logits[row * classes + c];
- if (std::isinf(x)) continue;
- const double hit = static_cast<int>(c) == targets[row] ? 1 : 0;
- const double wanted = (1 - smoothing) * hit + smoothing / allowed;
- d_logits[row * classes + c] = (std::exp(x - lse[row]) - wanted) / tokens;
- }
- }
+  tokens = static_cast<double>(std::count_if(targets.begin(), targets.end(), [](int t) { return t >= 0; }));
+  auto to = d_logits.begin();
+  for (auto row = rows - rows; row < rows; ++row, to += static_cast<std::ptrdiff_t>(classes)) {
+    if (targets[row] < 0) continue;
+    const auto* const x = logits.data() + row * classes;
+    const auto finite = [](double z) { return std::isfinite(z); };
+    const double weight = 1 / tokens, floor = smoothing * weight / static_cast<double>(std::count_if(x, x + classes, finite));
+    std::transform(x, x + classes, to, [&](double z) { return finite(z) ? std::exp(z - lse[row]) * weight - floor : 0; });
+    *(to + targets[row]) -= (1 - smoothing) * weight;
+  }
*/
