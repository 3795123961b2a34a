// The derivation: its statements hold, and what is wrong is refused. Gradients by tiles against
// lesson 01: tile sizes, edges, masks, hard logits, strides and threads.
#include "06_flash_backward/src/derivation/derivation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "01_naive_attention/gradient_check.hpp"
#include "01_naive_attention/tests/problem.hpp"
#include "06_flash_backward/src/derivation/tiled.hpp"
#include "common/check/acceptance.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using namespace fa::backward;
using online::Tiles;

TEST_CASE("the best step is where Taylor's error meets rounding") {
  const auto errors = step_errors();
  double one_sided = 1, central = 1;  // the least errors: eps^(1/2) and eps^(2/3), about
  for (const StepError& e : errors) {
    one_sided = std::min(one_sided, e.one_sided);
    central = std::min(central, e.central);
  }
  CHECK(one_sided < 1e-7);
  CHECK(central < 1e-9);
  // Before, ten times smaller a step is ten or a hundred times more right.
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(errors[i - 1].one_sided / errors[i].one_sided == doctest::Approx(10).epsilon(0.1));
    CHECK(errors[i - 1].central / errors[i].central == doctest::Approx(100).epsilon(0.1));
  }
  CHECK(errors.back().one_sided > 1e-3);
  CHECK(errors.back().central > 1e-3);
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

namespace {

using Problem = testing::Problem<float>;
constexpr std::int64_t kSizes[] = {1, 3, 7, 16, 64, std::numeric_limits<std::int64_t>::max()};

// Gradients by tiles, O and LSE from lesson 01.
template <class T>
naive::Gradients<T> by_tiles(const Problem& p, const Tiles& tiles) {
  const auto q = converted<T>(p.q), k = converted<T>(p.k), v = converted<T>(p.v),
             d_o = converted<T>(p.d_o);
  const auto forward = naive::forward<T>(q, k, v, p.options);
  return tiled_backward<T>(q, k, v, forward.o, forward.lse, d_o, p.options, tiles);
}

template <class T>
naive::Gradients<T> by_lesson_01(const Problem& p) {
  return naive::backward<T>(converted<T>(p.q), converted<T>(p.k), converted<T>(p.v),
                            converted<T>(p.d_o), p.options);
}

// float64 to its last digits, float32 by the acceptance rule.
void check(const Problem& p, const Tiles& tiles) {
  CAPTURE(to_string(p.q.shape()));
  CAPTURE(to_string(p.k.shape()));
  CAPTURE(p.options.causal);
  CAPTURE(p.options.dropout_probability);
  CAPTURE(tiles.block_m);
  CAPTURE(tiles.block_n);
  const auto ref = by_lesson_01<double>(p);
  const auto plain = by_lesson_01<float>(p);
  const auto out64 = by_tiles<double>(p, tiles);
  const auto out32 = by_tiles<float>(p, tiles);
  const auto one = [&](const char* name, const auto& r, const auto& simple, const auto& x64,
                       const auto& x32) {
    const Distance d = distance(x64.view(), r.view());
    CHECK(d.invalid == 0);
    CHECK(d.max_error <= 1e-13 * (1 + d.max_reference));
    if (d.max_reference == 0) {
      // A single key has weight 1 whatever q and k are. Lesson 01 gives 0 to
      // the last bit; a delta from dO and O differs from dP by rounding.
      CHECK(distance(x32.view(), r.view()).max_error <= 64 * epsilon<float>());
      return;
    }
    const Verdict v = accept(name, x32, r, simple, kGradientFactor);
    CHECK_MESSAGE(v.accepted, v.report());
  };
  one("d_q", ref.d_q, plain.d_q, out64.d_q, out32.d_q);
  one("d_k", ref.d_k, plain.d_k, out64.d_k, out32.d_k);
  one("d_v", ref.d_v, plain.d_v, out64.d_v, out32.d_v);
}

template <class T, int Rank>
bool same_bits(const Tensor<T, Rank>& a, const Tensor<T, Rank>& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.count()) * sizeof(T)) == 0;
}

}  // namespace

