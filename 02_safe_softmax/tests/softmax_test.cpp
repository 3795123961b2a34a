// Safe softmax: properties, errors, limits; and the program.
#include "02_safe_softmax/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include "01_naive_attention/attention.hpp"
#include "common/cli/tests/good_input.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const std::int64_t kLengths[] = {1, 2, 3, 17, 64, 255, 1023};

template <class T>
Tensor<T, 1> row_of(const std::vector<double>& values) {
  Tensor<T, 1> row({static_cast<std::int64_t>(values.size())});
  fill_with(row.view(), [&](std::uint64_t i) { return values[i]; });
  return row;
}

template <class T, class A = accumulator_t<T>>
Tensor<T, 1> softmax(const Tensor<T, 1>& x) {
  Tensor<T, 1> y(x.shape());
  poison(y.view());
  safe::safe_softmax<T, A>(x, y);
  return y;
}

std::vector<float> values_of(const Tensor<float, 1>& x) {
  return {x.data(), x.data() + x.count()};
}

double spread(const Tensor<double, 1>& x) {
  const auto [low, high] = std::minmax_element(x.data(), x.data() + x.count());
  return *high - *low;
}

// The largest error of a probability divided by its bound. Subnormal results have no bounded
// relative error and are excluded.
template <class T>
double worst_share_of_bound(const Tensor<T, 1>& x) {
  const auto seen = converted<double>(x);
  const auto ref = softmax<double>(seen);
  const auto y = softmax<T, T>(x);
  const double bound = safe::relative_error_bound<T>(x.count(), spread(seen));
  double worst = 0;
  for (std::int64_t j = 0; j < x.count(); ++j) {
    if (ref(j) < smallest_normal<T>()) continue;
    worst = std::max(worst, std::abs(safe::exact(y(j)) - ref(j)) / ref(j) / bound);
  }
  return worst;
}

}  // namespace

TEST_CASE("the first softmax of the page agrees with the one that counts") {
  for (const std::int64_t n : kLengths) {
    const auto x = normal_tensor<float, 1>({n}, 5);
    const auto expected = softmax<float>(x);
    const auto definition = safe::softmax(values_of(x));
    const auto shifted = safe::shifted_softmax(values_of(x));
    for (std::int64_t j = 0; j < n; ++j) {
      const auto i = static_cast<std::size_t>(j);
      CHECK(definition[i] == doctest::Approx(expected(j)).epsilon(1e-4));
      CHECK(shifted[i] == doctest::Approx(expected(j)).epsilon(1e-4));
    }
  }
  CHECK(std::isnan(safe::softmax({1000, 0})[0]));
  CHECK(safe::shifted_softmax({1000, 0})[0] == 1);
}

TEST_CASE("safe softmax gives the weights of lesson 01") {
  for (const std::int64_t n : kLengths) {
    for (const double deviation : {0.1, 3.0, 1000.0}) {
      const auto x = normal_tensor<double, 1>({n}, 5, deviation);
      Matrix<double> scores(1, n);
      std::copy(x.data(), x.data() + n, scores.data());
      const Matrix<double> ref = naive::safe_softmax(scores);
      const auto y = softmax<double>(x);
      double sum = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        CAPTURE(n);
        CAPTURE(j);
        CHECK(y(j) == doctest::Approx(ref(0, j)).epsilon(1e-12));
        sum += y(j);
      }
      CHECK(sum == doctest::Approx(1).epsilon(1e-12));
      CHECK(safe::log_sum_exp<double>(x) ==
            doctest::Approx(naive::log_sum_exp(scores)(0)).epsilon(1e-14));
    }
  }
}

TEST_CASE("the unsafe form fails where the type's exp does, the safe one not") {
  const auto high = row_of<float>({88, 89, 90});
  const auto low = row_of<float>({-104, -105, -106});
  for (const auto& x : {high, low}) {
    Tensor<float, 1> y(x.shape());
    safe::unsafe_softmax<float>(x, y);
    CHECK(std::isnan(y(0) + y(1) + y(2)));
  }
  CHECK(same_bits(softmax(high), softmax(row_of<float>({-2, -1, 0}))));
  CHECK(same_bits(softmax(low), softmax(row_of<float>({2, 1, 0}))));
  const auto far = softmax(row_of<float>({-1e4, 0, 1e4}));
  CHECK(far(0) == 0);
  CHECK(far(1) == 0);
  CHECK(far(2) == 1);
}

