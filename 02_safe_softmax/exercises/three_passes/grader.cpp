#ifdef FA_ENTRIES  // the student's process
#include "02_safe_softmax/softmax.hpp"

// What the lesson has is to be written, not called.
namespace fa::safe {

template <>
Traffic safe_softmax<half, float>(View<const half, 1>, View<half, 1>) = delete;
template <>
Traffic safe_softmax<float, float>(View<const float, 1>, View<float, 1>) = delete;
template <>
Traffic safe_softmax<double, double>(View<const double, 1>, View<double, 1>) = delete;

}  // namespace fa::safe

#include "student/three_passes.hpp"

namespace {

// A float16 that notes what is done to it where it is an element of a row.
class Tracked {
 public:
  static inline std::vector<const Tracked*> accesses;  // elements that are read; null for a write

  Tracked() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  explicit Tracked(T x) : value_(static_cast<float>(x)) {}
  Tracked(const Tracked& other) : value_(other.read()) {}
  Tracked& operator=(const Tracked& other) {
    value_ = other.read();
    if (element_) accesses.push_back(nullptr);
    return *this;
  }
  operator float() const { return static_cast<float>(read()); }
  void make_element() { element_ = true; }

 private:
  fa::half read() const {
    if (element_) accesses.push_back(this);
    return value_;
  }
  fa::half value_{};
  bool element_ = false;
};

// Elements read. Several reads in a row of one element are one, as a compiler makes them.
std::int64_t reads_of(const std::vector<const Tracked*>& accesses) {
  std::int64_t reads = 0;
  const Tracked* last = nullptr;
  for (const Tracked* const element : accesses) {
    reads += element != nullptr && element != last;
    last = element;
  }
  return reads;
}

}  // namespace

using Row = fa::Tensor<fa::half, 1>;

FA_ENTRY(safe_softmax, [](const Row& x, Row y) {
  const auto traffic =
      student::safe_softmax<fa::half>(fa::View<const fa::half, 1>(x.view()), y.view());
  return std::pair(y, traffic);
});
// With all arithmetic in 16 bits.
FA_ENTRY(narrow, [](const Row& x, Row y) {
  student::safe_softmax<fa::half, fa::half>(fa::View<const fa::half, 1>(x.view()), y.view());
  return y;
});
// Elements read and written, of a row of n.
FA_ENTRY(accesses, [](int n) {
  std::vector<Tracked> x(static_cast<std::size_t>(n)), y(x.size());
  for (int j = 0; j < n; ++j) {
    x[static_cast<std::size_t>(j)] = Tracked(j % 7);
  }
  for (auto* row : {&x, &y}) {
    for (Tracked& element : *row) element.make_element();
  }
  Tracked::accesses.clear();
  student::safe_softmax<Tracked>(fa::View<const Tracked, 1>(x.data(), {n}),
                                 fa::View<Tracked, 1>(y.data(), {n}));
  const auto& accesses = Tracked::accesses;
  const std::int64_t writes = std::count(accesses.begin(), accesses.end(), nullptr);
  return std::pair(reads_of(accesses), writes);
});
#else  // the grader
#include "02_safe_softmax/softmax.hpp"
#include "common/classroom/grader.hpp"

using namespace fa::classroom;
using fa::half;