TEST_CASE("tiles of every size give the gradients of lesson 01") {
  const std::pair<std::int64_t, std::int64_t> lengths[] = {{1, 1},   {17, 17}, {29, 53},
                                                           {53, 29}, {61, 3},  {3, 61}};
  for (const auto& [length_q, length_k] : lengths) {
    for (const bool causal : {false, true}) {
      const Problem p({1, 1, length_q, 8}, {1, 1, length_k, 8}, causal);
      for (const std::int64_t block_m : kSizes) {
        for (const std::int64_t block_n : kSizes) {
          check(p, {block_m, block_n});
        }
      }
    }
  }
}

TEST_CASE("batches, GQA, dropout, scales and columns of v") {
  for (const double scale : {0.0, -0.4, 1.0}) {
    check(Problem({2, 6, 19, 5}, {2, 2, 23, 5}, true, 0.3, scale), {8, 5});
    check(Problem({2, 6, 19, 5}, {2, 2, 23, 5}, true, 0.3, scale, 2), {5, 7});
  }
  check(Problem({3, 4, 23, 5}, {3, 1, 19, 5}, false, 0.1), {5, 8});
}

TEST_CASE("logits of many thousands give finite, right gradients") {
  const Problem p({1, 2, 17, 8}, {1, 2, 19, 8}, true, 0, {}, {}, 60);
  const auto ref = by_lesson_01<double>(p);
  const auto out = by_tiles<double>(p, {4, 8});
  // exp(S - LSE) is as exact as S is: an error of |S| epsilon.
  const double allowed = 2e4 * 64 * epsilon<double>();
  for (const auto& [x, r] : {std::pair(&out.d_q, &ref.d_q), std::pair(&out.d_k, &ref.d_k),
                             std::pair(&out.d_v, &ref.d_v)}) {
    const Distance d = distance(x->view(), r->view());
    CHECK(d.invalid == 0);
    CHECK(d.max_error <= allowed * (1 + d.max_reference));
  }
}

TEST_CASE("fully masked queries have gradient 0 and add nothing to dK and dV") {
  Problem p({1, 1, 9, 4}, {1, 1, 4, 4}, true);
  const auto forward = naive::forward<float>(p.q, p.k, p.v, p.options);
  CHECK(std::isinf(forward.lse(0, 0, 4)));
  const auto out =
      tiled_backward<float>(p.q, p.k, p.v, forward.o, forward.lse, p.d_o, p.options, {4, 3});
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t c = 0; c < 4; ++c) CHECK(out.d_q(0, 0, i, c) == 0);
  }
  // Whatever these queries are, dK and dV stay as they are.
  for (std::int64_t i = 0; i < 5; ++i) p.d_o(0, 0, i, 1) = 1e6f;
  const auto again =
      tiled_backward<float>(p.q, p.k, p.v, forward.o, forward.lse, p.d_o, p.options, {4, 3});
  CHECK(same_bits(out.d_k, again.d_k));
  CHECK(same_bits(out.d_v, again.d_v));
}

TEST_CASE("a query whose scores all overflow is treated as fully masked") {
  Problem p({1, 1, 5, 3}, {1, 1, 7, 3});
  for (std::int64_t c = 0; c < 3; ++c) {
    p.q(0, 0, 2, c) = -1e20f;
    for (std::int64_t j = 0; j < 7; ++j) p.k(0, 0, j, c) = 1e20f;
  }
  const auto forward = naive::forward<float>(p.q, p.k, p.v, p.options);
  CHECK(forward.lse(0, 0, 2) == -std::numeric_limits<float>::infinity());
  const auto out = by_tiles<float>(p, {2, 3});
  for (std::int64_t c = 0; c < 3; ++c) CHECK(out.d_q(0, 0, 2, c) == 0);
  for (const auto* x : {&out.d_q, &out.d_k, &out.d_v}) {
    for (std::int64_t i = 0; i < x->count(); ++i) {
      CHECK(std::isfinite(x->data()[i]));
    }
  }
}

