// The exact arithmetic of the proofs.
#include "03_online_softmax/exact.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>

#include <doctest/doctest.h>

#include "03_online_softmax/state.hpp"
#include "common/tensor/random.hpp"

using namespace fa::online;

namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

// A fraction with numerator -50 to 50 and denominator 1 to 50.
Exact random_fraction(std::uint64_t seed, std::uint64_t i) {
  return {static_cast<std::int64_t>(fa::random_bits(seed, 2 * i) % 101) - 50,
          static_cast<std::int64_t>(fa::random_bits(seed, 2 * i + 1) % 50) + 1};
}

}  // namespace

TEST_CASE("fractions are kept in lowest terms with a positive denominator") {
  CHECK(to_string(Exact(6, -4)) == "-3/2");
  CHECK(to_string(Exact(0, -7)) == "0");
  CHECK(to_string(Exact(-8, -4)) == "2");
  CHECK(Exact(2, 6) == Exact(1, 3));
  CHECK(Exact(2, 6) != Exact(1, 4));
  CHECK(Exact(3, 8).value() == 0.375);
}

TEST_CASE("the four operations agree with cross-multiplied integers") {
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Exact a = random_fraction(1, i), b = random_fraction(2, i);
    const std::int64_t n = a.numerator(), d = a.denominator(), p = b.numerator(),
                       q = b.denominator();
    CHECK(a + b == Exact(n * q + p * d, d * q));
    CHECK(a - b == Exact(n * q - p * d, d * q));
    CHECK(a * b == Exact(n * p, d * q));
    if (p != 0) CHECK(a / b == Exact(n * q, d * p));
  }
}

TEST_CASE("arithmetic on random fractions obeys the laws of a field") {
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Exact a = random_fraction(3, i), b = random_fraction(4, i), c = random_fraction(5, i);
    CHECK((a + b) + c == a + (b + c));
    CHECK(a * (b + c) == a * b + a * c);
    CHECK((a + b) - b == a);
    if (b != Exact(0)) CHECK(a / b * b == a);
  }
}

TEST_CASE("powers of two go from 2^-62 to 2^62 and are dyadic") {
  CHECK(Exact::power_of_two(0) == Exact(1));
  CHECK(Exact::power_of_two(5) == Exact(32));
  CHECK(Exact::power_of_two(-3) == Exact(1, 8));
  CHECK(Exact::power_of_two(62) * Exact::power_of_two(-62) == Exact(1));
  CHECK_THROWS_AS(Exact::power_of_two(63), std::overflow_error);
  CHECK_THROWS_AS(Exact::power_of_two(-63), std::overflow_error);
  CHECK(Exact(3, 8).dyadic());
  CHECK(Exact(7).dyadic());
  CHECK_FALSE(Exact(1, 3).dyadic());
}

TEST_CASE("what does not fit is refused, never wrong") {
  const Exact large(kLargest), small(1, kLargest);
  CHECK_THROWS_AS(large + Exact(1), std::overflow_error);
  CHECK_THROWS_AS(large + Exact(9), std::overflow_error);
  CHECK_THROWS_AS(large * Exact(2), std::overflow_error);
  CHECK_THROWS_AS(small * Exact(1, 2), std::overflow_error);
  CHECK_THROWS_AS(small + Exact(1, 2), std::overflow_error);
  CHECK_THROWS_AS(Exact{std::numeric_limits<std::int64_t>::min()}, std::overflow_error);
  CHECK_THROWS_AS(Exact(1, 0), std::domain_error);
  CHECK_THROWS_AS(Exact(1) / Exact(0), std::domain_error);
  CHECK(large * small == Exact(1));  // reduced before the multiplication
  CHECK(large - large == Exact(0));
}

TEST_CASE("arithmetic is done while compiling") {
  static_assert(Exact(1, 3) + Exact(1, 6) == Exact(1, 2));
  static_assert(Exact(2, 3) * Exact(3, 4) / Exact(1, 2) == Exact(1));
  static_assert(BaseTwo::exp_diff(BaseTwo::neg_inf, BaseTwo::neg_inf) == Exact(0));
  CHECK(BaseTwo::exp_diff(3, 5) == Exact(1, 4));
}
