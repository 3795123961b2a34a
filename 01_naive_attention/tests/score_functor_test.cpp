// Masks and scores of one's own in lesson 01, against loops over the definition and central
// differences.
#include "01_naive_attention/score_functor.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <doctest/doctest.h>

#include "01_naive_attention/gradient_check.hpp"
#include "01_naive_attention/tests/problem.hpp"
#include "common/check/acceptance.hpp"

using namespace fa;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Problem = testing::Problem<double>;
using Index = std::int64_t;

double soft_cap(double s, Index, Index, Index, Index) {
  return 1.5 * std::tanh(s / 1.5);
}
double soft_cap_derivative(double s, Index, Index, Index, Index) {
  return 1 / std::pow(std::cosh(s / 1.5), 2);
}

// The kinds of functor, together and alone: they depend on every index.
std::vector<ScoreFunctor> functors() {
  std::vector<ScoreFunctor> all(5);
  all[1].score = soft_cap;
  all[1].derivative = soft_cap_derivative;
  // Queries 0, 3, 6 ... of head 0 see no key.
  all[2].visible = [](Index b, Index h, Index i, Index j) {
    return (h > 0 || i % 3 != 0) && (i + 2 * j + b) % 4 != 0;
  };
  all[3].sink = [](Index h) { return 0.5 * static_cast<double>(h) - 0.3; };
  all[4].visible = all[2].visible;
  // A masked score is not asked for, nor is its derivative.
  all[4].score = [sees = all[2].visible](double s, Index b, Index h, Index i, Index j) {
    return sees(b, h, i, j) ? 0.1 * s * s + static_cast<double>(b - h + i - j) * 0.2 : NAN;
  };
  all[4].derivative = [sees = all[2].visible](double s, Index b, Index h, Index i, Index j) {
    return sees(b, h, i, j) ? 0.2 * s : NAN;
  };
  all[4].sink = [](Index h) { return h == 1 ? -kInfinity : 0.7; };
  return all;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  all.push_back(Problem({2, 2, 5, 3}, {2, 2, 5, 3}));
  all.push_back(Problem({1, 4, 7, 3}, {1, 2, 9, 3}, false, 0, 0.7));
  all.push_back(Problem({2, 3, 9, 2}, {2, 1, 4, 2}, false, 0, {}, 5));
  return all;
}

// One row by the definition, with none of lesson 01's code: O and LSE.
void check_row(const Problem& p, const ScoreFunctor& f, const naive::Forward<double>& out,
               const Shape<3>& at) {
  const auto [b, h, i] = at;
  const Index kv = h * p.k.size(1) / p.q.size(1);
  const double scale =
      p.options.scale ? *p.options.scale : 1 / std::sqrt(static_cast<double>(p.q.size(3)));
  double sum = f.sink ? std::exp(f.sink(h)) : 0;
  std::vector<double> o(static_cast<std::size_t>(p.v.size(3)));
  for (Index j = 0; j < p.k.size(2); ++j) {
    if (f.visible && !f.visible(b, h, i, j)) continue;
    double s = 0;
    for (Index d = 0; d < p.q.size(3); ++d) s += scale * p.q(b, h, i, d) * p.k(b, kv, j, d);
    const double e = std::exp(f.score ? f.score(s, b, h, i, j) : s);
    sum += e;
    for (std::size_t d = 0; d < o.size(); ++d) o[d] += e * p.v(b, kv, j, d);
  }
  if (sum == 0) {
    CHECK(out.lse(b, h, i) == -kInfinity);
  } else {
    CHECK(out.lse(b, h, i) == doctest::Approx(std::log(sum)).epsilon(1e-12));
  }
  for (std::size_t d = 0; d < o.size(); ++d) {
    const double expected = sum == 0 ? 0 : o[d] / sum;
    CHECK(std::abs(out.o(b, h, i, d) - expected) < 1e-12);
  }
}

}  // namespace

