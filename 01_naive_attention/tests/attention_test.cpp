// Forward and backward pass of lesson 01 against independent references: loops written here, and
// central differences.
#include "01_naive_attention/attention.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "01_naive_attention/gradient_check.hpp"
#include "01_naive_attention/tests/problem.hpp"
#include "common/check/acceptance.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using doctest::Contains;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Problem = testing::Problem<double>;

// All combinations of the options, on small odd sizes.
std::vector<Problem> problems() {
  std::vector<Problem> all;
  all.push_back(Problem({1, 1, 1, 1}, {1, 1, 1, 1}, false, 0));
  all.push_back(Problem({2, 2, 5, 3}, {2, 2, 5, 3}, false, 0));
  all.push_back(Problem({1, 3, 7, 4}, {1, 3, 7, 4}, true, 0));
  all.push_back(Problem({1, 4, 5, 3}, {1, 2, 9, 3}, true, 0));    // GQA
  all.push_back(Problem({1, 3, 9, 2}, {1, 1, 4, 2}, true, 0.3));  // MQA
  all.push_back(Problem({2, 2, 6, 5}, {2, 2, 3, 5}, false, 0.5));
  all.push_back(Problem({1, 2, 4, 8}, {1, 2, 6, 8}, false, 0, 0.7));
  all.push_back(Problem({1, 1, 17, 8}, {1, 1, 1, 8}, false, 0, -1.5));
  all.push_back(Problem({1, 4, 5, 3}, {1, 2, 6, 3}, true, 0.3, {}, 2));
  all.push_back(Problem({1, 2, 6, 2}, {1, 1, 5, 2}, false, 0, {}, 7));
  return all;
}

// The definition, one element at a time, with none of lesson 01's code.
double loop_weight(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t i,
                   std::int64_t j) {
  const std::int64_t kv = h * p.k.size(1) / p.q.size(1);
  const std::int64_t last_seen = p.options.causal ? i + p.k.size(2) - p.q.size(2) : p.k.size(2) - 1;
  if (j > last_seen) return 0;
  const double scale =
      p.options.scale ? *p.options.scale : 1 / std::sqrt(static_cast<double>(p.q.size(3)));
  double dot = 0;
  for (std::int64_t d = 0; d < p.q.size(3); ++d) {
    dot += p.q(b, h, i, d) * p.k(b, kv, j, d);
  }
  return std::exp(scale * dot);
}

Tensor<double, 4> loop_attention(const Problem& p, Tensor<double, 3>& lse) {
  Tensor<double, 4> o(shape_of_o(p.q.shape(), p.v.shape()));
  lse = Tensor<double, 3>({p.q.size(0), p.q.size(1), p.q.size(2)});
  for_each_index(lse.shape(), [&](const Shape<3>& i) {
    const std::int64_t kv = i[1] * p.k.size(1) / p.q.size(1);
    double sum = 0;
    for (std::int64_t j = 0; j < p.k.size(2); ++j) {
      sum += loop_weight(p, i[0], i[1], i[2], j);
    }
    lse.view()[i] = std::log(sum);
    if (sum == 0) return;
    for (std::int64_t j = 0; j < p.k.size(2); ++j) {
      double weight = loop_weight(p, i[0], i[1], i[2], j) / sum;
      if (p.keep.count() > 0) {
        weight *= p.keep(i[0], i[1], i[2], j) / (1 - p.options.dropout_probability);
      }
      for (std::int64_t d = 0; d < p.v.size(3); ++d) {
        o(i[0], i[1], i[2], d) += weight * p.v(i[0], kv, j, d);
      }
    }
  });
  return o;
}

double largest_error(View<const double, 4> out, View<const double, 4> ref) {
  const Distance d = distance(out, ref);
  return d.invalid > 0 ? kInfinity : d.max_error;
}

}  // namespace

TEST_CASE("forward agrees with the definition written as loops") {
  for (const Problem& p : problems()) {
    CAPTURE(to_string(p.q.shape()));
    CAPTURE(to_string(p.k.shape()));
    Tensor<double, 3> lse;
    const auto o = loop_attention(p, lse);
    const auto out = naive::forward<double>(p.q, p.k, p.v, p.options);
    CHECK(largest_error(out.o, o) < 1e-13);
    const Distance d = distance<double, 3>(out.lse, lse);
    CHECK(d.invalid == 0);
    CHECK(d.max_error < 1e-13);
    const auto weights = naive::weights<double>(p.q, p.k, p.options);
    for_each_index(weights.shape(), [&](const Shape<4>& i) {
      const double e = loop_weight(p, i[0], i[1], i[2], i[3]);
      CHECK(std::abs(weights.view()[i] - (e == 0 ? 0 : e / std::exp(lse(i[0], i[1], i[2])))) <
            1e-14);
    });
  }
}

