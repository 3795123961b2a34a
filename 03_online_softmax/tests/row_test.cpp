// Online softmax in floating point: the same statements, up to the derived bound.
#include "03_online_softmax/row.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "02_safe_softmax/softmax.hpp"
#include "common/tensor/random.hpp"

using namespace fa;
using namespace fa::online;

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Families of scores that break careless programs.
std::vector<Tensor<float, 1>> hard_rows(std::int64_t n, std::uint64_t seed) {
  std::vector<Tensor<float, 1>> rows;
  const auto add = [&](auto score) {
    rows.emplace_back(Shape<1>{n});
    fill_with(rows.back().view(), score);
  };
  const auto normal = [&](auto i) { return random_normal(seed, i); };
  add(normal);
  add([&](auto i) { return 30 * normal(i); });
  add([](auto i) { return 0.37 * static_cast<double>(i); });   // rising
  add([](auto i) { return -0.37 * static_cast<double>(i); });  // falling
  add([](auto i) { return i % 2 == 0 ? -1e4 : 1e4; });
  add([](auto) { return 5.0; });  // ties
  add([&](auto i) { return i % 3 == 0 ? static_cast<double>(kMinusInfinity) : normal(i); });
  add([&](auto i) {  // nothing is seen until the last key
    return i + 1 < static_cast<std::uint64_t>(n) ? static_cast<double>(kMinusInfinity) : 3.0;
  });
  return rows;
}

// The attention of a row with lesson 02's softmax, in float64.
Vector<double> reference(const Tensor<float, 1>& s, const Tensor<float, 2>& v) {
  const auto wide = converted<double>(s);
  Tensor<double, 1> p(wide.shape());
  safe::safe_softmax<double>(wide, p);
  Vector<double> o = Vector<double>::Zero(v.size(1));
  for (std::int64_t j = 0; j < s.count(); ++j) {
    for (std::int64_t c = 0; c < v.size(1); ++c) {
      o(c) += p(j) * static_cast<double>(v(j, c));
    }
  }
  return o;
}

// The error of a row of attention, divided by its bound.
double share(const RowAttention<float>& row, std::int64_t steps, const Tensor<float, 1>& s,
             const Tensor<float, 2>& v) {
  const double largest = as_matrix(v.view()).cwiseAbs().maxCoeff();
  const double bound = error_bound<float>(s.count(), steps, spread<float>(s), largest);
  const double worst = (row.o.cast<double>() - reference(s, v)).cwiseAbs().maxCoeff();
  REQUIRE(std::isfinite(worst));
  return worst / bound;
}

}  // namespace

TEST_CASE("one pass stays within the derived bound of the definition") {
  double worst = 0;
  for (const std::int64_t n : {1, 2, 3, 17, 100, 1000}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const auto v = normal_tensor<float, 2>({n, 3}, 100 + seed);
      for (const auto& s : hard_rows(n, seed)) {
        worst = std::max({worst, share(one_pass<Unnormalised, float>(s, v), n, s, v),
                          share(one_pass<Normalised, float>(s, v), n, s, v)});
      }
    }
  }
  CHECK(worst <= 1);
  CHECK(worst > 0.01);  // the bound is not loose
}

TEST_CASE("a wrong recurrence leaves the bound") {
  const auto v = normal_tensor<float, 2>({17, 3}, 1);
  const auto s = normal_tensor<float, 1>({17}, 2);
  using namespace wrong;
  for (const auto& row :
       {one_pass<MixedNormalisation, float>(s, v), one_pass<DividedTwice, float>(s, v),
        one_pass<LocalSoftmax, float>(s, v), one_pass<SumNotRescaled, float>(s, v),
        one_pass<OutputNotRescaled, float>(s, v), one_pass<InvertedCorrection, float>(s, v)}) {
    CHECK(share(row, 17, s, v) > 100);
  }
}

