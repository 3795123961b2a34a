// The acceptance rule: what it lets pass, what it refuses, and what it says.
#include "common/check/acceptance.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/tensor/random.hpp"
#include "common/testing/process.hpp"

using namespace fa;
using fa::testing::contains;
using fa::testing::message_of;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

template <class T = double>
Tensor<T, 1> vector_of(const std::vector<double>& values) {
  Tensor<T, 1> result({static_cast<std::int64_t>(values.size())});
  fill_with(result.view(), [&](std::uint64_t i) { return values[i]; });
  return result;
}

Distance distance_of(const std::vector<double>& out, const std::vector<double>& ref) {
  const auto out_tensor = vector_of(out), ref_tensor = vector_of(ref);
  return distance<double, 1>(out_tensor, ref_tensor);
}

// The rule on float64 vectors with a given type's epsilon.
Verdict decide_on(const std::vector<double>& out, const std::vector<double>& ref,
                  const std::vector<double>& plain, double magnitude = 0) {
  return decide("o", distance_of(out, ref), distance_of(plain, ref), kForwardFactor,
                epsilon<float>(), magnitude);
}

}  // namespace

TEST_CASE("a distance is the largest and the root mean square difference") {
  const Distance d = distance_of({1, 2, -3, 4}, {1, 2.5, -4, 4});
  CHECK(d.max_error == 1);
  CHECK(d.rms_error == std::sqrt(1.25 / 4));
  CHECK(d.max_reference == 4);
  CHECK(d.rms_reference == std::sqrt((1 + 6.25 + 16 + 16) / 4));
  CHECK(d.count == 4);
  CHECK(d.invalid == 0);
  CHECK(d.worst == std::vector<std::int64_t>{2});
  CHECK(d.out_at_worst == -3);
  CHECK(d.ref_at_worst == -4);
}

TEST_CASE("the rule passes at its bounds and no further") {
  const double eps = epsilon<bfloat16>();
  Distance error, plain;
  error.max_reference = 4;
  error.rms_reference = 0.5;
  plain.max_error = 0.25;
  plain.rms_error = 0.125;
  for (const double factor : {kForwardFactor, kGradientFactor}) {
    error.max_error = factor * 0.25 + 2 * eps * 4;
    error.rms_error = factor * 0.125 + 2 * eps * 0.5;
    const Verdict at = decide("o", error, plain, factor, eps);
    CHECK(at.accepted);
    CHECK(at.allowed_max == error.max_error);
    CHECK(at.allowed_rms == error.rms_error);
    CHECK(at.floor == 2 * eps * 4);
    Distance beyond = error;
    beyond.max_error = std::nextafter(error.max_error, 2);
    CHECK(!decide("o", beyond, plain, factor, eps).accepted);
    beyond = error;
    beyond.rms_error = std::nextafter(error.rms_error, 2);
    CHECK(!decide("o", beyond, plain, factor, eps).accepted);
  }
  CHECK(kForwardFactor == 2);
  CHECK(kGradientFactor == 3);
}

TEST_CASE("NaN in the tested tensor never passes") {
  const std::vector<double> ref{1, 2, 3}, bad{100, 200, 300};
  CHECK(!decide_on({1, kNaN, 3}, ref, bad).accepted);
  CHECK(!decide_on({kNaN, kNaN, kNaN}, ref, bad).accepted);
  // Nor where the reference is NaN: then there is nothing to agree with.
  CHECK(!decide_on({1, kNaN, 3}, {1, kNaN, 3}, bad).accepted);
  CHECK(!decide_on({1, 2, 3}, {1, kNaN, 3}, bad).accepted);
}

TEST_CASE("an infinity passes only where the reference has the same one") {
  for (const double out : {kInfinity, -kInfinity, 2.0}) {
    for (const double ref : {kInfinity, -kInfinity, 2.0}) {
      const std::vector<double> wanted{1, ref, 3};
      CHECK(decide_on({1, out, 3}, wanted, wanted).accepted == (out == ref));
    }
  }
}

TEST_CASE("a textbook algorithm that fails proves nothing") {
  const std::vector<double> ref{1, 2, 3};
  REQUIRE(decide_on(ref, ref, ref).accepted);
  CHECK(!decide_on(ref, ref, {1, kNaN, 3}).accepted);
  CHECK(!decide_on(ref, ref, {1, kInfinity, 3}).accepted);
}

TEST_CASE("a NaN among the measured errors refuses") {
  Distance good, bad;
  bad.max_error = kNaN;
  CHECK(decide("o", good, good, 2, 1e-7).accepted);
  CHECK(!decide("o", bad, good, 2, 1e-7).accepted);
  CHECK(!decide("o", good, bad, 2, 1e-7).accepted);
  bad.max_error = 0;
  bad.rms_error = kNaN;
  CHECK(!decide("o", bad, good, 2, 1e-7).accepted);
  CHECK(!decide("o", good, bad, 2, 1e-7).accepted);
}

