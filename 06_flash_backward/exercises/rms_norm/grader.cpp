#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(backward, [](const std::vector<double>& x, const std::vector<double>& gain,
                      const std::vector<double>& d_y, double epsilon) {
  const student::Gradients g = student::rms_norm_backward(x, gain, d_y, epsilon);
  return std::pair(g.d_x, g.d_gain);
});
#else  // the grader
#include "common/classroom/grader.hpp"

#include <numeric>

using namespace fa::classroom;

namespace {

using Numbers = std::vector<double>;

struct Case {
  Numbers x, gain, d_y;
  double epsilon;

  std::size_t columns() const { return gain.size(); }
  double root(std::size_t row) const {
    double sum = 0;
    for (std::size_t c = 0; c < columns(); ++c) {
      sum += x[row * columns() + c] * x[row * columns() + c];
    }
    return std::sqrt(sum / static_cast<double>(columns()) + epsilon);
  }
  double loss() const {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += d_y[i] * gain[i % columns()] * x[i] / root(i / columns());
    }
    return sum;
  }
};

// Central differences of the loss, at the size of the numbers.
Numbers differences(Case c, Numbers Case::*part) {
  Numbers result;
  for (double& at : c.*part) {
    const double was = at, h = 1e-5 * std::max(std::abs(was), 1e-3);
    at = was + h;
    const double up = c.loss();
    at = was - h;
    result.push_back((up - c.loss()) / (2 * h));
    at = was;
  }
  return result;
}

// A rule for d_x[i] from g = gain d_y, n = x / r, the sum of g n over the row, and r.
using Rule = std::function<double(double g, double n, double dot, double r, std::size_t i)>;
// r of a row.
using Root = std::function<double(const double* row)>;

Numbers by(const Case& c, const Rule& rule, const Root& root = nullptr) {
  Numbers result;
  for (std::size_t first = 0; first < c.x.size(); first += c.columns()) {
    const double r = root ? root(&c.x[first]) : c.root(first / c.columns());
    double dot = 0;
    for (std::size_t e = 0; e < c.columns(); ++e) {
      dot += c.gain[e] * c.d_y[first + e] * c.x[first + e] / r;
    }
    for (std::size_t e = 0; e < c.columns(); ++e) {
      const std::size_t i = first + e;
      result.push_back(rule(c.gain[e] * c.d_y[i], c.x[i] / r, dot, r, i));
    }
  }
  return result;
}

std::vector<Mistake> mistakes_of_rules(const Case& c) {
  const auto count = static_cast<double>(c.columns());
  const auto rule = [&](const Rule& r) { return by(c, r); };
  const double rows = static_cast<double>(c.x.size()) / count;
  double all = 0;  // the sums of g n of all rows
  rule([&](double g, double n, double, double, std::size_t) {
    all += g * n;
    return 0.0;
  });
  // The sum of d_y n over the row of an element.
  const auto without_gain = [&](std::size_t i, double r) {
    const std::size_t first = i / c.columns() * c.columns();
    double dot = 0;
    for (std::size_t e = first; e < first + c.columns(); ++e) dot += c.d_y[e] * c.x[e] / r;
    return dot;
  };
  std::vector<Mistake> mistakes = {
      {"the gradient of x is 0", Numbers(c.x.size(), 0.0)},
      {"r is taken to be a constant: it depends on every element of the row",
       rule([](double g, double, double, double r, std::size_t) { return g / r; })},
      {"the sum of g n over the row must be a mean: r has a mean of squares in it",
       rule([](double g, double n, double dot, double r, std::size_t) {
         return (g - n * dot) / r;
       })},
      {"the mean is subtracted as it is; it must be multiplied by n",
       rule([&](double g, double, double dot, double r, std::size_t) {
         return (g - dot / count) / r;
       })},
      {"the division by r is missing", rule([&](double g, double n, double dot, double,
                                                std::size_t) { return g - n * dot / count; })},
      {"the sign of what goes through r is wrong: a larger r makes y smaller",
       rule([&](double g, double n, double dot, double r, std::size_t) {
         return (g + n * dot / count) / r;
       })},
      {"the gain is missing from the gradient of n",
       rule([&](double, double n, double, double r, std::size_t i) {
         return (c.d_y[i] - n * without_gain(i, r) / count) / r;
       })},
      {"the gain is missing from the mean over the row: it is one of g n, with g = gain d_y",
       rule([&](double g, double n, double, double r, std::size_t i) {
         return (g - n * without_gain(i, r) / count) / r;
       })},
      {"x is not divided by r where it is multiplied by the mean",
       rule([&](double g, double n, double dot, double r, std::size_t) {
         return (g - n * r * dot / count) / r;
       })},
      {"the gain is added to the gradient of y; it multiplies",
       rule([&](double, double n, double dot, double r, std::size_t i) {
         return (c.gain[i % c.columns()] + c.d_y[i] - n * dot / count) / r;
       })}};
  if (rows > 1) {
    mistakes.push_back({"the mean of one row is used for another",
                        rule([&](double g, double n, double, double r, std::size_t) {
                          return (g - n * all / count / rows) / r;
                        })});
  }
  return mistakes;
}

