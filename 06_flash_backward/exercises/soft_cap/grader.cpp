#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(backward, [](double product, double scale, double cap, bool seen, double lse, double d_p,
                      double delta) {
  const student::Result result = student::backward({product, scale, cap, seen, lse, d_p, delta});
  return std::pair(result.p, result.d_product);
});
#else  // the grader
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

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
  std::vector<double> hidden_too, uncapped, no_slope, no_scale;
  for (int j = 0; j < keys; ++j) {
    hidden_too.push_back(std::exp(row.score(row.products[j]) - lse));
    uncapped.push_back(row.seen[j] ? std::exp(scale * row.products[j] - lse) : 0);
    no_slope.push_back(scale * weights[j] * (row.d_p[j] - delta));
    no_scale.push_back(right[j] / scale);
  }
  check({"p", p, keys}, weights, 1e-9,
        {{"masked keys have a probability above 0: the mask was forgotten", hidden_too},
         {"the cap is not there: the LSE belongs to capped scores", uncapped}},
        where);
  check({"d_product", d_product, keys}, right, 1e-7,
        {{"the derivative of the cap is left out", no_slope},
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