TEST_CASE("keys in parts give the same attention") {
  for (const std::int64_t n : {1, 5, 113}) {
    const auto v = normal_tensor<float, 2>({n, 4}, 1);
    for (const auto& s : hard_rows(n, 7)) {
      for (const std::int64_t parts : {1, 2, 3, 8, 200}) {
        const std::int64_t steps = (n + parts - 1) / parts + parts;
        CHECK(share(split<float>(s, v, parts), steps, s, v) <= 1);
      }
    }
  }
}

TEST_CASE("two passes give the probabilities of three") {
  for (const std::int64_t n : {1, 2, 17, 1000}) {
    for (const auto& s : hard_rows(n, 3)) {
      Tensor<float, 1> p(s.shape());
      poison(p.view());
      const safe::Traffic traffic = two_pass_softmax<float>(s, p);
      CHECK(traffic.passes == 2);
      CHECK(traffic.reads == 2 * n);
      CHECK(traffic.writes == n);
      const auto wide = converted<double>(s);
      Tensor<double, 1> ref(wide.shape());
      safe::safe_softmax<double>(wide, ref);
      const double bound = error_bound<float>(n, n, spread<float>(s), 1);
      for (std::int64_t j = 0; j < n; ++j) {
        REQUIRE(std::abs(p(j) - ref(j)) <= bound);
      }
    }
  }
}

TEST_CASE("LSE of every form is that of lesson 02") {
  for (const auto& s : hard_rows(100, 11)) {
    const auto v = normal_tensor<float, 2>({100, 2}, 1);
    const double ref = safe::log_sum_exp<float>(s);
    const double bound = error_bound<float>(100, 100, spread<float>(s), 1) +
                         epsilon<float>() * (std::log(100) + std::abs(ref));
    CHECK(std::abs(one_pass<Unnormalised, float>(s, v).lse - ref) <= bound);
    CHECK(std::abs(one_pass<Normalised, float>(s, v).lse - ref) <= bound);
    CHECK(std::abs(split<float>(s, v, 7).lse - ref) <= bound);
  }
}

TEST_CASE("a row that sees no key gives zeros and LSE = -inf") {
  Tensor<float, 1> s({5}), p({5});
  std::fill(s.data(), s.data() + 5, kMinusInfinity);
  const auto v = normal_tensor<float, 2>({5, 2}, 1);
  for (const auto& row : {one_pass<Unnormalised, float>(s, v), one_pass<Normalised, float>(s, v),
                          split<float>(s, v, 2)}) {
    CHECK(row.o.isZero(0));
    CHECK(row.lse == kMinusInfinity);
  }
  poison(p.view());
  two_pass_softmax<float>(s, p);
  CHECK(std::all_of(p.data(), p.data() + 5, [](float x) { return x == 0; }));
  const Tensor<float, 1> no_scores({0});
  const Tensor<float, 2> no_values({0, 2});
  CHECK(one_pass<Unnormalised, float>(no_scores, no_values).o.isZero(0));
}

TEST_CASE("a NaN score comes out as NaN") {
  for (int place = 0; place < 3; ++place) {
    Tensor<float, 1> s({3});
    s(place) = std::numeric_limits<float>::quiet_NaN();
    const auto v = normal_tensor<float, 2>({3, 2}, 1);
    CHECK(std::isnan(one_pass<Unnormalised, float>(s, v).o(0)));
    CHECK(std::isnan(one_pass<Normalised, float>(s, v).o(0)));
    CHECK(std::isnan(split<float>(s, v, 2).o(0)));
  }
}

TEST_CASE("rows that do not fit are refused") {
  const Tensor<float, 1> s({3});
  Tensor<float, 1> p({4});
  const Tensor<float, 2> v({4, 2}), fits({3, 2});
  CHECK_THROWS_AS((one_pass<Unnormalised, float>(s, v)), std::invalid_argument);
  CHECK_THROWS_AS(split<float>(s, v, 2), std::invalid_argument);
  CHECK_THROWS_AS(split<float>(s, fits, 0), std::invalid_argument);
  CHECK_THROWS_AS(two_pass_softmax<float>(s, p), std::invalid_argument);
}