TEST_CASE("every gradient agrees with central differences") {
  for (Problem& p : problems()) {
    CAPTURE(to_string(p.q.shape()));
    CAPTURE(to_string(p.k.shape()));
    const auto loss = [&] {
      const auto o = naive::forward<double>(p.q, p.k, p.v, p.options).o;
      return std::inner_product(o.data(), o.data() + o.count(), p.d_o.data(), 0.0);
    };
    const auto g = naive::backward<double>(p.q, p.k, p.v, p.d_o, p.options);
    const auto difference = [&](const Tensor<double, 4>& gradient, Tensor<double, 4>& x) {
      const auto numerical = naive::numerical_gradient(loss, x.view());
      return naive::relative_difference(gradient.view(), View<const double, 4>(numerical));
    };
    if (p.k.size(2) > 1) {  // with one key the weight is 1 whatever q, k are
      CHECK(difference(g.d_q, p.q) < naive::kDifferenceTolerance);
      CHECK(difference(g.d_k, p.k) < naive::kDifferenceTolerance);
    } else {
      CHECK(largest_error(g.d_q, Tensor<double, 4>(p.q.shape())) < 1e-12);
      CHECK(largest_error(g.d_k, Tensor<double, 4>(p.k.shape())) < 1e-12);
    }
    CHECK(difference(g.d_v, p.v) < naive::kDifferenceTolerance);
  }
}

TEST_CASE("a difference of gradients that is NaN is not lost") {
  Tensor<double, 1> b({3});
  b(0) = 1;
  for (std::int64_t i = 0; i < 3; ++i) {
    Tensor<double, 1> with_nan = b;
    with_nan(i) = std::numeric_limits<double>::quiet_NaN();
    const double difference = naive::relative_difference<1>(with_nan.view(), b.view());
    CHECK_FALSE(difference < naive::kDifferenceTolerance);
  }
}

TEST_CASE("scores of 1e4 neither overflow nor lose the result") {
  Problem p({1, 1, 9, 8}, {1, 1, 11, 8}, false, 0);
  fill_normal(p.q.view(), 6, 100.0);
  fill_normal(p.k.view(), 7, 100.0);
  const auto out = naive::forward<double>(p.q, p.k, p.v, p.options);
  double largest = 0;
  for_each_index(out.o.shape(), [&](const Shape<4>& i) {
    REQUIRE(std::isfinite(out.o.view()[i]));
    largest = std::max(largest, std::abs(out.lse(i[0], i[1], i[2])));
  });
  CHECK(largest > 1e4);
}

TEST_CASE("the unsafe softmax agrees on small scores and fails on large") {
  Matrix<float> scores(2, 3);
  scores << 1, 2, 3, -1, 0, 1;
  CHECK((naive::unsafe_softmax(scores) - naive::safe_softmax(scores)).cwiseAbs().maxCoeff() <
        1e-6f);
  scores.row(0) << 1000, 999, 998;
  CHECK_FALSE(naive::unsafe_softmax(scores).allFinite());
  const Matrix<float> safe = naive::safe_softmax(scores);
  CHECK(safe(0, 0) == doctest::Approx(0.66524096));
  CHECK(safe(0, 1) == doctest::Approx(0.24472847));
  CHECK(safe(0, 2) == doctest::Approx(0.09003057));
}

TEST_CASE("strided views give the same answer as packed tensors") {
  // [batch, length, heads, head_dim] in memory, seen as [batch, heads, length, head_dim].
  auto q = normal_tensor<double, 4>({2, 7, 4, 3}, 1);
  auto k = normal_tensor<double, 4>({2, 5, 2, 3}, 2);
  auto v = normal_tensor<double, 4>({2, 5, 2, 3}, 3);
  const auto seen = [](const Tensor<double, 4>& t) { return t.view().swap_axes(1, 2); };
  const auto packed = [&](const Tensor<double, 4>& t) { return converted<double>(seen(t)); };
  const auto out = naive::forward<double>(seen(q), seen(k), seen(v));
  const auto same = naive::forward<double>(packed(q), packed(k), packed(v));
  CHECK(largest_error(out.o, same.o) == 0);
  const auto d_o = normal_tensor<double, 4>({2, 4, 7, 3}, 4);
  const auto g = naive::backward<double>(seen(q), seen(k), seen(v), d_o);
  const auto h = naive::backward<double>(packed(q), packed(k), packed(v), d_o);
  CHECK(largest_error(g.d_q, h.d_q) == 0);
  CHECK(largest_error(g.d_k, h.d_k) == 0);
  CHECK(largest_error(g.d_v, h.d_v) == 0);
}