TEST_CASE("forward with a functor agrees with the definition written as loops") {
  for (const Problem& p : problems()) {
    for (const ScoreFunctor& f : functors()) {
      const auto out = naive::forward<double>(p.q, p.k, p.v, f, p.options.scale);
      for_each_index(out.lse.shape(), [&](const Shape<3>& at) { check_row(p, f, out, at); });
    }
  }
}

TEST_CASE("every gradient with a functor agrees with central differences") {
  for (Problem& p : problems()) {
    for (ScoreFunctor f : functors()) {
      // A bias for each score and a sink for each head, beside what the functor does.
      Tensor<double, 4> bias({p.q.size(0), p.q.size(1), p.q.size(2), p.k.size(2)});
      Tensor<double, 1> sinks({p.q.size(1)});
      for (Index h = 0; h < sinks.count(); ++h) sinks(h) = f.sink ? f.sink(h) : -kInfinity;
      ScoreFunctor moved = f;
      moved.score = [&](double s, Index b, Index h, Index i, Index j) {
        return (f.score ? f.score(s, b, h, i, j) : s) + bias(b, h, i, j);
      };
      if (f.sink) moved.sink = [&](Index h) { return sinks(h); };
      if (!f.derivative) moved.derivative = [](double, Index, Index, Index, Index) { return 1.0; };
      const auto loss = [&] {
        const auto o = naive::forward<double>(p.q, p.k, p.v, moved, p.options.scale).o;
        return std::inner_product(o.data(), o.data() + o.count(), p.d_o.data(), 0.0);
      };
      const auto g = naive::backward<double>(p.q, p.k, p.v, p.d_o, moved, p.options.scale);
      const auto check = [&](const auto& gradient, auto& x) {
        const auto numerical = naive::numerical_gradient(loss, x.view());
        CHECK(naive::relative_difference(gradient.view(), std::as_const(numerical).view()) <
              naive::kDifferenceTolerance);
      };
      check(g.d_q, p.q);
      check(g.d_k, p.k);
      check(g.d_v, p.v);
      check(g.d_scores, bias);
      for (Index h = 0; h < sinks.count(); ++h) {
        if (sinks(h) == -kInfinity) {
          CHECK(g.d_sinks(h) == 0);
          continue;
        }
        const double step = naive::kDifferenceStep, before = sinks(h);
        sinks(h) = before + step;
        const double above = loss();
        sinks(h) = before - step;
        const double below = loss();
        sinks(h) = before;
        CHECK(g.d_sinks(h) ==
              doctest::Approx((above - below) / (2 * step)).epsilon(naive::kDifferenceTolerance));
      }
    }
  }
}

TEST_CASE("16-bit results with a functor round what they store") {
  const Problem p({1, 2, 33, 16}, {1, 1, 40, 16});
  for (const ScoreFunctor& f : functors()) {
    const auto ref = naive::forward<double>(p.q, p.k, p.v, f);
    const auto q = converted<half>(p.q), k = converted<half>(p.k), v = converted<half>(p.v);
    const auto out = naive::forward<half>(q.view(), k.view(), v.view(), f);
    const Distance d = distance(out.o.view(), View<const double, 4>(ref.o));
    CHECK(d.invalid == 0);
    CHECK(d.max_error > 1e-5);
    CHECK(d.max_error < 1e-2);
  }
}

TEST_CASE("a score without a derivative has no backward pass") {
  const Problem p({1, 1, 2, 2}, {1, 1, 2, 2});
  ScoreFunctor f;
  f.score = soft_cap;
  CHECK_THROWS_AS(naive::backward<double>(p.q, p.k, p.v, p.d_o, f), std::invalid_argument);
  const auto d_o = normal_tensor<double, 4>({1, 1, 2, 3}, 1);
  CHECK_THROWS_WITH_AS(naive::backward<double>(p.q, p.k, p.v, d_o, ScoreFunctor{}),
                       doctest::Contains("[1, 1, 2, 3]"), std::invalid_argument);
}
