#if defined(FA_STUDENT)
#include <limits>

#include "02_safe_softmax/softmax.hpp"

namespace student {

using fa::accumulator_t;
using fa::View;
using fa::safe::exact;
using fa::safe::exp_in;
using fa::safe::rounded;
using fa::safe::row_max;
using fa::safe::Traffic;

/// exp(s - max) / sum exp(s - max) in three passes; zeros for a row of -infinity.
/// @tparam T type of the elements and of each exp
/// @tparam A type in which difference and sum are computed, wider than T or T itself
/// @param s [n]
/// @param p [n], the probabilities
/// @return its passes, reads and writes (the fields of Traffic), one read or write for each element
template <class T, class A = accumulator_t<T>>
Traffic safe_softmax(View<const T, 1> s, View<T, 1> p) {
  Traffic traffic;
#ifdef FA_SOLUTION
  // listing: 02_safe_softmax/softmax.hpp#safe
#else
  // TODO: three passes; count them, and what they read and write. An element is
  // stored by p(j) = static_cast<T>(static_cast<accumulator_t<T>>(p)).
  (void)s, (void)p;
#endif
  return traffic;
}

}  // namespace student
#elif defined(FA_ENTRIES)
#include "02_safe_softmax/softmax.hpp"

// What the lesson has is to be written, not called.
namespace fa::safe {

template <>
Traffic safe_softmax<half, float>(View<const half, 1>, View<half, 1>) = delete;
template <>
Traffic safe_softmax<half, half>(View<const half, 1>, View<half, 1>) = delete;

}  // namespace fa::safe

#include "student/three_passes.hpp"

namespace {

// A float16 that counts what is done to it where it is an element of a row. Several reads in a row
// of one element are one, as a compiler makes them.
class Tracked {
 public:
  static inline std::int64_t reads = 0, writes = 0;

  Tracked() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  explicit Tracked(T x) : value_(static_cast<float>(x)) {}
  Tracked(const Tracked& other) : value_(other.read()) {}
  Tracked& operator=(const Tracked& other) {
    value_ = other.read();
    writes += element_;
    if (element_) last = nullptr;
    return *this;
  }
  operator float() const { return static_cast<float>(read()); }
  void make_element() { element_ = true; }

 private:
  fa::half read() const {
    reads += element_ && last != this;
    if (element_) last = this;
    return value_;
  }
  static inline const Tracked* last = nullptr;
  fa::half value_{};
  bool element_ = false;
};

}  // namespace

// The probabilities, over what stands in y at first, and passes, reads and writes as counted; A is
// float16 where `narrow`.
FA_ENTRY(safe_softmax, [](const std::vector<double>& scores, double untouched, bool narrow) {
  const auto n = static_cast<std::int64_t>(scores.size());
  fa::Tensor<fa::half, 1> x({n}), y({n});
  for (std::int64_t j = 0; j < n; ++j) {
    x(j) = static_cast<fa::half>(static_cast<float>(scores[static_cast<std::size_t>(j)]));
    y(j) = static_cast<fa::half>(static_cast<float>(untouched));
  }
  const auto run =
      narrow ? student::safe_softmax<fa::half, fa::half> : student::safe_softmax<fa::half, float>;
  const auto traffic = run(fa::View<const fa::half, 1>(x.view()), y.view());
  std::vector<double> probs;
  for (std::int64_t j = 0; j < n; ++j) probs.push_back(fa::safe::exact(y(j)));
  return std::pair(probs, traffic);
});
// Elements read and written, of a row of n.
FA_ENTRY(accesses, [](int n) {
  std::vector<Tracked> x(static_cast<std::size_t>(n), Tracked(1)), y(x);
  for (auto* row : {&x, &y}) {
    for (Tracked& element : *row) element.make_element();
  }
  student::safe_softmax<Tracked>(fa::View<const Tracked, 1>(x.data(), {n}),
                                 fa::View<Tracked, 1>(y.data(), {n}));
  return std::pair(Tracked::reads, Tracked::writes);
});
#elif defined(FA_GRADER)
#include "02_safe_softmax/softmax.hpp"
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
using fa::half;
using fa::safe::exp_in;
using fa::safe::rounded;

