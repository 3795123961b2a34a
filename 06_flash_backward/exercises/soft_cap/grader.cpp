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

// A result by scaled and capped score, weight and gradient.
using Formula = std::function<double(double s, double c, double p, double d)>;

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
  std::vector<double> by(const Formula& formula) const {
    const std::vector<double> p = weights();
    std::vector<double> result;
    for (std::size_t j = 0; j < p.size(); ++j) {
      const double x = products[j];
      result.push_back(seen[j] ? formula(scale * x, score(x), p[j], d_p[j]) : 0);
    }
    return result;
  }
};

const char* const kNoCap =
    "a cap of 0 means that there is none: nothing is multiplied by it, and nothing divided";

double not_a_number(double, double, double, double) {
  return std::numeric_limits<double>::quiet_NaN();
}

std::vector<Mistake> wrong_weights(const Row& row) {
  const double scale = row.scale, cap = row.cap, lse = row.lse();
  std::vector<double> hidden_too;
  for (const double product : row.products)
    hidden_too.push_back(std::exp(row.score(product) - lse));
  std::vector<Mistake> result{
      {"masked keys have a probability above 0: the mask was forgotten", hidden_too},
      {"the cap is not there: the LSE belongs to capped scores",
       row.by([&](double s, double, double, double) { return std::exp(s - lse); })},
      {"tanh was taken of the score itself: it is scaled / cap that goes into it",
       row.by(
           [&](double s, double, double, double) { return std::exp(cap * std::tanh(s) - lse); })},
      {"the product was capped before it was scaled", row.by([&](double s, double, double, double) {
         return std::exp(scale * cap * std::tanh(s / scale / cap) - lse);
       })},
      {"tanh is between -1 and 1: it is multiplied by the cap",
       row.by(
           [&](double s, double, double, double) { return std::exp(std::tanh(s / cap) - lse); })},
      {"a hard cap, where a soft one is asked for", row.by([&](double s, double, double, double) {
         return std::exp(std::clamp(s, -cap, cap) - lse);
       })}};
  if (cap == 0) {
    result = {{kNoCap, row.by([&](double, double, double, double) { return std::exp(-lse); })},
              {kNoCap, row.by(not_a_number)}};
  }
  return result;
}

std::vector<Mistake> wrong_products(const Row& row) {
  const double scale = row.scale, cap = row.cap, delta = row.loss();
  std::vector<Mistake> result{
      {"the derivative of the cap is left out",
       row.by([&](double, double, double w, double d) { return scale * w * (d - delta); })},
      {"the factor is 1 - tanh^2, and tanh is capped / cap, not capped",
       row.by([&](double, double c, double w, double d) {
         return scale * w * (d - delta) * (1 - c * c);
       })},
      {"the square is missing: the derivative of tanh is 1 - tanh^2, not 1 - tanh",
       row.by([&](double, double c, double w, double d) {
         return scale * w * (d - delta) * (1 - c / cap);
       })},
      {"the cap in front and the cap inside of tanh cancel; here only one of them was taken",
       row.by([&](double, double c, double w, double d) {
         return scale * w * (d - delta) * (1 - c / cap * (c / cap)) * cap;
       })},
      {"the derivative of tanh x is 1 - tanh(x)^2, not 1 - x^2",
       row.by([&](double s, double, double w, double d) {
         return scale * w * (d - delta) * (1 - s / cap * (s / cap));
       })},
      {"tanh was applied to a score that is capped already",
       row.by([&](double, double c, double w, double d) {
         const double t = std::tanh(c / cap);
         return scale * w * (d - delta) * (1 - t * t);
       })},
      {"the scale is missing: the gradient is asked for q . k",
       row.by([&](double, double c, double w, double d) {
         return w * (d - delta) * (1 - c / cap * (c / cap));
       })},
      {"the derivative of the cap belongs to delta, too: it multiplies the whole bracket",
       row.by([&](double, double c, double w, double d) {
         return scale * w * (d * (1 - c / cap * (c / cap)) - delta);
       })}};
  if (cap == 0) {
    result = {{kNoCap, row.by(not_a_number)},
              {kNoCap, row.by([&](double, double c, double w, double d) {
                 return scale * w * (d - delta) * (1 - c / cap * (c / cap));
               })}};
  }
  return result;
}

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
      fmt::format("{} keys, {} of them seen, scale {}, cap {}, products of size {}", keys, visible,
                  scale, cap, spread);
  check({"p", p, keys}, row.weights(), 1e-9, wrong_weights(row), where);
  check({"d_product", d_product, keys}, right, 1e-7, wrong_products(row), where);
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
