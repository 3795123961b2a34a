/// @file
/// Lesson 03: the induction and the laws of the merge as code. Every check covers all rows of
/// scores up to a length and a size, in exact arithmetic, and is constexpr: the compiler proves
/// small cases, at the end of this file, the program and the tests large ones.
///
/// Values are stored as coefficients (Combination), so the results hold for all values. Scores are
/// integers and powers have base 2; the page of lesson 03 explains why that suffices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "03_online_softmax/recurrence.hpp"

namespace fa::online {

/// The first `length` coefficients, "1/3 2/3".
inline std::string to_string(const Combination& o, std::size_t length) {
  std::string text;
  for (std::size_t j = 0; j < length; ++j) {
    text += (j == 0 ? "" : " ") + to_string(o.of.at(j));
  }
  return text;
}

namespace proof {

/// A state in exact arithmetic.
using ExactState = State<BaseTwo, Combination>;

/// Scores of one row.
struct Row {
  std::array<int, Combination::kCapacity> scores{};  ///< the first `length`
  std::size_t length = 0;                            ///< number of scores
  /// The row with one more score.
  constexpr Row with(int score) const {
    Row result = *this;
    result.scores.at(result.length++) = score;
    return result;
  }
};

/// "3 2 -inf"
inline std::string to_string(const Row& row) {
  std::string text;
  for (std::size_t j = 0; j < row.length; ++j) {
    const int score = row.scores[j];
    text += fmt::format("{}{}", j == 0 ? "" : " ",
                        score == BaseTwo::neg_inf ? "-inf" : std::to_string(score));
  }
  return text;
}

/// The rows that a check covers: all with at most `length` scores from -size to size, or -infinity.
struct Cases {
  std::size_t length = 0;  ///< at most Combination::kCapacity
  int size = 0;            ///< largest score

