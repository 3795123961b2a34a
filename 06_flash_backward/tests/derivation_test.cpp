// The derived gradients, by central differences. Gradients by tiles against lesson 01: tile sizes,
// edges, masks, overflow and threads.
#include "06_flash_backward/src/derivation/derivation.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
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

}  // namespace

TEST_CASE("tiles of every size give the gradients of lesson 01") {
  const std::pair<std::int64_t, std::int64_t> lengths[] = {{1, 1},   {17, 17}, {29, 53},
                                                           {53, 29}, {61, 3},  {3, 61}};
  for (const auto& [length_q, length_k] : lengths) {
    for (const bool causal : {false, true}) {
      const Problem p({1, 1, length_q, 8}, {1, 1, length_k, 8}, causal);
      for (const std::int64_t block_m : kSizes) {
        for (const std::int64_t block_n : kSizes) check(p, {block_m, block_n});
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
    for (std::int64_t i = 0; i < x->count(); ++i) CHECK(std::isfinite(x->data()[i]));
  }
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
