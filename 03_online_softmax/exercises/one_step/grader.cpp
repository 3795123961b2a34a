#ifdef FA_ENTRIES  // the student's process
namespace online = fa::online;
using State = online::State<online::BaseE<double>, double>;
using Exact = online::State<online::BaseTwo, online::Combination>;

namespace {

// As in the lesson's proof.
struct Row {
  std::array<int, online::Combination::kCapacity> scores;
  std::size_t length;
};

}  // namespace

// m, l, O and the output after a row; the value of key j is j + 1.
FA_ENTRY(row, [](const std::vector<double>& scores) {
  State x;
  double value = 0;
  for (const double s : scores) student::OneStep::step(x, s, value += 1);
  return std::vector<double>{x.m, x.l, x.o, student::OneStep::output(x)};
});
FA_ENTRY(exact_rows, [](const std::vector<Row>& rows) {
  std::vector<std::pair<Exact, online::Combination>> result;
  for (const Row& row : rows) {
    Exact x;
    for (std::size_t j = 0; j < row.length; ++j) {
      student::OneStep::step(x, row.scores.at(j), online::Combination::value(j));
    }
    result.emplace_back(x, student::OneStep::output(x));
  }
  return result;
});
#else  // the grader
#include "common/classroom/grader.hpp"

#include "03_online_softmax/proof.hpp"
#include "03_online_softmax/recurrence.hpp"

using namespace fa::classroom;
namespace online = fa::online;

namespace {

using W = online::BaseE<double>;
constexpr double kMasked = W::neg_inf;

// What else is often written.
struct NothingRescaled : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s), p = W::exp_diff(s, m);
    x.l += p;
    x.o += p * v;
    x.m = m;
  }
};
struct MaximumNotKept : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = x.m;
    online::Unnormalised::step(x, s, v);
    x.m = m;
  }
};
struct OldMaximum : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s), p = W::exp_diff(s, x.m);
    x.l = W::exp_diff(x.m, m) * x.l + p;
    x.o = W::exp_diff(x.m, m) * x.o + p * v;
    x.m = m;
  }
};
struct SmallerMaximum : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::min(x.m, s);
    const double rescale = W::exp_diff(x.m, m), p = W::exp_diff(s, m);
    x.l = rescale * x.l + p;
    x.o = rescale * x.o + p * v;
    x.m = m;
  }
};
struct NotTakenIn : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double) {
    x.m = std::max(x.m, s);
  }
};

// The last score in place of the largest.
struct LastScore : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    const double rescale = W::exp_diff(x.m, s);
    x.l = rescale * x.l + W::exp_diff(s, s);
    x.o = rescale * x.o + W::exp_diff(s, s) * v;
    x.m = s;
  }
};
// Counts keys, or adds values, without the weight of the new key.
template <bool of_l, bool of_o>
struct NoWeight : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s);
    const double rescale = W::exp_diff(x.m, m), p = W::exp_diff(s, m);
    x.l = rescale * x.l + (of_l ? 1 : p);
    x.o = rescale * x.o + (of_o ? 1 : p) * v;
    x.m = m;
  }
};
// std::exp() of a difference, which is NaN while all keys are masked.
struct PlainExp : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s);
    const double rescale = std::exp(x.m - m), p = std::exp(s - m);
    x.l = rescale * x.l + p;
    x.o = rescale * x.o + p * v;
    x.m = m;
  }
};
// e^(m_new - m_old), which is infinite at the first key.
struct InvertedAtOnce : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s), p = W::exp_diff(s, m);
    const double rescale = W::exp_diff(m, x.m);
    x.l = rescale * x.l + p;
    x.o = rescale * x.o + p * v;
    x.m = m;
  }
};
// The step of FlashAttention-1 with the output of FlashAttention-2.
struct NormalisedInStep : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    online::Normalised::step(x, s, v);
  }
};

// m, l and O after a row; the value of key j is j + 1.
template <class R>
std::vector<double> after(const std::vector<double>& scores) {
  online::State<W, double> x;
  double value = 0;
  for (const double s : scores) R::step(x, s, value += 1);
  return {x.m, x.l, x.o, R::output(x)};
}

std::vector<double> by_definition(const std::vector<double>& scores) {
  double m = W::neg_inf, l = 0, o = 0, value = 0;
  for (const double s : scores) m = std::max(m, s);
  for (const double s : scores) {
    value += 1;
    l += W::exp_diff(s, m);
    o += W::exp_diff(s, m) * value;
  }
  return {m, l, o, l == 0 ? o : o / l};
}

