// The proofs hold, cover the stated number of cases, and reject wrong recurrences.
#include "03_online_softmax/proof.hpp"

#include <doctest/doctest.h>

using namespace fa::online;
using namespace fa::online::proof;

namespace {

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
}

Combination weights(std::initializer_list<Exact> coefficients) {
  Combination result;
  std::size_t j = 0;
  for (const Exact& c : coefficients) result.of.at(j++) = c;
  return result;
}

}  // namespace

TEST_CASE("the base case holds for every score") {
  const Outcome outcome = at_run_time(base_case, kMany);
  CHECK(outcome.holds);
  CHECK(outcome.cases == kMany.choices());
}

TEST_CASE("the induction step holds for more than 100000 rows") {
  const Outcome outcome = at_run_time(induction_step, kMany);
  CHECK(outcome.holds);
  CHECK(outcome.cases == rows_up_to(kMany, 2));
  CHECK(outcome.cases > 100000);
}

TEST_CASE("both right recurrences follow the definition") {
  const Outcome fa2 = at_run_time(follows_definition<Unnormalised>, kMany);
  CHECK(fa2.holds);
  CHECK(fa2.cases == rows_up_to(kMany, 1));
  const Outcome fa1 = at_run_time(follows_definition<Normalised>, kMany);
  CHECK(fa1.holds);
  CHECK(fa1.cases == rows_up_to(kMany, 1));
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

TEST_CASE("no wrong recurrence fails with one key, so one key proves nothing") {
  const Cases one{1, 3};
  CHECK(at_run_time(follows_definition<wrong::MixedNormalisation>, one).holds);
  CHECK(at_run_time(follows_definition<wrong::DividedTwice>, one).holds);
  CHECK(at_run_time(follows_definition<wrong::LocalSoftmax>, one).holds);
  CHECK(at_run_time(follows_definition<wrong::SumNotRescaled>, one).holds);
  CHECK(at_run_time(follows_definition<wrong::OutputNotRescaled>, one).holds);
  CHECK(at_run_time(follows_definition<wrong::InvertedCorrection>, one).holds);
}

TEST_CASE("the first departure waits for the maximum to rise") {
  const Row row = row_of({3, 2, 5, 1});
  CHECK(first_departure<Unnormalised>(row) == 0);
  CHECK(first_departure<Normalised>(row) == 0);
  CHECK(first_departure<wrong::SumNotRescaled>(row) == 3);
  CHECK(first_departure<wrong::OutputNotRescaled>(row) == 3);
  CHECK(first_departure<wrong::LocalSoftmax>(row) == 2);
}

TEST_CASE("the merge has an identity, is commutative and associative") {
  const Outcome identity = at_run_time(merge_has_identity, kSome);
  CHECK(identity.holds);
  CHECK(identity.cases == rows_up_to(kSome, 0));
  const Outcome commutative = at_run_time(merge_is_commutative, kSome);
  CHECK(commutative.holds);
  std::int64_t cuts = 0, pairs_of_cuts = 0;
  for (std::int64_t n = 0; n <= 5; ++n) {
    const std::int64_t count = rows(kSome, static_cast<std::size_t>(n));
    cuts += count * (n + 1);
    pairs_of_cuts += count * (n + 1) * (n + 2) / 2;
  }
  CHECK(commutative.cases == cuts);
  const Outcome associative = at_run_time(merge_is_associative, kSome);
  CHECK(associative.holds);
  CHECK(associative.cases == pairs_of_cuts);
}

TEST_CASE("merging is union, and a step is a merge with one key") {
  CHECK(at_run_time(merge_is_union, kSome).holds);
  const Outcome step = at_run_time(step_is_merge, kSome);
  CHECK(step.holds);
  CHECK(step.cases == rows_up_to(kSome, 1));
}

TEST_CASE("any tiling and any order give the same state") {
  const Outcome tiling = at_run_time(any_tiling, kSome);
  CHECK(tiling.holds);
  std::int64_t tilings = 0;
  for (std::size_t n = 1; n <= 5; ++n) {
    tilings += rows(kSome, n) << (n - 1);  // each gap may be a cut
  }
  CHECK(tiling.cases == tilings);
  CHECK(at_run_time(any_order, kSome).holds);
}

TEST_CASE("every l of whole scores is dyadic and at least 1") {
  for_rows(1, kSome, [](const Row& row) {
    const ExactState x = definition(row);
    REQUIRE(x.l.dyadic());
    REQUIRE((x.m == BaseTwo::neg_inf || x.l.numerator() >= x.l.denominator()));
    return true;
  });
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

TEST_CASE("rows and coefficients are printed as on the page") {
  CHECK(to_string(row_of({3, -2, BaseTwo::neg_inf})) == "3 -2 -inf");
  CHECK(to_string(weights({Exact(1, 3), Exact(2, 3)}), 2) == "1/3 2/3");
}
