// The derivation: its statements hold, and what is wrong is refused.
#include "06_flash_backward/src/derivation/derivation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "01_naive_attention/gradient_check.hpp"

using namespace fa;
using namespace fa::backward;

TEST_CASE("each statement of the derivation holds") {
  for (const Comparison& c : statements()) {
    CAPTURE(c.what);
    CHECK(c.difference <= c.allowed);
    CHECK(c.allowed <= naive::kDifferenceTolerance);
  }
  CHECK(statements().size() == 12);
}

TEST_CASE("the best step is where Taylor's error meets rounding") {
  const auto errors = step_errors();
  const auto best = [&](auto error) {
    return std::min_element(errors.begin(), errors.end(),
                            [&](const auto& a, const auto& b) { return error(a) < error(b); })
        ->h;
  };
  // eps^(1/2) is 1.5e-8 and eps^(1/3) 6e-6; chance shifts the best by a step or two.
  const double one_sided = best([](const auto& e) { return e.one_sided; });
  const double central = best([](const auto& e) { return e.central; });
  CHECK(one_sided <= 2e-7);
  CHECK(one_sided >= 5e-10);
  CHECK(central <= 2e-4);
  CHECK(central >= 5e-8);
  // In between, ten times smaller a step is ten or a hundred times more right.
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(errors[i - 1].one_sided / errors[i].one_sided == doctest::Approx(10).epsilon(0.1));
    CHECK(errors[i - 1].central / errors[i].central == doctest::Approx(100).epsilon(0.1));
  }
}

TEST_CASE("the Jacobian of a linear function is its matrix") {
  Matrix<double> a(2, 3);
  a << 1, -2, 3, 0.5, 0, 4;
  Vector<double> x(3);
  x << 0.3, -0.7, 2;
  const Matrix<double> j =
      jacobian([&](const Vector<double>& at) -> Vector<double> { return a * at; }, x);
  CHECK(j.rows() == 2);
  CHECK(j.cols() == 3);
  CHECK((j - a).cwiseAbs().maxCoeff() < 1e-9);
}

TEST_CASE("softmax's Jacobian of two equal scores") {
  const Matrix<double> j = softmax_jacobian(softmax(Vector<double>::Zero(2)));
  CHECK(j(0, 0) == doctest::Approx(0.25));
  CHECK(j(0, 1) == doctest::Approx(-0.25));
  CHECK(j(1, 0) == doctest::Approx(-0.25));
  CHECK(j(1, 1) == doctest::Approx(0.25));
}

TEST_CASE("a fully masked row has attention probabilities 0, not NaN") {
  const double kNegInf = -std::numeric_limits<double>::infinity();
  Matrix<double> s(3, 2);
  s << kNegInf, kNegInf, 1, 2, kNegInf, 5;
  Vector<double> lse(3);
  lse << kNegInf, std::log(std::exp(1.0) + std::exp(2.0)), 5;
  const Matrix<double> p = recomputed_probs(s, lse);
  CHECK(p.row(0) == Matrix<double>::Zero(1, 2));
  CHECK(p.row(1).sum() == doctest::Approx(1));
  CHECK(p(2, 0) == 0);
  CHECK(p(2, 1) == 1);
}

TEST_CASE("the derived gradients are right for many random heads") {
  for (std::uint64_t seed = 100; seed < 120; ++seed) {
    const HeadProblem problem = head_problem(seed);
    CAPTURE(seed);
    CHECK(errors_of(problem, head_gradients(problem)).worst() <= naive::kDifferenceTolerance);
  }
}

TEST_CASE("every mistake is refused, and appears where the page says") {
  const HeadProblem problem = head_problem(1);
  const double tolerance = naive::kDifferenceTolerance;
  const std::map<Mistake, std::string> wrong{{Mistake::kNone, ""},
                                             {Mistake::kNoDelta, "QK"},
                                             {Mistake::kDeltaPerElement, "QK"},
                                             {Mistake::kSoftmaxSign, "QK"},
                                             {Mistake::kNoScaleInDq, "Q"},
                                             {Mistake::kNoScaleInDk, "K"},
                                             {Mistake::kScaleTwiceInDk, "K"},
                                             {Mistake::kLseInBaseTwo, "QKV"},
                                             {Mistake::kMaskForgotten, "QKV"},
                                             {Mistake::kUndroppedInDv, "V"},
                                             {Mistake::kDropoutLeftOutOfDp, "QK"}};
  for (const NamedMistake& of : all_mistakes()) {
    const GradientErrors errors = errors_of(problem, head_gradients(problem, of.mistake));
    CAPTURE(of.name);
    const auto stays_right = [&](char gradient) {
      return wrong.at(of.mistake).find(gradient) == std::string::npos;
    };
    // A wrong gradient is wrong by far more than a tolerance could hide.
    CHECK((stays_right('Q') ? errors.d_q <= tolerance : errors.d_q > 0.01));
    CHECK((stays_right('K') ? errors.d_k <= tolerance : errors.d_k > 0.01));
    CHECK((stays_right('V') ? errors.d_v <= tolerance : errors.d_v > 0.01));
  }
  CHECK(all_mistakes().size() == 11);
}

TEST_CASE("a NaN in a gradient is the worst error") {
  const HeadProblem problem = head_problem(2);
  auto gradients = head_gradients(problem);
  gradients.d_k(0, 0, 2, 1) = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(errors_of(problem, gradients).worst() <= 1e300);
}