TEST_CASE("an exact shift changes no bit") {
  for (const std::int64_t n : kLengths) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      Tensor<float, 1> x({n}), shifted({n});
      fill_with(x.view(), [&](std::uint64_t i) {
        return std::floor(4096 * random_uniform(seed, i)) / 64 - 32;
      });
      const double c = std::floor(8192 * random_uniform(seed, 5000)) / 64 - 64;
      for (std::int64_t j = 0; j < n; ++j) {
        shifted(j) = static_cast<float>(x(j) + c);
        REQUIRE(static_cast<double>(shifted(j)) == x(j) + c);
      }
      CHECK(same_bits(softmax(x), softmax(shifted)));
      CHECK(safe::log_sum_exp<float>(shifted) ==
            doctest::Approx(safe::log_sum_exp<float>(x) + c).epsilon(1e-14));
    }
  }
}

TEST_CASE("a rounded shift changes weights by no more than its bound") {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto x = normal_tensor<float, 1>({65}, seed, 5.0);
    const double c = 1e4 * (random_uniform(seed, 9999) - 0.5);
    Tensor<double, 1> shifted(x.shape());
    double largest_sum = 0;
    for (std::int64_t j = 0; j < x.count(); ++j) {
      shifted(j) = safe::rounded<float>(x(j) + c);
      largest_sum = std::max(largest_sum, std::abs(x(j) + c));
    }
    const auto ref = softmax(converted<double>(x)), p = softmax(shifted);
    const double bound = safe::shift_error_bound<float>(largest_sum);
    for (std::int64_t j = 0; j < x.count(); ++j) {
      worst = std::max(worst, std::abs(p(j) - ref(j)) / ref(j) / bound);
    }
  }
  CHECK(worst <= 1);
  CHECK(worst > 0.1);  // the bound is not loose
}

TEST_CASE("the error of every type stays below the derived bound") {
  double worst = 0;
  for (const std::int64_t n : kLengths) {
    for (const double deviation : {0.01, 1.0, 4.0}) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto x = normal_tensor<double, 1>({n}, seed, deviation);
        worst = std::max({worst, worst_share_of_bound(converted<float>(x)),
                          worst_share_of_bound(converted<half>(x)),
                          worst_share_of_bound(converted<bfloat16>(x))});
      }
    }
  }
  CHECK(worst <= 1);
  CHECK(worst > 0.05);
}

TEST_CASE("sums in float32 keep 16-bit weights good where own sums stall") {
  const std::int64_t n = 4096;
  const Tensor<bfloat16, 1> x({n});  // equal scores: each probability is 1 / n
  const auto wide = softmax<bfloat16, float>(x);
  const auto own = softmax<bfloat16, bfloat16>(x);
  CHECK(safe::exact(wide(7)) == 1.0 / 4096);
  CHECK(safe::exact(own(7)) == 1.0 / 256);  // where bfloat16 sums stop
}

TEST_CASE("the unsafe form passes over the row twice, the safe one three times, for the same") {
  const auto x = normal_tensor<float, 1>({77}, 1);
  Tensor<float, 1> y(x.shape());
  const safe::Traffic two = safe::unsafe_softmax<float>(x, y);
  CHECK(two.passes == 2);
  CHECK(two.reads == 2 * 77);
  CHECK(two.writes == 77);
  const auto expected = softmax(x);
  for (std::int64_t j = 0; j < x.count(); ++j) {
    CHECK(y(j) == doctest::Approx(expected(j)).epsilon(1e-5));
  }
  const safe::Traffic three = safe::safe_softmax<float>(x, y);
  CHECK(three.passes == 3);
  CHECK(three.reads == 3 * 77);
  CHECK(three.writes == 77);
}

TEST_CASE("a masked score has weight 0, and a row of them only zeros") {
  const auto some = softmax(row_of<float>({-kInfinity, 1, -kInfinity, 1}));
  CHECK(same_bits(some, row_of<float>({0, 0.5, 0, 0.5})));
  const auto none = row_of<float>({-kInfinity, -kInfinity, -kInfinity});
  CHECK(same_bits(softmax(none), row_of<float>({0, 0, 0})));
  CHECK(safe::log_sum_exp<float>(none) == -kInfinity);
  CHECK(same_bits(softmax(row_of<float>({-kInfinity})), row_of<float>({0})));
  CHECK(same_bits(softmax(row_of<float>({-5000})), row_of<float>({1})));
}

TEST_CASE("NaN and +infinity come out as NaN, wherever they stand") {
  for (const double bad : {kNan, kInfinity}) {
    for (int place = 0; place < 3; ++place) {
      std::vector<double> scores{0, 1, 2};
      scores[static_cast<std::size_t>(place)] = bad;
      const auto x = row_of<float>(scores);
      const auto y = softmax(x);
      CHECK(std::isnan(y(place)));
      CHECK(std::isnan(safe::log_sum_exp<float>(x)) == std::isnan(bad));
      if (std::isnan(bad)) {
        CHECK(std::isnan(y(0) * y(1) * y(2)));
        CHECK(std::isnan(safe::row_max<float>(x)));
      }
    }
  }
}