std::vector<Mistake> mistakes_of_roots(const Case& c) {
  const auto count = static_cast<double>(c.columns());
  const auto with_r = [&](const Root& root) {
    return by(
        c,
        [&](double g, double n, double dot, double r, std::size_t) {
          return (g - n * dot / count) / r;
        },
        root);
  };
  const auto squares = [&](const double* row, std::size_t first = 0) {
    return std::inner_product(row + first, row + c.columns(), row + first, 0.0);
  };
  return {{"r is the root of a sum: here it is the sum of the roots of the mean and of epsilon",
           with_r([&](const double* row) {
             return std::sqrt(squares(row) / count) + std::sqrt(c.epsilon);
           })},
          {"epsilon belongs under the root: here it is added to the root",
           with_r([&](const double* row) { return std::sqrt(squares(row) / count) + c.epsilon; })},
          {"epsilon is left out of r",
           with_r([&](const double* row) { return std::sqrt(squares(row) / count); })},
          {"the sum of squares begins with 1, not 0", with_r([&](const double* row) {
             return std::sqrt((1 + squares(row)) / count + c.epsilon);
           })},
          {"the first square is left out of r", with_r([&](const double* row) {
             return std::sqrt(squares(row, 1) / count + c.epsilon);
           })},
          {"r takes the mean of the squares: their sum is divided by the number of columns",
           with_r([&](const double* row) { return std::sqrt(squares(row) * count + c.epsilon); })},
          {"r takes twice x, where it must take its square", with_r([&](const double* row) {
             return std::sqrt(2 * std::accumulate(row, row + c.columns(), 0.0) / count + c.epsilon);
           })}};
}

void grade(int rows, int columns, double size, double epsilon) {
  const auto numbers = [&](int count, std::uint64_t seed, double factor) {
    Numbers result;
    for (int i = 0; i < count; ++i) {
      result.push_back(factor * fa::random_normal(seed, static_cast<std::uint64_t>(i)));
    }
    return result;
  };
  const Case c{numbers(rows * columns, 1, size), numbers(columns, 2, 1),
               numbers(rows * columns, 3, 1), epsilon};
  auto [d_x, d_gain] = call<std::pair<Numbers, Numbers>>("backward", c.x, c.gain, c.d_y, epsilon);
  Numbers right = differences(c, &Case::x);
  std::vector<Mistake> mistakes = mistakes_of_rules(c);
  for (Mistake& mistake : mistakes_of_roots(c)) mistakes.push_back(std::move(mistake));
  const std::string where = fmt::format("{} rows, {} columns, |x| about {}", rows, columns, size);
  require(d_x.size() == right.size(), "d_x has another size than x");
  const auto scaled = [&](Numbers& list) {
    for (double& number : list) number *= size;
  };
  scaled(d_x);
  scaled(right);
  for (Mistake& mistake : mistakes) scaled(mistake.result);
  check({"d_x", d_x, columns}, right, 1e-6, mistakes, where + ", d_x times it");
  Numbers last(c.gain.size()), undivided(c.gain.size()), added(c.gain.size()),
      with_gain(c.gain.size()), of_d_y(c.gain.size());
  for (std::size_t i = 0; i < c.x.size(); ++i) {
    last[i % c.columns()] = c.d_y[i] * c.x[i] / c.root(i / c.columns());
    with_gain[i % c.columns()] +=
        c.gain[i % c.columns()] * c.d_y[i] * c.x[i] / c.root(i / c.columns());
    of_d_y[i % c.columns()] += c.d_y[i];
    undivided[i % c.columns()] += c.d_y[i] * c.x[i];
    added[i % c.columns()] += c.d_y[i] + c.x[i] / c.root(i / c.columns());
  }
  check({"d_gain", d_gain, columns}, differences(c, &Case::gain), 1e-6,
        {{"d_gain is 0", Numbers(c.gain.size(), 0.0)},
         {"d_gain is that of the last row; it is a sum over all rows", last},
         {"d_gain is the product of d_y and x / r, not their sum", added},
         {"the gain is in its own gradient: y is gain n, so d_gain is the sum of d_y n", with_gain},
         {"d_gain is the sum of d_y; each d_y is multiplied by x / r", of_d_y},
         {"d_gain takes x, where it must take x / r", undivided}},
        where);
}

}  // namespace

FA_STAGE(easy) {
  grade(1, 6, 1, 1e-12);
}

FA_STAGE(odd) {
  grade(5, 7, 1, 1e-12);
  grade(2, 4, 0.01, 0.01);
  grade(3, 1, 1, 0.25);
  grade(2, 33, 100, 1e-6);
  grade(2, 5, 1e25, 1e-6);  // squares that a float does not hold
}
#endif
