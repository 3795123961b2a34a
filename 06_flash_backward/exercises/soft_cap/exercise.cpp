#if defined(FA_STUDENT)
#include <cmath>

namespace student {

/// One element of a backward pass whose scores are capped.
struct Element {
  double product;  ///< q . k, neither scaled nor capped
  double scale;    ///< of the product
  double cap;      ///< scores stay between -cap and cap; 0: no cap
  bool seen;       ///< false where the mask hides the key
  double lse;      ///< of the row's capped scores; -infinity: it sees no key
  double d_p;      ///< gradient of the probability
  double delta;    ///< of the row
};

/// What it contributes with.
struct Result {
  double p;          ///< probability
  double d_product;  ///< gradient of the loss with respect to `product`
};

/// The probability, recomputed, and the gradient of q . k: dQ = d_product K, with nothing left to
/// multiply.
inline Result backward(const Element& x) {
  if (!x.seen) return {0, 0};
#ifdef FA_SOLUTION
  const double scaled = x.scale * x.product;
  const double capped = x.cap > 0 ? x.cap * std::tanh(scaled / x.cap) : scaled;
  const double p = std::exp(capped - x.lse);
  const double d_capped = p * (x.d_p - x.delta);
  const double t = x.cap > 0 ? capped / x.cap : 0;  // its tanh
  const double d_scaled = d_capped * (1 - t * t);
  return {p, x.scale * d_scaled};
#else
  // TODO: this is the lesson's. Its scores have no cap.
  const double scaled = x.scale * x.product;
  const double p = std::exp(scaled - x.lse);
  return {p, x.scale * p * (x.d_p - x.delta)};
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
FA_ENTRY(backward, [](double product, double scale, double cap, bool seen, double lse, double d_p,
                      double delta) {
  const student::Result result = student::backward({product, scale, cap, seen, lse, d_p, delta});
  return std::pair(result.p, result.d_product);
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

struct Row {
  std::vector<double> products, d_p;
  std::vector<bool> seen;
  double scale, cap;

  double score(double product) const {
    const double s = scale * product;
    return cap > 0 ? cap * std::tanh(s / cap) : s;
  }
  double lse() const {
    double m = kMinusInfinity, l = 0;
    for (std::size_t j = 0; j < products.size(); ++j) {
      if (seen[j]) m = std::max(m, score(products[j]));
    }
    if (m == kMinusInfinity) return m;
    for (std::size_t j = 0; j < products.size(); ++j) {
      if (seen[j]) l += std::exp(score(products[j]) - m);
    }
    return m + std::log(l);
  }
  // The weights that the definition gives.
  std::vector<double> weights() const {
    const double of_row = lse();
    std::vector<double> result;
    for (std::size_t j = 0; j < products.size(); ++j) {
      result.push_back(seen[j] ? std::exp(score(products[j]) - of_row) : 0);
    }
    return result;
  }
  double loss() const {
    const std::vector<double> p = weights();
    double sum = 0;
    for (std::size_t j = 0; j < p.size(); ++j) sum += d_p[j] * p[j];
    return sum;
  }
};

void grade(double spread, double scale, double cap, int keys, int visible) {
  Row row{{}, {}, {}, scale, cap};
  for (int j = 0; j < keys; ++j) {
    const auto place = static_cast<std::uint64_t>(j);
    row.products.push_back(spread * fa::random_normal(3, place));
    row.d_p.push_back(fa::random_normal(4, place));
    row.seen.push_back(j < visible);
  }
  const double lse = row.lse(), delta = row.loss();  // the sum of P o dP
  std::vector<double> p, d_product, right;
  for (int j = 0; j < keys; ++j) {
    const auto [weight, gradient] = call<std::pair<double, double>>(
        "backward", row.products[j], scale, cap, bool{row.seen[j]}, lse, row.d_p[j], delta);
    p.push_back(weight);
    d_product.push_back(gradient);
    Row moved = row;
    const double h = 1e-5;
    moved.products[j] = row.products[j] + h;
    const double up = moved.loss();
    moved.products[j] = row.products[j] - h;
    right.push_back((up - moved.loss()) / (2 * h));
  }
  const std::string where =
      fmt::format("{} keys, {} of them seen, scale {}, cap {}, products of size {}; 0 is no cap",
                  keys, visible, scale, cap, spread);
  const std::vector<double> weights = row.weights();
  std::vector<double> hidden_too, uncapped, no_slope, no_scale, capped_twice, delta_alone;
  for (int j = 0; j < keys; ++j) {
    hidden_too.push_back(std::exp(row.score(row.products[j]) - lse));
    uncapped.push_back(row.seen[j] ? std::exp(scale * row.products[j] - lse) : 0);
    no_slope.push_back(scale * weights[j] * (row.d_p[j] - delta));
    no_scale.push_back(right[j] / scale);
    const double x = cap > 0 ? row.score(row.products[j]) / cap : 0,
                 slope = 1 - std::pow(std::tanh(x), 2);
    capped_twice.push_back(slope * no_slope.back());
    delta_alone.push_back(scale * (1 - x * x) * (weights[j] * row.d_p[j] - delta));
  }
  check({"p", p, keys}, weights, 1e-9,
        {{"masked keys have a probability above 0: the mask was forgotten", hidden_too},
         {"the cap is not there: the LSE belongs to capped scores", uncapped}},
        where);
  check({"d_product", d_product, keys}, right, 1e-7,
        {{"the derivative of the cap is left out", no_slope},
         {"the slope is 1 - tanh^2, and the capped score is cap tanh already", capped_twice},
         {"p multiplies delta, too: dS is p (dP - delta)", delta_alone},
         {"the scale is missing: the gradient is asked for q . k", no_scale}},
        where);
}

}  // namespace

FA_STAGE(easy) {
  grade(6, 0.5, 3, 6, 6);
}

FA_STAGE(odd) {
  grade(4, 0.25, 1.5, 9, 5);
  grade(3, 0.5, 0.75, 6, 4);
  grade(3, 0.5, 2, 4, 0);
  grade(3, 0.5, 2, 1, 1);
  grade(1000, 0.5, 5, 7, 6);
  grade(3, 0.5, 0, 6, 4);
  // Powers of these numbers are infinite: of a score / cap, and of a score.
  grade(1e5, 0.5, 5, 7, 6);
  grade(2000, 0.5, 0, 5, 5);
}
#endif
/* Other answers, as changes of the solution
# no_derivative: the cap forward only
@ easy: the derivative of the cap is left out
- const double d_scaled = d_capped * (1 - t * t);
+   const double d_scaled = d_capped; (void)t;

# no_scale: the gradient of the scaled score
@ easy: the scale is missing
- return {p, x.scale * d_scaled};
+   return {p, d_scaled};

# mask_forgotten: masked keys are capped, too
@ odd: masked keys have a probability above 0
- if (!x.seen) return {0, 0};
+

# quotient: e^score / e^LSE
@ odd: NaN
- const double p = std::exp(capped - x.lse);
+   const double p = std::exp(capped) / std::exp(x.lse);

# cosh_right: 1 / cosh^2
@ right
- const double d_scaled = d_capped * (1 - t * t);
+  const double c = x.cap > 0 ? std::cosh(scaled / x.cap) : 1; (void)t;
+  const double d_scaled = d_capped / (c * c);
*/