TEST_CASE_TEMPLATE("each storage type errs by a few of its epsilons", T, float, half, bfloat16) {
  const Problem p({1, 4, 113, 32}, {1, 2, 203, 32}, true, 0.2);
  const auto q = converted<T>(p.q), k = converted<T>(p.k), v = converted<T>(p.v),
             d_o = converted<T>(p.d_o);
  const auto out = naive::forward<T>(q, k, v, p.options);
  const auto g = naive::backward<T>(q, k, v, d_o, p.options);
  const auto q64 = converted<double>(q), k64 = converted<double>(k), v64 = converted<double>(v),
             d_o64 = converted<double>(d_o);
  const auto ref = naive::forward<double>(q64, k64, v64, p.options);
  const auto ref_g = naive::backward<double>(q64, k64, v64, d_o64, p.options);
  const auto epsilons = [](const auto& a, const Tensor<double, 4>& b) {
    const Distance d = distance(a.view(), b.view());
    REQUIRE(d.invalid == 0);
    return d.max_error / d.max_reference / epsilon<T>();
  };
  // Neither smaller than the type allows nor larger than a few roundings.
  for (const double error : {epsilons(out.o, ref.o), epsilons(g.d_q, ref_g.d_q),
                             epsilons(g.d_k, ref_g.d_k), epsilons(g.d_v, ref_g.d_v)}) {
    CHECK(error > 0.05);
    CHECK(error < 10);
  }
}

TEST_CASE("16-bit types round every stored intermediate") {
  const Shape<4> shape{1, 1, 16, 8};
  const auto q = normal_tensor<bfloat16, 4>(shape, 1), k = normal_tensor<bfloat16, 4>(shape, 2),
             v = normal_tensor<bfloat16, 4>(shape, 3);
  const auto plain = naive::forward<bfloat16>(q, k, v);
  const auto single =
      naive::forward<float>(converted<float>(q), converted<float>(k), converted<float>(v));
  const auto ref =
      naive::forward<double>(converted<double>(q), converted<double>(k), converted<double>(v));
  // Rounding only the result would cost half an epsilon; rounding S and P costs more.
  const auto rounded_once = converted<bfloat16>(single.o);
  CHECK(distance(plain.o.view(), ref.o.view()).rms_error >
        1.2 * distance(rounded_once.view(), ref.o.view()).rms_error);
}

TEST_CASE("sizes and options that do not fit are refused") {
  const auto fits = [](const Shape<4>& q, const Shape<4>& k, const Shape<4>& v) {
    return testing::message_of<std::invalid_argument>([&] { attention_shape(q, k, v); }).empty();
  };
  CHECK(fits({1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}));
  CHECK_FALSE(fits({1, 2, 0, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}));
  CHECK_FALSE(fits({1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 4, 4}));
  CHECK_FALSE(fits({2, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}));
  CHECK_FALSE(fits({1, 2, 3, 8}, {1, 2, 3, 4}, {1, 2, 3, 4}));
  CHECK_FALSE(fits({1, 5, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}));
  CHECK_FALSE(fits({1, 2, 3, 4}, {1, 4, 3, 4}, {1, 4, 3, 4}));

  Problem p({1, 1, 2, 2}, {1, 1, 2, 2}, false, 0.5);
  const auto check_refused = [&](const char* value) {
    CHECK_THROWS_WITH_AS(naive::forward<double>(p.q, p.k, p.v, p.options), Contains(value),
                         std::invalid_argument);
  };
  p.options.dropout_probability = 1;
  check_refused("probability is 1");
  p.options.dropout_probability = 0.5;
  const Tensor<std::uint8_t, 4> wrong({1, 1, 2, 3});
  p.options.dropout_keep = wrong;
  check_refused("[1, 1, 2, 3]");
  p.options.dropout_keep = {};
  p.options.scale = kInfinity;
  check_refused("inf");
  const Tensor<double, 4> d_o({1, 1, 2, 3});
  CHECK_THROWS_WITH_AS(naive::backward<double>(p.q, p.k, p.v, d_o), Contains("[1, 1, 2, 3]"),
                       std::invalid_argument);
}