namespace {

using Result = std::pair<std::vector<double>, fa::safe::Traffic>;

constexpr double kUntouched = -7;  // no probability; NaN may be one's own
void grade(const std::vector<double>& scores, const std::string& where) {
  std::vector<double> s, right, undivided, stalled, unshifted, from_1;
  for (const double x : scores) s.push_back(rounded<half>(x));
  const double m = *std::max_element(s.begin(), s.end());
  const bool fully_masked = m == kMinusInfinity;
  const double shift = fully_masked ? 0 : m;
  double l = 0, stalls = 0, unshifted_l = 0;
  for (const double x : s) {
    l = rounded<float>(l + exp_in<half>(x - shift));
    stalls = rounded<half>(stalls + exp_in<half>(x - shift));
    unshifted_l += exp_in<half>(x);
  }
  for (const double x : s) {
    const double e = exp_in<half>(x - shift);
    right.push_back(fully_masked ? 0 : rounded<half>(e / l));
    undivided.push_back(e);
    stalled.push_back(e / stalls);
    unshifted.push_back(exp_in<half>(x) / unshifted_l);
    from_1.push_back(e / (l + 1));
  }
  std::vector<Mistake> mistakes{
      {"nothing was written", std::vector<double>(s.size(), kUntouched)},
      {"the exponentials were not divided by their sum", undivided},
      {"the sum is kept in 16 bits, where it stops growing", stalled},
      {"the sum starts at 1: it starts at 0, and the maximum adds its 1 itself", from_1},
      {"the maximum was not subtracted: e^x overflows beyond 11 in float16", unshifted}};
  if (fully_masked) {
    mistakes = {
        {"a row of -infinity sees no key: -infinity - -infinity and 0 / 0 are NaN, and its "
         "probabilities are zeros",
         std::vector<double>(s.size(), NAN)}};
  }
  const std::vector<double> out = call<Result>("safe_softmax", scores, kUntouched, false).first;
  // Two roundings to float16 of a probability, each half an epsilon, and the wide sum.
  check({"probabilities", out}, right, 2e-3 * *std::max_element(right.begin(), right.end()),
        mistakes, where);
  int differ = 0;
  for (std::size_t j = 0; j < s.size(); ++j) differ += out[j] != right[j];
  // Another order of the sum changes few last bits.
  require(differ <= 3,
          fmt::format("{} of {} probabilities differ in their last bits: each exponential is "
                      "rounded to T, exp_in<T>, and differences and partial sums to A, rounded<A> "
                      "(case: {})",
                      differ, s.size(), where));
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 2, 3}, "1 2 3");
  grade({0, 0, -1, 0.5}, "0 0 -1 0.5");
}

FA_STAGE(odd) {
  grade({1000, 1001, 1002}, "1000 1001 1002");
  grade({-1000, -1001}, "-1000 -1001");
  grade({kMinusInfinity, 2, kMinusInfinity}, "-inf 2 -inf");
  grade({kMinusInfinity, kMinusInfinity}, "-inf -inf");
  grade(std::vector<double>(5000, 3.0), "5000 equal scores");
  for (const std::uint64_t seed : {3, 4, 5}) {
    std::vector<double> row;
    for (std::uint64_t j = 0; j < 300; ++j) row.push_back(fa::random_normal(seed, j));
    grade(row, "300 random scores");
  }
  const std::vector<double> equal(2049, 3.0);
  require(call<Result>("safe_softmax", equal, kUntouched, true).first[0] == 1.0 / 2048,
          "the sum is not rounded to A: where A is float16, 2048 + 1 is 2048 (2049 equal scores)");
}

FA_STAGE(traffic) {
  const fa::safe::Traffic traffic =
      call<Result>("safe_softmax", std::vector<double>(100, 1.0), kUntouched, false).second;
  note("passes, by your count", traffic.passes);
  note("elements read, by your count", traffic.reads);
  note("elements written, by your count", traffic.writes);
  const auto [reads, writes] = call<std::pair<std::int64_t, std::int64_t>>("accesses", 100);
  // A pass may begin with the element with which the one before ended.
  require(traffic.passes != 3 || (reads >= 298 && reads <= 300 && writes == 100),
          fmt::format("100 elements were read {} times and written {} times; three passes read "
                      "each once, and the last one writes. (Each call of row_max(s) is a pass.)",
                      reads, writes));
  require(traffic.passes == 3 && traffic.reads == 300 && traffic.writes == 100,
          fmt::format("safe softmax of 100 elements takes three passes, 300 reads and 100 writes; "
                      "you count {}, {} and {}",
                      traffic.passes, traffic.reads, traffic.writes));
}
#endif
/* Other answers, as changes of the solution
# sum_in_16_bits: the sum is stored in T
@ odd: the sum is kept in 16 bits
- l = rounded<A>(l + exp_in<T>(rounded<A>(exact(s(j)) - shift)));
+   l = rounded<T>(l + exp_in<T>(rounded<A>(exact(s(j)) - shift)));

# sum_in_double: no step is rounded to A
@ odd: not rounded to A
- l = rounded<A>(l + exp_in<T>(rounded<A>(exact(s(j)) - shift)));
+   l += exp_in<T>(rounded<A>(exact(s(j)) - shift));

# no_key_is_nan: 0 / 0
@ odd: sees no key
- if (fully_masked) l = 1;  // 0 / 1, not 0 / 0
+

# maximum_twice: row_max is a pass
@ traffic: Each call of row_max(s) is a pass
- const bool fully_masked = m == -std::numeric_limits<double>::infinity();
+ const bool fully_masked = row_max(s) == -std::numeric_limits<double>::infinity();

# there_and_back: the second pass begins where the first one ended
@ right
- const double m = row_max(s);
- traffic.reads += s.size(0);
+  double m = -std::numeric_limits<double>::infinity();
+  for (std::int64_t j = 0; j < s.size(0); ++j, ++traffic.reads) m = exact(s(j)) > m ? exact(s(j)) : m;
- for (std::int64_t j = 0; j < s.size(0); ++j, ++traffic.reads) {
- l = rounded<A>(l + exp_in<T>(rounded<A>(exact(s(j)) - shift)));
+  for (std::int64_t j = s.size(0); j-- > 0; ++traffic.reads) {
+    l = rounded<A>(l + exp_in<T>(rounded<A>(exact(s(j)) - shift)));
*/
