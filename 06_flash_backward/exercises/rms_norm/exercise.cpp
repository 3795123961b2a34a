#if defined(FA_STUDENT)
#include <cmath>
#include <vector>

namespace student {

/// Gradients of the inputs.
struct Gradients {
  std::vector<double> d_x;     ///< like x
  std::vector<double> d_gain;  ///< like gain
};

/// The backward pass of y = gain x / sqrt(mean(x^2) + epsilon), row by row.
/// @param x    [rows, columns], one row after the other
/// @param gain [columns]
/// @param d_y  gradient of the loss with respect to y, like x
inline Gradients rms_norm_backward(const std::vector<double>& x, const std::vector<double>& gain,
                                   const std::vector<double>& d_y, double epsilon) {
  const std::size_t columns = gain.size(), rows = x.size() / columns;
  Gradients g{std::vector<double>(x.size()), std::vector<double>(columns)};
#ifdef FA_SOLUTION
  for (std::size_t row = 0; row < rows; ++row) {
    const double* const from = x.data() + row * columns;
    const double* const d = d_y.data() + row * columns;
    double squares = 0, dot = 0;
    for (std::size_t c = 0; c < columns; ++c) squares += from[c] * from[c];
    const double count = static_cast<double>(columns);
    const double r = std::sqrt(squares / count + epsilon);
    for (std::size_t c = 0; c < columns; ++c) {
      dot += gain[c] * d[c] * from[c] / r;
      g.d_gain[c] += d[c] * from[c] / r;
    }
    const double mean = dot / count;
    for (std::size_t c = 0; c < columns; ++c) {
      g.d_x[row * columns + c] = (gain[c] * d[c] - from[c] / r * mean) / r;
    }
  }
#else
  // TODO
  (void)rows, (void)d_y, (void)epsilon;
#endif
  return g;
}

}  // namespace student
#elif defined(FA_ENTRIES)
FA_ENTRY(backward, [](const std::vector<double>& x, const std::vector<double>& gain,
                      const std::vector<double>& d_y, double epsilon) {
  const student::Gradients g = student::rms_norm_backward(x, gain, d_y, epsilon);
  return std::pair(g.d_x, g.d_gain);
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

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

std::vector<Mistake> mistakes_of(const Case& c) {
  Case no_epsilon = c;
  no_epsilon.epsilon = 0;
  Numbers constant(c.x.size());
  for (std::size_t i = 0; i < c.x.size(); ++i) {
    constant[i] = c.gain[i % c.columns()] * c.d_y[i] / c.root(i / c.columns());
  }
  return {{"the gradient of x is 0", Numbers(c.x.size(), 0.0)},
          {"r is taken to be a constant: it depends on every element of the row", constant},
          {"epsilon is left out of r", differences(no_epsilon, &Case::x)}};
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
  std::vector<Mistake> mistakes = mistakes_of(c);
  const std::string where = fmt::format("{} rows, {} columns, |x| about {}", rows, columns, size);
  require(d_x.size() == right.size(), "d_x has another size than x");
  const auto scaled = [&](Numbers& list) {
    for (double& number : list) number *= size;
  };
  scaled(d_x);
  scaled(right);
  for (Mistake& mistake : mistakes) scaled(mistake.result);
  check({"d_x", d_x, columns}, right, 1e-6, mistakes, where + ", d_x times it");
  Numbers last(c.gain.size());
  for (std::size_t i = 0; i < c.x.size(); ++i) {
    last[i % c.columns()] = c.d_y[i] * c.x[i] / c.root(i / c.columns());
  }
  check({"d_gain", d_gain, columns}, differences(c, &Case::gain), 1e-6,
        {{"d_gain is that of the last row; it is a sum over all rows", last}}, where);
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
/* Other answers, as changes of the solution
# constant: r does not depend on x
@ easy: r is taken to be a constant
- g.d_x[row * columns + c] = (gain[c] * d[c] - from[c] / r * mean) / r;
+       g.d_x[row * columns + c] = gain[c] * d[c] / r; (void)mean;

# d_gain_assigned: the last row
@ odd: a sum over all rows
- g.d_gain[c] += d[c] * from[c] / r;
+       g.d_gain[c] = d[c] * from[c] / r;

# no_epsilon: left out
@ odd: epsilon is left out
- const double r = std::sqrt(squares / count + epsilon);
+     const double r = std::sqrt(squares / count); (void)epsilon;

# quotient_rule: the quotient rule as it reads
@ right
- g.d_x[row * columns + c] = (gain[c] * d[c] - from[c] / r * mean) / r;
+      double s = 0; for (std::size_t e = 0; e < columns; e++) s = s + gain[e] * d[e] * from[e];
+      g.d_x[row * columns + c] = gain[c] * d[c] * std::pow(r, -1) - from[c] * s / count * std::pow(r, -3); (void)mean;
*/