  /// The number of different scores.
  constexpr int choices() const { return 2 * size + 2; }
  /// In the order 0, 1, -1, 2, -2, ..., -infinity, so that the first failure is the simplest.
  constexpr int score(int index) const {
    if (index == choices() - 1) return BaseTwo::neg_inf;
    return index % 2 == 1 ? (index + 1) / 2 : -(index / 2);
  }
};

/// The result of a check.
struct Outcome {
  std::int64_t cases = 0;  ///< cases tried; a failed check stops at the first that fails
  bool holds = true;       ///< none failed
  Row counterexample;      ///< the case that failed; the shortest, and of these the smallest
  Combination expected;    ///< attention by definition there
  Combination found;       ///< what was computed instead
};

/// Calls visit(row) for each row of exactly `length` scores, until one visit returns false.
/// @return false when one did
template <class Visit>
constexpr bool for_rows_of(std::size_t length, const Cases& cases, Visit visit) {
  std::array<int, Combination::kCapacity> digits{};
  for (;;) {
    Row row;
    for (std::size_t j = 0; j < length; ++j) {
      row = row.with(cases.score(digits.at(j)));
    }
    if (!visit(static_cast<const Row&>(row))) return false;
    std::size_t place = length;
    while (place > 0 && ++digits.at(place - 1) == cases.choices()) {
      digits.at(--place) = 0;
    }
    if (place == 0) return true;
  }
}

/// Calls visit(row) for each row of the cases, short ones first, until one visit returns false.
/// @param shortest length of the shortest rows
/// @param visit    gets a row, returns whether to continue
/// @return false when one did
template <class Visit>
constexpr bool for_rows(std::size_t shortest, const Cases& cases, Visit visit) {
  for (std::size_t length = shortest; length <= cases.length; ++length) {
    if (!for_rows_of(length, cases, visit)) return false;
  }
  return true;
}

/// The state of the keys `begin` to `end` (exclusive) of a row, by definition: the maximum first,
/// then the sums. Shares no code with the recurrences but the arithmetic.
constexpr ExactState definition(const Row& row, std::size_t begin, std::size_t end) {
  ExactState x;
  for (std::size_t j = begin; j < end; ++j) {
    if (row.scores[j] > x.m) x.m = row.scores[j];
  }
  for (std::size_t j = begin; j < end; ++j) {
    const Exact p = BaseTwo::exp_diff(row.scores[j], x.m);
    x.l = x.l + p;
    x.o.of[j] = p;  // the coefficient of v_j in O
  }
  return x;
}

/// The state of a whole row by definition.
constexpr ExactState definition(const Row& row) {
  return definition(row, 0, row.length);
}

/// Attention of a row by definition: O / l, and 0 for a fully masked row.
constexpr Combination attention(const Row& row) {
  const ExactState x = definition(row);
  return x.l == Exact(0) ? Combination{} : x.o / x.l;
}

/// Records one case of a check.
/// @return whether it held
constexpr bool note(Outcome& outcome, bool holds, const Row& row) {
  ++outcome.cases;
  if (!holds) {
    outcome.holds = false;
    outcome.counterexample = row;
  }
  return holds;
}

/// Base case of the induction: one step from the empty state gives the state of one key.
constexpr Outcome base_case(const Cases& cases) {
  Outcome outcome;
  //! [base_case]
  for_rows_of(1, cases, [&](const Row& row) {
    ExactState x;
    Unnormalised::step(x, row.scores[0], Combination::value(0));
    return note(outcome, x == definition(row), row);
  });
  //! [base_case]
  return outcome;
}

/// Induction step: from the state of n keys, by definition and not by earlier steps, one step gives
/// the state of n + 1 keys.
constexpr Outcome induction_step(const Cases& cases) {
  Outcome outcome;
  //! [induction_step]
  for_rows(2, cases, [&](const Row& row) {
    const std::size_t n = row.length - 1;
    ExactState x = definition(row, 0, n);  // the hypothesis
    Unnormalised::step(x, row.scores[n], Combination::value(n));
    return note(outcome, x == definition(row), row);
  });
  //! [induction_step]
  return outcome;
}

/// Runs a recurrence over rows from the empty state and compares its output with the attention by
/// definition. Short rows come first, so the length of a counterexample is the first wrong step.
/// @tparam R one of recurrence.hpp, correct or wrong
template <class R>
constexpr Outcome follows_definition(const Cases& cases) {
  Outcome outcome;
  for_rows(1, cases, [&](const Row& row) {
    ExactState x;
    for (std::size_t j = 0; j < row.length; ++j) {
      R::step(x, row.scores[j], Combination::value(j));
    }
    const Combination found = R::output(x), expected = attention(row);
    if (!(found == expected)) {
      outcome.found = found;
      outcome.expected = expected;
    }
    return note(outcome, found == expected, row);
  });
  return outcome;
}

/// The step after which a recurrence is first wrong on a row, counted from 1; 0 when it never is.
template <class R>
constexpr std::size_t first_departure(const Row& row) {
  ExactState x;
  Row seen;
  for (std::size_t j = 0; j < row.length; ++j) {
    R::step(x, row.scores[j], Combination::value(j));
    seen = seen.with(row.scores[j]);
    if (!(R::output(x) == attention(seen))) return j + 1;
  }
  return 0;
}

/// Calls holds(row, left, right) for every split of every row, with the states of both parts, until
/// it returns false.
template <class Holds>
constexpr Outcome for_splits(const Cases& cases, Holds holds) {
  Outcome outcome;
  for_rows(0, cases, [&](const Row& row) {
    for (std::size_t cut = 0; cut <= row.length; ++cut) {
      const ExactState left = definition(row, 0, cut), right = definition(row, cut, row.length);
      if (!note(outcome, holds(row, left, right), row)) return false;
    }
    return true;
  });
  return outcome;
}

/// The law that implies all others: the merge of the states of two sets of keys is the state of
/// their union. Checked for every split of every row.
constexpr Outcome merge_is_union(const Cases& cases) {
  return for_splits(cases, [](const Row& row, const ExactState& left, const ExactState& right) {
    return merge(left, right) == definition(row);
  });
}

/// merge(x, empty) = x = merge(empty, x).
constexpr Outcome merge_has_identity(const Cases& cases) {
  Outcome outcome;
  for_rows(0, cases, [&](const Row& row) {
    const ExactState x = definition(row), empty;
    return note(outcome, merge(x, empty) == x && merge(empty, x) == x, row);
  });
  return outcome;
}

/// merge(a, b) = merge(b, a), for the two parts of every split of every row.
constexpr Outcome merge_is_commutative(const Cases& cases) {
  return for_splits(cases, [](const Row&, const ExactState& a, const ExactState& b) {
    return merge(a, b) == merge(b, a);
  });
}

/// merge(merge(a, b), c) = merge(a, merge(b, c)), for every split of every row into three parts.
constexpr Outcome merge_is_associative(const Cases& cases) {
  Outcome outcome;
  for_rows(0, cases, [&](const Row& row) {
    for (std::size_t i = 0; i <= row.length; ++i) {
      for (std::size_t j = i; j <= row.length; ++j) {
        const ExactState a = definition(row, 0, i), b = definition(row, i, j),
                         c = definition(row, j, row.length);
        const bool holds = merge(merge(a, b), c) == merge(a, merge(b, c));
        if (!note(outcome, holds, row)) return false;
      }
    }
    return true;
  });
  return outcome;
}

/// A step of the recurrence is a merge with the state of one key.
constexpr Outcome step_is_merge(const Cases& cases) {
  Outcome outcome;
  for_rows(1, cases, [&](const Row& row) {
    const std::size_t n = row.length - 1;
    ExactState x = definition(row, 0, n);
    const ExactState merged = merge(x, definition(row, n, n + 1));
    Unnormalised::step(x, row.scores[n], Combination::value(n));
    return note(outcome, x == merged, row);
  });
  return outcome;
}

/// For every split of a row into tiles, merging the tiles from left to right gives its state. Bit j
/// of `cuts` is set if a tile ends after key j.
constexpr Outcome any_tiling(const Cases& cases) {
  Outcome outcome;
  for_rows(1, cases, [&](const Row& row) {
    for (unsigned cuts = 0; cuts < 1u << (row.length - 1); ++cuts) {
      ExactState x;
      std::size_t begin = 0;
      for (std::size_t j = 0; j < row.length; ++j) {
        if (j + 1 < row.length && (cuts >> j & 1u) == 0) continue;
        x = merge(x, definition(row, begin, j + 1));
        begin = j + 1;
      }
      if (!note(outcome, x == definition(row), row)) return false;
    }
    return true;
  });
  return outcome;
}

/// The state does not depend on the order of the keys. The orders checked exchange two keys; every
/// order is a sequence of such exchanges.
constexpr Outcome any_order(const Cases& cases) {
  Outcome outcome;
  for_rows(2, cases, [&](const Row& row) {
    for (std::size_t a = 0; a < row.length; ++a) {
      for (std::size_t b = a + 1; b < row.length; ++b) {
        ExactState x;
        for (std::size_t j = 0; j < row.length; ++j) {
          const std::size_t key = j == a ? b : j == b ? a : j;
          Unnormalised::step(x, row.scores[key], Combination::value(key));
        }
        if (!note(outcome, x == definition(row), row)) return false;
      }
    }
    return true;
  });
  return outcome;
}

/// Runs a check at run time. Use it for many cases: GCC 12 starts to evaluate a constexpr call with
/// constant arguments at compile time, stops at its limit of operations, and continues with a wrong
/// result.
inline Outcome at_run_time(Outcome (*check)(const Cases&), const Cases& cases) {
  return check(cases);
}

/// @{ The proofs of small cases by the compiler: if one fails, the lesson does not compile.
//! [static]
constexpr Cases kSmall{2, 1};  // up to 2 scores from -1, 0, 1, -inf

static_assert(base_case(kSmall).holds, "base case");
static_assert(induction_step(kSmall).holds, "induction step");
static_assert(merge_is_union(kSmall).holds, "merge is union");
static_assert(merge_is_associative(kSmall).holds, "associative");
static_assert(follows_definition<Unnormalised>(kSmall).holds, "FA-2");
static_assert(follows_definition<Normalised>(kSmall).holds, "FA-1");
static_assert(!follows_definition<wrong::DividedTwice>(kSmall).holds,
              "a wrong recurrence is refused");
//! [static]
/// @}

}  // namespace proof
}  // namespace fa::online
