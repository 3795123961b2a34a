#if defined(FA_STUDENT)
#include <algorithm>

#include "03_online_softmax/state.hpp"

namespace student {

using fa::online::State;

struct OneStep {
  /// Takes in one more key with score s and value v.
  template <class W, class V>
  static constexpr void step(State<W, V>& x, typename W::Score s, const V& v) {
#ifdef FA_SOLUTION
    // listing: 03_online_softmax/recurrence.hpp#unnormalised
#else
    // TODO: x.m, x.l and x.o must describe the old keys and this one.
    (void)v;
    x.m = std::max(x.m, s);
#endif
  }

  /// The attention so far; 0 when no key was seen.
  template <class W, class V>
  static constexpr V output(const State<W, V>& x) {
    if (x.l == typename W::Number(0)) return x.o;
    return x.o / x.l;
  }
};

}  // namespace student
#elif defined(FA_ENTRIES)
namespace online = fa::online;
using State = online::State<online::BaseE<double>, double>;
using Exact = online::State<online::BaseTwo, online::Combination>;

// m, l, O and the output after a row; the value of key j is j + 1.
FA_ENTRY(row, [](const std::vector<double>& scores) {
  State x;
  double value = 0;
  for (const double s : scores) student::OneStep::step(x, s, value += 1);
  return std::vector<double>{x.m, x.l, x.o, student::OneStep::output(x)};
});
FA_ENTRY(exact_row, [](const std::vector<int>& scores) {
  Exact x;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    student::OneStep::step(x, scores[j], online::Combination::value(j));
  }
  return std::pair(x, student::OneStep::output(x));
});
#elif defined(FA_GRADER)
#include "03_online_softmax/proof.hpp"
#include "03_online_softmax/recurrence.hpp"
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
namespace online = fa::online;

namespace {

using W = online::BaseE<double>;
constexpr double kMasked = W::neg_inf;

double one(double, double) {
  return 1;
}
double zero(double, double) {
  return 0;
}
double plain_exp(double a, double b) {
  return std::exp(a - b);
}
// A step with another rescale factor, or another weight of the new key.
template <double (*rescale)(double m, double m_new), double (*weight)(double s, double m)>
struct With : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s), r = rescale(x.m, m), p = weight(s, m);
    x.l = r * x.l + p;
    x.o = r * x.o + p * v;
    x.m = m;
  }
};
// Only the sum is rescaled.
struct OutputNotRescaled : online::Unnormalised {
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s), p = W::exp_diff(s, m);
    x.l = W::exp_diff(x.m, m) * x.l + p;
    x.o = x.o + p * v;
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
  std::string where = "scores";
  for (const double s : scores) where += " " + text(s);
  where += "; m, l, O, O / l";
  const auto out = call<std::vector<double>>("row", scores);
  check(
      {"state", out}, by_definition(scores), 1e-12,
      {{"the sum l and the output O do not take in the new key", after<With<one, zero>>(scores)},
       {"a masked key makes the state NaN: with std::exp() the difference -infinity - -infinity "
        "is NaN; W::exp_diff() gives 0 there",
        after<With<plain_exp, plain_exp>>(scores)},
       {"neither l nor O was rescaled when the maximum rose: was m overwritten before the rescale "
        "factor was computed?",
        after<With<one, W::exp_diff>>(scores)},
       {"the sum l was not rescaled when the maximum rose: it is too large by e^(m_new - m_old)",
        after<online::wrong::SumNotRescaled>(scores)},
       {"O was not rescaled when the maximum rose: it needs the same factor as l",
        after<OutputNotRescaled>(scores)},
       {"this is the form of FlashAttention-1, in which O is divided by l in each step; here "
        "output() divides, so O must stay a sum",
        after<NormalisedInStep>(scores)}},
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
  std::int64_t rows = 0;
  proof::for_rows(0, proof::Cases{4, 2}, [&](const proof::Row& row) {
    const std::vector<int> scores(row.scores.begin(), row.scores.begin() + row.length);
    const auto [state, output] =
        call<std::pair<proof::ExactState, online::Combination>>("exact_row", scores);
    std::string where;
    for (const int s : scores) where += s == online::BaseTwo::neg_inf ? " -inf" : " " + text(s);
    require(state == proof::definition(row) && output == proof::attention(row),
            "wrong for the scores" + where);
    ++rows;
    return true;
  });
  note("rows proved", rows);
}
#endif
/* Other answers, as changes of the solution
# l_not_rescaled: the sum is not rescaled when the maximum rises
@ odd: the sum l was not rescaled when the maximum rose
- x.l = rescale * x.l + p;
+ x.l = x.l + p;

# o_not_rescaled: only the sum is rescaled
@ odd: O was not rescaled
- x.o = rescale * x.o + p * v;
+ x.o = x.o + p * v;

# m_first: m is overwritten before the rescale factor is computed
@ odd: was m overwritten
- const auto rescale = W::exp_diff(x.m, m), p = W::exp_diff(s, m);
+ x.m = m;
+ const auto rescale = W::exp_diff(x.m, m), p = W::exp_diff(s, m);

# plain_exp: std::exp() for ordinary numbers
@ odd: -infinity - -infinity is NaN
- const auto rescale = W::exp_diff(x.m, m), p = W::exp_diff(s, m);
+ auto rescale = W::exp_diff(x.m, m), p = W::exp_diff(s, m);
+ if constexpr (std::is_same_v<typename W::Number, double>) {
+   rescale = std::exp(x.m - m);
+   p = std::exp(s - m);
+ }

# flash_1: O is normalised in each step
@ easy: the form of FlashAttention-1
- x.l = rescale * x.l + p;
- x.o = rescale * x.o + p * v;
+ const auto l_old = rescale * x.l;
+ x.l = l_old + p;
+ if (!(x.l == typename W::Number(0))) x.o = (l_old * x.o + p * v) / x.l;

# branch: two cases
@ right
- const auto m = std::max(x.m, s);
- ...
- x.m = m;
+    if (s > x.m) {
+      x.l = W::exp_diff(x.m, s) * x.l + W::exp_diff(s, s);
+      x.o = W::exp_diff(x.m, s) * x.o + W::exp_diff(s, s) * v;
+      x.m = s;
+    } else {
+      const auto p = W::exp_diff(s, x.m);
+      x.l = x.l + p; x.o = x.o + p * v;
+    }
*/
