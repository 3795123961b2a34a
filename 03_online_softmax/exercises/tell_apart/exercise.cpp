#if defined(FA_STUDENT)
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "03_online_softmax/state.hpp"

namespace student {

/// The numbers that the recurrences are run in.
using W = fa::online::BaseE<double>;

/// The attention over the first `count` keys by definition; 0 when none is seen.
inline double attention(const std::vector<double>& scores, const std::vector<double>& values,
                        std::size_t count) {
  double m = W::neg_inf, l = 0, o = 0;
  for (std::size_t j = 0; j < count; ++j) m = std::max(m, scores[j]);
  for (std::size_t j = 0; j < count; ++j) {
    const double p = W::exp_diff(scores[j], m);
    l += p;
    o += p * values[j];
  }
  return l == 0 ? 0 : o / l;
}

/// True when a recurrence gives the attention by definition.
/// @tparam R has step(state, score, value) and output(state)
template <class R>
bool follows_definition() {
#ifdef FA_SOLUTION
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> rows{{2, 1, 0},          {0, 1, 3, 2}, {1, 1, 1, 1},
                                        {-inf, 1, -inf, 2}, {-inf, -inf}, {-400, 400},
                                        {-900, -901},       {5}};
  std::vector<double> wave;
  for (int j = 0; j < 50; ++j) wave.push_back(6 * std::sin(1.7 * j) + 0.1 * j);
  rows.push_back(wave);
  for (const std::vector<double>& scores : rows) {
    fa::online::State<W, double> x;
    std::vector<double> values;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      values.push_back(j % 2 == 0 ? 1.0 + double(j) : -3.0 * double(j));
      R::step(x, scores[j], values[j]);
      const double error = R::output(x) - attention(scores, values, j + 1);
      if (!(std::abs(error) <= 1e-9)) return false;
    }
  }
  return true;
#else
  // TODO: this row tells nothing. Which do?
  const std::vector<double> scores{2, 1, 0}, values{1, 1, 1};
  fa::online::State<W, double> x;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    R::step(x, scores[j], values[j]);
  }
  return std::abs(R::output(x) - attention(scores, values, 3)) <= 1e-9;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
using State = fa::online::State<student::W, double>;
using Step = fa::classroom::Callback<State(State, double, double)>;
using Output = fa::classroom::Callback<double(State)>;

namespace {

// A recurrence of the grader's.
struct Given {
  static inline Step of_step;
  static inline Output of_output;
  static void step(State& x, double score, double value) { x = of_step(x, score, value); }
  static double output(const State& x) { return of_output(x); }
};

}  // namespace

FA_ENTRY(follows_definition, [](Step step, Output output) {
  Given::of_step = step;
  Given::of_output = output;
  return student::follows_definition<Given>();
});
#elif defined(FA_GRADER)
#include "03_online_softmax/recurrence.hpp"
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
namespace online = fa::online;
namespace wrong = fa::online::wrong;

namespace {

using W = online::BaseE<double>;

// Wrong ones that the lesson does not have.
struct NothingRescaled : online::Unnormalised {
  static constexpr const char* name = "l and O not rescaled";
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s), p = W::exp_diff(s, m);
    x.l += p;
    x.o += p * v;
    x.m = m;
  }
};
struct NanForMasked : online::Unnormalised {
  static constexpr const char* name = "NaN for a masked key";
  template <class S>
  static void step(S& x, double s, double v) {
    const double m = std::max(x.m, s);
    const double rescale = x.l == 0 && s != W::neg_inf ? 0 : std::exp(x.m - m);
    const double p = std::exp(s - m);
    x.l = rescale * x.l + p;
    x.o = rescale * x.o + p * v;
    x.m = m;
  }
};
struct MaximumFromZero : online::Unnormalised {
  static constexpr const char* name = "maximum from 0";
  template <class S>
  static void step(S& x, double s, double v) {
    if (x.m == W::neg_inf) x.m = 0;
    online::Unnormalised::step(x, s, v);
  }
};

// A recurrence, which stays here.
template <class R>
Given given(bool right) {
  using S = online::State<W, double>;
  return {fmt::format("'{}'", R::name), right, [] {
            bool gave_nan = false;
            const bool accepted = call<bool>(
                "follows_definition", function<S, S, double, double>([](S x, double s, double v) {
                  R::step(x, s, v);
                  return x;
                }),
                function<double, S>([&](S x) {
                  const double output = R::output(x);
                  gave_nan |= std::isnan(output);
                  return output;
                }));
            return std::pair(accepted, gave_nan);
          }};
}

const std::vector<Given> kRight{given<online::Unnormalised>(true), given<online::Normalised>(true)};

}  // namespace

FA_STAGE(easy) {
  in_random_order(kRight);
}

FA_STAGE(odd) {
  std::vector<Given> all = kRight;
  for (const Given& wrong :
       {given<wrong::LocalSoftmax>(false), given<wrong::DividedTwice>(false),
        given<wrong::MixedNormalisation>(false), given<wrong::SumNotRescaled>(false),
        given<wrong::OutputNotRescaled>(false), given<wrong::InvertedCorrection>(false),
        given<NothingRescaled>(false), given<NanForMasked>(false), given<MaximumFromZero>(false)}) {
    all.push_back(wrong);
  }
  in_random_order(all);
}
#endif
/* Other answers, as changes of the solution
# falling_scores_only: no row whose maximum rises
@ odd: your test accepts 'l not rescaled'
- std::vector<std::vector<double>> rows{{2, 1, 0},          {0, 1, 3, 2}, {1, 1, 1, 1},
- {-inf, 1, -inf, 2}, {-inf, -inf}, {-400, 400},
- {-900, -901},       {5}};
+   std::vector<std::vector<double>> rows{{2, 1, 0}, {1, 1, 1, 1}, {-900, -901}, {5}};
- rows.push_back(wave);
+ std::sort(wave.rbegin(), wave.rend());
+ rows.push_back(wave);

# equal_values: the average of equal values is right whatever the weights are
@ odd: your test accepts 'l and O not rescaled'
- values.push_back(j % 2 == 0 ? 1.0 + double(j) : -3.0 * double(j));
+     values.push_back(1);

# nan_passes: a comparison that lets NaN through
@ odd: 'NaN for a masked key', which is wrong. It returned NaN to your test: your comparison lets NaN
- if (!(std::abs(error) <= 1e-9)) return false;
+     if (std::abs(error) > 1e-9) return false;

# exact: no rounding is allowed
@ easy: your test refuses
- if (!(std::abs(error) <= 1e-9)) return false;
+     if (error != 0) return false;

# permutations: all orders of a few scores, by std::next_permutation
@ right
- std::vector<std::vector<double>> rows{{2, 1, 0},          {0, 1, 3, 2}, {1, 1, 1, 1},
- ...
- rows.push_back(wave);
+  std::vector<std::vector<double>> rows{{-inf}, {-inf, -inf, -inf}};
+  for (std::vector<double> set : {std::vector<double>{-inf, 0, 1, 1}, {-800, -799, -798.5}, {-500, 0, 500}, {0, 0.5, 2, 7, 7.25}})
+    do rows.push_back(set); while (std::next_permutation(set.begin(), set.end()));
*/