void check_row(const std::vector<double>& scores) {
  namespace wrong = online::wrong;
  std::string where = "scores";
  for (const double s : scores) where += " " + text(s);
  where += "; m, l, O, O / l";
  const auto out = call<std::vector<double>>("row", scores);
  check(
      {"state", out}, by_definition(scores), 1e-12,
      {{"the sum l and the output O do not take in the new key", after<NotTakenIn>(scores)},
       {"a masked key makes the state NaN: with std::exp() the difference -infinity - -infinity "
        "is NaN; W::exp_diff() gives 0 there",
        after<PlainExp>(scores)},
       {"m was set to s, the last score; it is the larger one of m and s",
        after<LastScore>(scores)},
       {"the new key is added to l as 1; its term is e^(s - m)",
        after<NoWeight<true, false>>(scores)},
       {"v is added to O without its weight e^(s - m)", after<NoWeight<false, true>>(scores)},
       {"the new key is added without its weight: 1 to l, v to O; the weight is e^(s - m)",
        after<NoWeight<true, true>>(scores)},
       {"neither l nor O was rescaled when the maximum rose: was m overwritten before the rescale "
        "factor was computed?",
        after<NothingRescaled>(scores)},
       {"the sum l was not rescaled when the maximum rose: it is too large by e^(m_new - m_old)",
        after<wrong::SumNotRescaled>(scores)},
       {"the output O was not rescaled when the maximum rose",
        after<wrong::OutputNotRescaled>(scores)},
       {"the rescale factor is inverted: e^(m_new - m_old) is infinite at the first key, where "
        "m_old is -infinity",
        after<InvertedAtOnce>(scores)},
       {"this is the form of FlashAttention-1, in which O is divided by l in each step; here "
        "output() divides, so O must stay a sum",
        after<NormalisedInStep>(scores)},
       {"the rescale factor is inverted: it is e^(m_old - m_new), which is at most 1",
        after<wrong::InvertedCorrection>(scores)},
       {"the new term is divided by l in the step, the earlier ones are not: P is normalised and "
        "O is not. And output() divides again",
        after<wrong::DividedTwice>(scores)},
       {"the maximum m was not stored: the next step takes it for that of no keys",
        after<MaximumNotKept>(scores)},
       {"the smaller of m and s was taken: m is the largest score so far",
        after<SmallerMaximum>(scores)},
       {"the exponential of the new key is relative to the old maximum, which is -infinity at "
        "first",
        after<OldMaximum>(scores)}},
      where);
}

}  // namespace

FA_STAGE(easy) {
  check_row({2});
  check_row({3, 3, 1});
  check_row({5, 4, 2, -1});
  check_row({0, 0, 0});
}

FA_STAGE(odd) {
  check_row({1, 2});
  check_row({1, 3, 2, 7, 7, 5});
  check_row({-800, -700, 900});
  check_row({kMasked, 2, kMasked, 3});
  check_row({kMasked, kMasked});
  std::vector<double> row;
  for (int j = 0; j < 101; ++j) {
    row.push_back(4 * fa::random_normal(3, static_cast<std::uint64_t>(j)));
  }
  check_row(row);
}

FA_STAGE(proof) {
  namespace proof = online::proof;
  const proof::Cases cases{4, 2};
  std::vector<proof::Row> rows;
  proof::for_rows(0, cases, [&](const proof::Row& row) {
    rows.push_back(row);
    return true;
  });
  const auto found =
      call<std::vector<std::pair<proof::ExactState, online::Combination>>>("exact_rows", rows);
  require(found.size() == rows.size(), "rows are missing");
  proof::Outcome outcome;
  for (std::size_t i = 0; i < rows.size() && outcome.holds; ++i) {
    const bool holds = found[i].first == proof::definition(rows[i]) &&
                       found[i].second == proof::attention(rows[i]);
    proof::note(outcome, holds, rows[i]);
  }
  note("rows proved", outcome.cases);
  std::string row;
  for (std::size_t j = 0; j < outcome.counterexample.length; ++j) {
    const int s = outcome.counterexample.scores[j];
    row += s == online::BaseTwo::neg_inf ? " -inf" : " " + text(s);
  }
  require(outcome.holds, "wrong for the scores" + row);
}
#endif