TEST_CASE("tensors may have any strides") {
  const Problem p({2, 4, 13, 6}, {2, 2, 9, 6}, true, 0.2);
  const auto forward = naive::forward<float>(p.q, p.k, p.v, p.options);
  const auto expected =
      tiled_backward<float>(p.q, p.k, p.v, forward.o, forward.lse, p.d_o, p.options, {4, 4});
  // The same numbers, length first in memory.
  const auto length_first = [](const Tensor<float, 4>& x) {
    return converted<float>(x.view().swap_axes(1, 2));
  };
  const auto q = length_first(p.q), k = length_first(p.k), v = length_first(p.v),
             o = length_first(forward.o), d_o = length_first(p.d_o);
  const auto seen = [](const Tensor<float, 4>& x) { return x.view().swap_axes(1, 2); };
  const auto out = tiled_backward<float>(seen(q), seen(k), seen(v), seen(o), forward.lse, seen(d_o),
                                         p.options, {4, 4});
  CHECK(same_bits(out.d_q, expected.d_q));
  CHECK(same_bits(out.d_k, expected.d_k));
  CHECK(same_bits(out.d_v, expected.d_v));
}

TEST_CASE("the bits do not depend on the number of threads") {
  const Problem p({2, 4, 75, 16}, {2, 2, 90, 16}, true, 0.1);
  std::optional<naive::Gradients<float>> first;
  for (const int count : {1, 2, 3, 8}) {
    const testing::Threads threads(count);
    const auto out = by_tiles<float>(p, {16, 32});
    if (!first) first = out;
    CHECK(same_bits(out.d_q, first->d_q));
    CHECK(same_bits(out.d_k, first->d_k));
    CHECK(same_bits(out.d_v, first->d_v));
  }
}

#if defined(__linux__)
TEST_CASE("memory grows linearly with the length") {
  const std::int64_t length = 4096;  // its square: 64 MiB of float
  const Problem p({1, 1, length, 4}, {1, 1, length, 4}, true);
  const Tensor<float, 3> lse({1, 1, length});
  const double start = testing::peak_mebibytes([] {});
  const double tiled = testing::peak_mebibytes([&] {
    const testing::Threads threads(2);
    tiled_backward<float>(p.q, p.k, p.v, p.q, lse, p.d_o, p.options);
  });
  const double textbook =
      testing::peak_mebibytes([&] { naive::backward<float>(p.q, p.k, p.v, p.d_o, p.options); });
  CHECK(textbook - start > 64);  // the measure sees what it should
  CHECK(tiled - start < 16);     // threads, tiles and 200 KiB of result
}
#endif

TEST_CASE("delta is the sum of dO * O along each row") {
  const auto o = normal_tensor<double, 4>({2, 3, 5, 7}, 1),
             d_o = normal_tensor<double, 4>({2, 3, 5, 7}, 2);
  const auto delta = row_dots<double>(o, d_o);
  CHECK(delta.shape() == Shape<3>{2, 3, 5});
  double sum = 0;
  for (std::int64_t c = 0; c < 7; ++c) sum += o(1, 2, 3, c) * d_o(1, 2, 3, c);
  CHECK(delta(1, 2, 3) == doctest::Approx(sum).epsilon(1e-14));
}

TEST_CASE("what does not fit is refused") {
  const auto q = normal_tensor<double, 4>({1, 2, 5, 3}, 1),
             k = normal_tensor<double, 4>({1, 2, 4, 3}, 2);
  const auto f = naive::forward<double>(q, k, k);
  const Tensor<double, 4> short_o({1, 2, 4, 3});
  const Tensor<double, 3> short_lse({1, 2, 4});
  const auto refused = [&](View<const double, 4> o, View<const double, 3> lse,
                           View<const double, 4> d_o, const Tiles& tiles) {
    CHECK_THROWS_AS(tiled_backward<double>(q, k, k, o, lse, d_o, {}, tiles), std::invalid_argument);
  };
  refused(short_o, f.lse, q, {});
  refused(f.o, f.lse, short_o, {});
  refused(f.o, short_lse, q, {});
  refused(f.o, f.lse, q, {0, 4});
  refused(f.o, f.lse, q, {4, -1});
  CHECK_THROWS_AS(row_dots<double>(f.o, short_o), std::invalid_argument);
}
