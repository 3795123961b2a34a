#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(backward, [](const std::vector<double>& x, const std::vector<double>& gain,
                      const std::vector<double>& d_y, double epsilon) {
  const student::Gradients g = student::rms_norm_backward(x, gain, d_y, epsilon);
  return std::pair(g.d_x, g.d_gain);
});
#else  // the grader
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