namespace {

using Counts = fa::safe::Traffic;

constexpr double kUntouched = -7;  // no probability; NaN may be one's own
constexpr double kMasked = -std::numeric_limits<double>::infinity();

std::vector<double> numbers(const fa::Tensor<half, 1>& row) {
  std::vector<double> result;
  for (std::int64_t j = 0; j < row.size(0); ++j) {
    result.push_back(fa::safe::exact(row(j)));
  }
  return result;
}

void grade(const std::vector<double>& scores, const std::string& where) {
  const auto n = static_cast<std::int64_t>(scores.size());
  fa::Tensor<half, 1> x({n}), y({n});
  for (std::int64_t j = 0; j < n; ++j) {
    x(j) = static_cast<half>(static_cast<float>(scores[j]));
  }
  fill_with(y.view(), [](std::uint64_t) { return kUntouched; });
  y = call<std::pair<fa::Tensor<half, 1>, Counts>>("safe_softmax", x, y).first;
  const std::vector<double> s = numbers(x);
  double m = kMasked, l = 0, stalls = 0;
  for (const double v : s) m = std::max(m, v);
  const bool fully_masked = m == kMasked;
  const double shift = fully_masked ? 0 : m;
  for (const double v : s) {
    const double e = fa::safe::exp_in<half>(v - shift);
    l += e;
    stalls = fa::safe::rounded<half>(stalls + e);
  }
  std::vector<double> right, undivided, stalled, unshifted;
  double unshifted_l = 0;
  for (const double v : s) unshifted_l += fa::safe::exp_in<half>(v);
  for (const double v : s) {
    const double e = fa::safe::exp_in<half>(v - shift);
    right.push_back(fully_masked ? 0 : e / l);
    undivided.push_back(e);
    stalled.push_back(e / stalls);
    unshifted.push_back(fa::safe::exp_in<half>(v) / unshifted_l);
  }
  // Two roundings to float16 of a probability, each half an epsilon, and the wide sum.
  const double largest = *std::max_element(right.begin(), right.end());
  std::vector<Mistake> mistakes{
      {"nothing was written", std::vector<double>(s.size(), kUntouched)},
      {"the exponentials were not divided by their sum", undivided},
      {"the sum is kept in 16 bits, where it stops growing", stalled},
      {"the maximum was not subtracted: e^x overflows beyond 11 in float16", unshifted}};
  if (fully_masked) {
    mistakes = {
        {"a row of -infinity sees no key: -infinity - -infinity and 0 / 0 are NaN, and its "
         "probabilities are zeros",
         std::vector<double>(s.size(), NAN)}};
  }
  check({"probabilities", numbers(y)}, right, 2e-3 * largest, mistakes, where);
}

using fa::safe::exp_in;
using fa::safe::rounded;
using Result = std::pair<fa::Tensor<half, 1>, Counts>;

constexpr std::int64_t kScores = 300;
// Another order of the sum changes few last bits.
constexpr std::int64_t kFew = 3;

fa::Tensor<half, 1> random_row(std::uint64_t seed) {
  fa::Tensor<half, 1> x({kScores});
  for (std::int64_t j = 0; j < kScores; ++j) {
    x(j) = static_cast<half>(static_cast<float>(fa::random_normal(seed, j)));
  }
  return x;
}

// How many probabilities differ from exp(s - m) / l, in last bits.
template <class Exp>
std::int64_t different(const fa::Tensor<half, 1>& p, const std::vector<double>& s, Exp exp,
                       double l) {
  const std::vector<double> out = numbers(p);
  std::int64_t count = 0;
  for (std::size_t j = 0; j < s.size(); ++j) count += out[j] != rounded<half>(exp(s[j]) / l);
  return count;
}

// Each exponential and each partial sum is rounded: to the last bit.
void grade_roundings(std::uint64_t seed) {
  const fa::Tensor<half, 1> x = random_row(seed), unset({kScores});
  const std::vector<double> s = numbers(x);
  const double m = *std::max_element(s.begin(), s.end());
  const auto exp_t = [=](double v) { return exp_in<half>(v - m); };
  const auto narrow = [=](double v) { return exp_in<half>(rounded<half>(v - m)); };
  double l = 0;
  for (const double v : s) l = rounded<float>(l + exp_t(v));
  const std::int64_t off = different(call<Result>("safe_softmax", x, unset).first, s, exp_t, l);
  require(off <= kFew,
          fmt::format("{} of {} probabilities differ in their last bits: each exponential is "
                      "rounded to T, exp_in<T>, and differences and partial sums to A, rounded<A>",
                      off, kScores));
  // Another order of the sum gives another number of 16 bits.
  const auto y = call<fa::Tensor<half, 1>>("narrow", x, unset);
  std::int64_t least = kScores;
  for (double sum = rounded<half>(0.85 * l); least > kFew && sum < 1.15 * l;
       sum += std::exp2(std::floor(std::log2(sum)) - 10)) {
    least = std::min(least, different(y, s, narrow, sum));
  }
  require(least <= kFew, fmt::format("with A = float16, {} of {} probabilities differ; each "
                                     "difference and each partial sum is rounded to A: rounded<A>",
                                     least, kScores));
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 2, 3}, "1 2 3");
  grade({0, 0, -1, 0.5}, "0 0 -1 0.5");
}

FA_STAGE(odd) {
  grade({1000, 1001, 1002}, "1000 1001 1002");
  grade({-1000, -1001}, "-1000 -1001");
  grade({kMasked, 2, kMasked}, "-inf 2 -inf");
  grade({kMasked, kMasked}, "-inf -inf");
  grade(std::vector<double>(5000, 3.0), "5000 equal scores");
  for (const std::uint64_t seed : {3, 4, 5}) grade_roundings(seed);
}

FA_STAGE(traffic) {
  fa::Tensor<half, 1> x({100}), y({100});
  const Counts traffic = call<std::pair<fa::Tensor<half, 1>, Counts>>("safe_softmax", x, y).second;
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