TEST_CASE("the rms bound catches a small error that is everywhere") {
  // The textbook algorithm is off by a lot at one place. A tested tensor that is off by as much
  // everywhere would pass the bound on the largest error.
  std::vector<double> ref(100, 1.0), plain = ref, out = ref;
  plain[7] += 1e-3;
  for (double& x : out) x += 1e-3;
  const Verdict verdict = decide_on(out, ref, plain);
  CHECK(verdict.error.max_error <= verdict.allowed_max);
  CHECK(!verdict.accepted);
  out = ref;
  out[50] += 1e-3;
  CHECK(decide_on(out, ref, plain).accepted);
}

TEST_CASE("an exact textbook result still leaves room for roundings") {
  const double eps = epsilon<float>();
  std::vector<double> ref(100, 1.0), out = ref;
  ref[3] = out[3] = 8;
  out[3] = 8 * (1 + 2 * eps);  // at the largest element
  CHECK(decide_on(out, ref, ref).accepted);
  out[3] = 8 * (1 + 3 * eps);
  CHECK(!decide_on(out, ref, ref).accepted);
  // The floor of the rms goes with the rms of the reference, not with its largest element.
  out = ref;
  for (double& x : out) x += 8 * eps;
  const Verdict verdict = decide_on(out, ref, ref);
  CHECK(verdict.error.max_error <= verdict.allowed_max);
  CHECK(!verdict.accepted);
}

TEST_CASE("a magnitude widens the floor for results that cancel") {
  const double eps = epsilon<float>();
  // The result is about 1e-3, the difference of terms of size 4.
  const std::vector<double> ref{1e-3, -1e-3}, out{1e-3 + 6 * eps, -1e-3};
  CHECK(!decide_on(out, ref, ref).accepted);
  CHECK(decide_on(out, ref, ref, 4).accepted);
  CHECK(!decide_on({1e-3 + 9 * eps, -1e-3}, ref, ref, 4).accepted);
  // One smaller than the result itself changes nothing.
  CHECK(decide_on(out, ref, ref, 1e-6).allowed_max == decide_on(out, ref, ref).allowed_max);
}

TEST_CASE_TEMPLATE("the floor follows the type in which the result is stored", T, double, float,
                   half, bfloat16) {
  const auto out = vector_of<T>({1.0, 0.5});
  CHECK(accept("o", out, vector_of({1.0, 0.5}), out).floor == 2 * epsilon<T>());
}

TEST_CASE("strided views are compared index by index") {
  const auto ref = normal_tensor<double, 4>({2, 3, 4, 5}, 11);
  Tensor<float, 4> out({2, 4, 3, 5});  // heads and length exchanged
  copy(ref.view(), out.view().swap_axes(1, 2));
  const auto plain = converted<float>(ref);
  const auto verdict = [&] {
    const View<const float, 4> view = out.view().swap_axes(1, 2);
    return accept("o", view, ref.view(), plain.view());
  };
  CHECK(verdict().accepted);
  out(1, 3, 2, 4) += 0.5f;
  CHECK(!verdict().accepted);
  CHECK(verdict().error.worst == std::vector<std::int64_t>{1, 2, 3, 4});
}

TEST_CASE("the worst element is the first invalid one else the farthest") {
  const std::vector<double> ref{1, 2, 3, 4};
  CHECK(distance_of({1, 5, kNaN, kNaN}, ref).worst == std::vector<std::int64_t>{2});
  CHECK(distance_of({1, 5, kNaN, kNaN}, ref).invalid == 2);
  CHECK(distance_of({1, 2, kInfinity, 40}, ref).worst == std::vector<std::int64_t>{2});
  CHECK(distance_of({1, 5, 3, 7}, ref).worst == std::vector<std::int64_t>{1});
  CHECK(distance_of(ref, ref).worst == std::vector<std::int64_t>{0});
}

TEST_CASE("the report of a refused tensor says where, by how much and what can never pass") {
  const std::string report = decide_on({1, 3.25, 2}, {1, 4, 2}, {1, 4, 2}).report();
  for (const char* part : {"FAIL  o  ", "max 7.50e-01", "[1]", "3.25", "reference 4\n"}) {
    CHECK_MESSAGE(contains(report, part), part);
  }
  const std::string never = decide_on({1, kNaN, -kInfinity}, {1, 2, 3}, {1, kInfinity, 3}).report();
  for (const char* part : {"2 of 3", "NaN", "[1]: nan, reference 2"}) {
    CHECK_MESSAGE(contains(never, part), part);
  }
}

TEST_CASE("different shapes and empty ones are not compared") {
  const auto refusal = [](const Shape<2>& out, const Shape<2>& ref, const Shape<2>& plain) {
    return message_of<std::invalid_argument>([&] {
      accept("o", Tensor<float, 2>(out), Tensor<double, 2>(ref), Tensor<float, 2>(plain));
    });
  };
  CHECK(refusal({2, 3}, {2, 3}, {2, 3}) == "");
  CHECK(contains(refusal({3, 2}, {2, 3}, {2, 3}), "[3, 2]"));
  CHECK(contains(refusal({2, 3}, {2, 3}, {2, 4}), "[2, 4]"));
  CHECK(contains(refusal({0, 3}, {0, 3}, {0, 3}), "[0, 3]"));
}
