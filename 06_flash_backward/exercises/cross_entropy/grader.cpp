#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(backward, [](const std::vector<double>& logits, const std::vector<double>& lse,
                      const std::vector<int>& targets, double smoothing) {
  return student::cross_entropy_backward(logits, lse, targets, smoothing);
});
#else  // the grader
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

// Each gradient by a rule.
template <class Rule>
Numbers by(const Case& c, Rule rule) {
  Numbers result;
  for (std::size_t row = 0; row < c.targets.size(); ++row) {
    const double of_row = c.lse(row);
    for (std::size_t k = 0; k < c.classes(); ++k) {
      const double p = std::exp(c.at(row, k) - of_row);
      const double hit = static_cast<int>(k) == c.targets[row];
      result.push_back(rule(row, k, p, hit));
    }
  }
  return result;
}

Numbers differences(const Case& c) {
  return by(c, [&](std::size_t row, std::size_t k, double, double) {
    if (!c.allowed(row, k) || c.targets[row] < 0) return 0.0;
    Case moved = c;
    double& x = moved.logits[row * c.classes() + k];
    const double was = x, h = 1e-4;
    x = was + h;
    const double up = moved.loss(row);
    x = was - h;
    return (up - moved.loss(row)) / (2 * h);
  });
}

std::vector<Mistake> mistakes(const Case& c) {
  const double tokens = c.tokens(), e = c.smoothing;
  const auto rule = [&](auto of) {
    return by(c, [&](std::size_t row, std::size_t k, double p, double hit) {
      if (c.targets[row] < 0 || !c.allowed(row, k)) return 0.0;
      return of(p, hit, c.count(row));
    });
  };
  return {{"the gradient is 0", Numbers(c.logits.size(), 0.0)},
          {"the loss is a mean: the gradients are not divided by the number of tokens",
           rule([&](double p, double hit, double n) { return p - (1 - e) * hit - e / n; })},
          {"this is the gradient without smoothing",
           rule([&](double p, double hit, double) { return (p - hit) / tokens; })},
          {"rows that do not count have a gradient",
           by(c, [&](std::size_t row, std::size_t k, double p, double hit) {
             if (!c.allowed(row, k)) return 0.0;
             return (p - (1 - e) * hit - e / c.count(row)) / tokens;
           })}};
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
  check({"d_logits", out, static_cast<std::int64_t>(classes)}, differences(c), 2e-6, mistakes(c),
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
