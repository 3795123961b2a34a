#if defined(FA_STUDENT)
#include <algorithm>

#include "03_online_softmax/state.hpp"

namespace student {

using fa::online::State;

/// The state of the keys of both, with O normalised: a.o is the attention over the keys of a, and 0
/// for no keys; so are b.o and the result's o.
template <class W, class V>
constexpr State<W, V> merge_normalised(const State<W, V>& a, const State<W, V>& b) {
#ifdef FA_SOLUTION
  if (a.m == W::neg_inf) return b;  // no keys, or only masked ones
  if (b.m == W::neg_inf) return a;
  const auto m = std::max(a.m, b.m);
  const auto of_a = W::exp_diff(a.m, m) * a.l, of_b = W::exp_diff(b.m, m) * b.l;
  const auto l = of_a + of_b;
  return {m, l, of_a / l * a.o + of_b / l * b.o};
#else
  // TODO
  (void)b;
  return a;
#endif
}

}  // namespace student
#elif defined(FA_ENTRIES)
#include "03_online_softmax/state.hpp"

namespace online = fa::online;
using State = online::State<online::BaseE<double>, double>;
using Exact = online::State<online::BaseTwo, online::Combination>;

// What the lesson has is to be written, not called.
namespace fa::online {

template <>
constexpr ::State merge(const ::State&, const ::State&) = delete;
template <>
constexpr ::Exact merge(const ::Exact&, const ::Exact&) = delete;

}  // namespace fa::online

#include "student/merge.hpp"

FA_ENTRY(merge, [](const State& a, const State& b) { return student::merge_normalised(a, b); });
FA_ENTRY(merge_exact,
         [](const Exact& a, const Exact& b) { return student::merge_normalised(a, b); });
#elif defined(FA_GRADER)
#include "03_online_softmax/proof.hpp"
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
namespace online = fa::online;
namespace proof = fa::online::proof;

namespace {

using W = online::BaseE<double>;
using State = online::State<W, double>;
using Exact = proof::ExactState;

std::vector<double> numbers(const State& x) {
  return {x.m, x.l, x.o};
}

// The state of some keys, with O normalised; the value of key j of part p is j + p.
State of(const std::vector<double>& scores, double part) {
  State x;
  for (const double s : scores) x.m = std::max(x.m, s);
  for (const double s : scores) {
    const double p = W::exp_diff(s, x.m);
    x.l += p;
    x.o += p * (part += 1);
  }
  if (x.l != 0) x.o /= x.l;
  return x;
}

std::string text_of(const std::vector<double>& scores) {
  std::string result;
  for (const double s : scores) result += " " + text(s);
  return result.empty() ? " no keys" : result;
}

void grade(const std::vector<double>& left, const std::vector<double>& right) {
  const State a = of(left, 1), b = of(right, 10);
  const double m = std::max(a.m, b.m);
  const double of_a = W::exp_diff(a.m, m), of_b = W::exp_diff(b.m, m);
  const double l = of_a * a.l + of_b * b.l, sum = of_a * a.l * a.o + of_b * b.l * b.o;
  check(
      {"(m, l, O)", numbers(call<State>("merge", a, b))}, {m, l, l == 0 ? 0 : sum / l}, 1e-9,
      {{"the keys of b are lost", numbers(a)},
       {l == 0 ? "neither part has a key: 0 / 0 is NaN, and O must be 0" : "O is NaN", {m, l, NAN}},
       {"this is the merge for an O that is not normalised: a.o must be multiplied by a.l first",
        {m, l, of_a * a.o + of_b * b.o}},
       {"a part's weight lacks its l: O is a mean over l, which tells how many keys it stands for",
        {m, l, (of_a * a.o + of_b * b.o) / (of_a + of_b)}},
       {"O is divided by l, but a.o must be multiplied by a.l before, and b.o by b.l",
        {m, l, (of_a * a.o + of_b * b.o) / l}},
       {"sums that are relative to different maxima were added",
        {m, a.l + b.l, (a.l * a.o + b.l * b.o) / (a.l + b.l)}}},
      fmt::format("scores{} and{}", text_of(left), text_of(right)));
}

// With O divided by l.
Exact normalised(Exact x) {
  if (!(x.l == online::Exact(0))) x.o = x.o / x.l;
  return x;
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 0.5}, {0, 1});
  grade({2, 2}, {2});
}

FA_STAGE(odd) {
  grade({1, 3}, {2, 5});
  grade({7, 3}, {2, 5});
  grade({}, {4});
  grade({4, -1}, {});
  grade({}, {});
  grade({-900}, {900, 899});
}

// The merge of both parts of a row is the state of the row, at every cut.
FA_STAGE(proof) {
  std::int64_t cuts = 0;
  proof::for_rows(0, proof::Cases{4, 2}, [&](const proof::Row& row) {
    for (std::size_t cut = 0; cut <= row.length; ++cut, ++cuts) {
      const Exact a = normalised(proof::definition(row, 0, cut)),
                  b = normalised(proof::definition(row, cut, row.length));
      require(
          call<Exact>("merge_exact", a, b) == normalised(proof::definition(row)),
          fmt::format("wrong for a row of {} scores that is cut before score {}", row.length, cut));
    }
    return true;
  });
  note("cuts of rows proved", cuts);
}
#endif
/* Other answers, as changes of the solution
# nothing_rescaled: the sums are added as they are
@ odd: relative to different maxima
- const auto of_a = W::exp_diff(a.m, m) * a.l, of_b = W::exp_diff(b.m, m) * b.l;
+ const auto of_a = a.l, of_b = b.l;

# chapters_merge: O is treated as if it were not normalised
@ easy: an O that is not normalised
- return {m, l, of_a / l * a.o + of_b / l * b.o};
+ return {m, l, W::exp_diff(a.m, m) * a.o + W::exp_diff(b.m, m) * b.o};

# nan_for_no_keys: 0 / 0
@ odd: 0 / 0
- if (a.m == W::neg_inf) return b;  // no keys, or only masked ones
- if (b.m == W::neg_inf) return a;
+

# calls_the_lesson: the lesson's merge
@ compiles: use of deleted function
- if (b.m == W::neg_inf) return a;
+   if (b.m == W::neg_inf) return merge(b, a);

# into_the_larger: the state with the smaller maximum is added to the other
@ right
- const auto m = std::max(a.m, b.m);
- const auto of_a = W::exp_diff(a.m, m) * a.l, of_b = W::exp_diff(b.m, m) * b.l;
- const auto l = of_a + of_b;
- return {m, l, of_a / l * a.o + of_b / l * b.o};
+  if (a.m < b.m) return merge_normalised<W, V>(b, a);
+  State<W, V> sum = a;
+  const auto more = b.l * W::exp_diff(b.m, a.m);
+  sum.l = sum.l + more;
+  sum.o = a.l / sum.l * a.o + more / sum.l * b.o;
+  return sum;
*/