TEST_CASE("a strided row is the same row") {
  const auto table = normal_tensor<float, 2>({9, 5}, 3);
  Tensor<float, 2> result(table.shape());
  poison(result.view());
  const auto column = table.view().swap_axes(0, 1).at(2);
  safe::safe_softmax<float>(column, result.view().swap_axes(0, 1).at(2));
  const auto packed = softmax(converted<float>(column));
  for (std::int64_t j = 0; j < 9; ++j) CHECK(result(j, 2) == packed(j));
  CHECK(std::isnan(result(0, 1)));  // the neighbours are untouched
  CHECK(std::isnan(result(0, 3)));
}

TEST_CASE("rows that do not fit are refused") {
  Tensor<float, 1> three({3}), four({4}), none({0});
  CHECK_THROWS_AS(safe::safe_softmax<float>(three, four), std::invalid_argument);
  CHECK_THROWS_AS(safe::unsafe_softmax<float>(none, none), std::invalid_argument);
  CHECK_THROWS_AS(safe::log_sum_exp<float>(none), std::invalid_argument);
}

TEST_CASE_TEMPLATE("exp overflows, fades and vanishes where its logarithm says", T, half, bfloat16,
                   float, double) {
  const safe::ExpRange range = safe::exp_range<T>();
  // A score is known to the spacing of the numbers of T around it.
  const auto near = [](double found, double expected) {
    return std::abs(found - expected) <= epsilon<T>() * std::abs(expected);
  };
  CHECK(near(range.overflows_after, std::log(largest<T>())));
  CHECK(std::isfinite(safe::exp_in<T>(range.overflows_after)));
  CHECK(near(range.normal_until, std::log(smallest_normal<T>())));
  CHECK(safe::exp_in<T>(range.normal_until) >= smallest_normal<T>());
  // Half of the smallest value rounds to 0.
  CHECK(near(range.nonzero_until, std::log(smallest_normal<T>()) + std::log(epsilon<T>() / 2)));
  CHECK(safe::exp_in<T>(range.nonzero_until) > 0);
}

TEST_CASE("the search steps through all numbers of a type in order") {
  CHECK(safe::count_of_positive<half>() == 31 * 1024);
  CHECK(safe::positive_number<half>(0) == 0);
  CHECK(safe::positive_number<half>(1) == std::ldexp(1, -24));
  CHECK(safe::positive_number<half>(31 * 1024 - 1) == 65504);
  for (std::uint64_t i = 1; i < safe::count_of_positive<half>(); ++i) {
    REQUIRE(safe::positive_number<half>(i - 1) < safe::positive_number<half>(i));
  }
  CHECK(safe::last_where<half>([](double x) { return x <= 3; }) == 3);
  CHECK(safe::positive_number<double>(safe::count_of_positive<double>() - 1) == largest<double>());
}

TEST_CASE("a sum of ones stops at two to the number of digits") {
  CHECK(safe::sum_stops_at<bfloat16>(1e6) == 256);
  CHECK(safe::sum_stops_at<half>(1e6) == 2048);
  CHECK(safe::sum_stops_at<float>(3e7) == 16777216);
  CHECK(safe::sum_stops_at<double>(1000) == 1000);  // ends at the limit
}

namespace {

const std::string kProgram = FA_PROGRAM;

}  // namespace

TEST_CASE("the program's checks pass on the shipped input") {
  const testing::TemporaryDirectory directory;
  const auto summary = directory.path() / "summary.tsv";
  const auto result = testing::run(kProgram + " --save " + testing::quoted(directory.path()) +
                                   " --summary " + testing::quoted(summary));
  CHECK(result.status == 0);
  CHECK(result.error == "");
  const std::string lines = testing::file_bytes(summary);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 6);
  CHECK(testing::contains(lines, "PASS\t02_safe_softmax\tP of the input"));
  const auto weights = read_npy<float, 4>(directory.path() / "weights.npy");
  CHECK(weights.size(2) == weights.size(3));
  double sum = 0;
  for (std::int64_t j = 0; j < weights.size(3); ++j) sum += weights(0, 1, 2, j);
  CHECK(sum == doctest::Approx(1).epsilon(1e-5));
}

TEST_CASE("the program takes GQA and unequal lengths") {
  const testing::TemporaryDirectory directory;
  cli::write_gqa_input(directory.path(), 5, 9);
  const auto result = testing::run(kProgram + " --input " + testing::quoted(directory.path()));
  CHECK(result.status == 0);
  CHECK(testing::contains(result.output, "40 rows of 9 scores"));
}
