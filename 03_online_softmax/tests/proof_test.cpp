// The exact arithmetic is right; the proofs hold, cover the stated number of cases, and reject wrong
// recurrences.
#include "03_online_softmax/proof.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>

#include <doctest/doctest.h>

#include "common/tensor/random.hpp"

using namespace fa::online;
using namespace fa::online::proof;

namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

// A fraction with numerator -50 to 50 and denominator 1 to 50.
Exact random_fraction(std::uint64_t seed, std::uint64_t i) {
  return {static_cast<std::int64_t>(fa::random_bits(seed, 2 * i) % 101) - 50,
          static_cast<std::int64_t>(fa::random_bits(seed, 2 * i + 1) % 50) + 1};
}

constexpr Cases kMany{6, 3};  // 8 different scores
constexpr Cases kSome{5, 2};  // 6 different scores

// The number of rows of a length.
std::int64_t rows(const Cases& cases, std::size_t length) {
  std::int64_t count = 1;
  for (std::size_t j = 0; j < length; ++j) count *= cases.choices();
  return count;
}
std::int64_t rows_up_to(const Cases& cases, std::size_t shortest) {
  std::int64_t count = 0;
  for (std::size_t n = shortest; n <= cases.length; ++n) {
    count += rows(cases, n);
  }
  return count;
}

Row row_of(std::initializer_list<int> scores) {
  Row row;
  for (const int s : scores) row = row.with(s);
  return row;
}

// A wrong recurrence must fail at the row found by hand, with the result computed by hand.
template <class R>
void check_refused(const Row& row, const Combination& found, const Combination& expected) {
  const Outcome outcome = at_run_time(follows_definition<R>, kMany);
  CAPTURE(R::name);
  CHECK_FALSE(outcome.holds);
  CHECK(to_string(outcome.counterexample) == to_string(row));
  CHECK(outcome.found == found);
  CHECK(outcome.expected == expected);
  CHECK(first_departure<R>(row) == row.length);
  CHECK(at_run_time(follows_definition<R>, {1, 3}).holds);  // one key proves nothing
}

Combination weights(std::initializer_list<Exact> coefficients) {
  Combination result;
  std::size_t j = 0;
  for (const Exact& c : coefficients) result.of.at(j++) = c;
  return result;
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

TEST_CASE("what does not fit is refused, never wrong") {
  const Exact large(kLargest), small(1, kLargest);
  CHECK_THROWS_AS(large + Exact(1), std::overflow_error);
  CHECK_THROWS_AS(large + Exact(9), std::overflow_error);
  CHECK_THROWS_AS(large * Exact(2), std::overflow_error);
  CHECK_THROWS_AS(small * Exact(1, 2), std::overflow_error);
  CHECK_THROWS_AS(small + Exact(1, 2), std::overflow_error);
  CHECK_THROWS_AS(Exact{std::numeric_limits<std::int64_t>::min()}, std::overflow_error);
  CHECK_THROWS_AS(Exact::power_of_two(63), std::overflow_error);
  CHECK_THROWS_AS(Exact::power_of_two(-63), std::overflow_error);
  CHECK_THROWS_AS(Exact(1, 0), std::domain_error);
  CHECK_THROWS_AS(Exact(1) / Exact(0), std::domain_error);
  CHECK(large * small == Exact(1));  // reduced before the multiplication
  CHECK(large - large == Exact(0));
}

TEST_CASE("every proof holds, for as many cases as there are") {
  const auto check = [](const Outcome& outcome, std::int64_t cases) {
    CHECK(outcome.holds);
    CHECK(outcome.cases == cases);
  };
  check(at_run_time(base_case, kMany), kMany.choices());
  check(at_run_time(induction_step, kMany), rows_up_to(kMany, 2));
  check(at_run_time(follows_definition<Unnormalised>, kMany), rows_up_to(kMany, 1));
  check(at_run_time(follows_definition<Normalised>, kMany), rows_up_to(kMany, 1));
  std::int64_t cuts = 0, pairs_of_cuts = 0, tilings = 0;
  for (std::int64_t n = 0; n <= 5; ++n) {
    const std::int64_t count = rows(kSome, static_cast<std::size_t>(n));
    cuts += count * (n + 1);
    pairs_of_cuts += count * (n + 1) * (n + 2) / 2;
    if (n > 0) tilings += count << (n - 1);  // each gap may be a cut
  }
  check(at_run_time(merge_has_identity, kSome), rows_up_to(kSome, 0));
  check(at_run_time(merge_is_commutative, kSome), cuts);
  check(at_run_time(merge_is_associative, kSome), pairs_of_cuts);
  check(at_run_time(step_is_merge, kSome), rows_up_to(kSome, 1));
  check(at_run_time(any_tiling, kSome), tilings);
  CHECK(at_run_time(merge_is_union, kSome).holds);
  CHECK(at_run_time(any_order, kSome).holds);
}

TEST_CASE("wrong recurrences are refused with their simplest failure") {
  const Exact half(1, 2), third(1, 3), two_thirds(2, 3), quarter(1, 4);
  using namespace wrong;
  check_refused<MixedNormalisation>(row_of({0, 0}), weights({1, half}), weights({half, half}));
  check_refused<DividedTwice>(row_of({0, 0}), weights({half, quarter}), weights({half, half}));
  check_refused<LocalSoftmax>(row_of({0, 0}), weights({1, 1}), weights({half, half}));
  check_refused<SumNotRescaled>(row_of({0, 1}), weights({quarter, half}),
                                weights({third, two_thirds}));
  check_refused<OutputNotRescaled>(row_of({0, 1}), weights({two_thirds, two_thirds}),
                                   weights({third, two_thirds}));
  check_refused<InvertedCorrection>(row_of({0, 1}), weights({two_thirds, third}),
                                    weights({third, two_thirds}));
}

TEST_CASE("the definition gives what one computes by hand") {
  // 2^-2 + 2^-3 + 1 + 2^-4
  const ExactState x = definition(row_of({3, 2, 5, 1}));
  CHECK(x.m == 5);
  CHECK(x.l == Exact(23, 16));
  CHECK(attention(row_of({3, 2, 5, 1})) ==
        weights({Exact(4, 23), Exact(2, 23), Exact(16, 23), Exact(1, 23)}));
  const int neg_inf = BaseTwo::neg_inf;
  CHECK(attention(row_of({neg_inf, neg_inf})) == Combination{});
  CHECK(attention(row_of({neg_inf, 4})) == weights({0, 1}));
}
