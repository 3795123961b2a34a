#if defined(FA_STUDENT)
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace student {

/// What attention over some keys gives for one query.
struct Partial {
  std::vector<double> o;  ///< [head_dim], normalised; zeros without keys
  double lse;             ///< natural logarithm; -infinity without keys
};

/// The state of one query while messages arrive.
struct Running {
  std::vector<double> o;  ///< [head_dim]; zeros before the first message
  double m = -std::numeric_limits<double>::infinity();
  double l = 0;
};

/// Merges one message; they come in any order.
inline void arrive(Running& all, const Partial& part) {
#ifdef FA_SOLUTION
  if (std::isinf(part.lse)) return;
  const double m = std::max(all.m, part.lse);
  const double of_all = std::exp(all.m - m), of_part = std::exp(part.lse - m);
  for (std::size_t d = 0; d < all.o.size(); ++d) {
    all.o[d] = of_all * all.o[d] + of_part * part.o[d];
  }
  all.l = of_all * all.l + of_part;
  all.m = m;
#else
  // TODO: the earlier messages are lost.
  all.o = part.o;
  all.m = part.lse;
  all.l = 1;
#endif
}

/// The attention over all keys that have arrived.
inline Partial result(const Running& all) {
  Partial so_far{all.o, -std::numeric_limits<double>::infinity()};
#ifdef FA_SOLUTION
  if (all.l == 0) return so_far;
  for (double& o : so_far.o) o /= all.l;
  so_far.lse = all.m + std::log(all.l);
#else
  so_far.lse = all.m;
#endif
  return so_far;
}

}  // namespace student
#elif defined(FA_ENTRIES)
// O and the LSE.
using Message = std::pair<std::vector<double>, double>;

FA_ENTRY(results, [](const std::vector<Message>& messages) {
  student::Running all;
  all.o.assign(messages[0].first.size(), 0.0);
  std::vector<Message> after_each;
  for (const auto& [o, lse] : messages) {
    student::arrive(all, {o, lse});
    student::result(all);  // must not change the state
    const student::Partial result = student::result(all);
    after_each.emplace_back(result.o, result.lse);
  }
  return after_each;
});
#elif defined(FA_GRADER)
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

// As student::Partial.
struct Partial {
  std::vector<double> o;
  double lse = kMinusInfinity;
};
auto parts(Partial& x) {
  return std::tie(x.o, x.lse);
}

std::vector<double> numbers(const Partial& x) {
  std::vector<double> all = x.o;
  all.push_back(x.lse);
  return all;
}

// O and LSE of all messages, by the weight of each. `so_far` is the largest LSE up to the message.
template <class Weight>
Partial merged(const std::vector<Partial>& messages, Weight weight) {
  Partial all{std::vector<double>(messages[0].o.size(), 0.0), kMinusInfinity};
  double m = kMinusInfinity, so_far = kMinusInfinity, sum = 0;
  for (const Partial& message : messages) m = std::max(m, message.lse);
  if (m == kMinusInfinity) return all;
  for (const Partial& message : messages) {
    if (message.lse == kMinusInfinity) continue;
    so_far = std::max(so_far, message.lse);
    const double w = weight(message.lse, so_far, m);
    for (std::size_t d = 0; d < all.o.size(); ++d) all.o[d] += w * message.o[d];
    sum += w;
  }
  for (double& x : all.o) x /= sum;
  all.lse = m + std::log(sum);
  return all;
}

void check_after(const std::vector<Partial>& so_far, const Partial& out, const std::string& where) {
  const std::vector<double> got = numbers(out);
  const bool none = std::all_of(so_far.begin(), so_far.end(),
                                [](const Partial& x) { return x.lse == kMinusInfinity; });
  require(std::none_of(got.begin(), got.end(), [](double x) { return std::isnan(x); }),
          (none ? "no key has arrived yet, and the result is NaN: o must be 0, LSE -infinity ("
                : "the result is NaN: is it -infinity - -infinity, or e^LSE without the largest "
                  "LSE subtracted? (") +
              where + ")");
  require(none || got.back() != kMinusInfinity,
          "keys have arrived, and the LSE is -infinity: is the state lost, or NaN since an empty "
          "message, whose LSE is -infinity? (" +
              where + ")");
  const auto with = [&](auto weight) { return numbers(merged(so_far, weight)); };
  const std::vector<double> right =
      with([](double lse, double, double m) { return std::exp(lse - m); });
  const std::vector<double> not_rescaled =
      with([](double lse, double up_to_now, double) { return std::exp(lse - up_to_now); });
  std::vector<double> not_divided = right, stale_l = not_rescaled, without_l = right;
  double m = kMinusInfinity;
  for (const Partial& message : so_far) m = std::max(m, message.lse);
  without_l.back() = m;
  for (std::size_t d = 0; d + 1 < right.size(); ++d) {
    not_divided[d] *= std::exp(right.back() - m);
    stale_l[d] = right[d] * std::exp(right.back() - stale_l.back());
  }
  check({"(o, LSE)", got}, right, 1e-9,
        {{"the earlier messages are lost: only the last one counts", numbers(so_far.back())},
         {"the outputs were averaged; a message with a larger LSE weighs more",
          with([](double, double, double) { return 1.0; })},
         {"o is a sum still: the result must divide it by l", not_divided},
         {"the LSE is m + ln(l), and here it is m", without_l},
         {"the state was not rescaled when the maximum rose", not_rescaled},
         {"o is rescaled when the maximum rises, and l is not", stale_l},
         {"the LSE is right, o is not: when the maximum rises, o is rescaled as l is",
          std::abs(got.back() - right.back()) < 1e-9 ? got : right}},
        where);
}

// Messages with these LSE, in this order.
void grade(const std::vector<double>& of_messages, std::size_t head_dim = 3) {
  std::vector<Partial> messages;
  std::string where = "LSE in the order of arrival:";
  for (const double lse : of_messages) {
    Partial message{std::vector<double>(head_dim, 0.0), lse};
    for (std::size_t d = 0; d < head_dim && lse != kMinusInfinity; ++d) {
      message.o[d] = fa::random_normal(1, messages.size() * head_dim + d);
    }
    messages.push_back(message);
    where += " " + text(lse);
  }
  const auto out = call<std::vector<Partial>>("results", messages);
  require(out.size() == messages.size(), "one result for each message is needed");
  for (std::size_t n = messages.size(); n > 0; --n) {
    check_after({messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(n)}, out[n - 1],
                where + ", after " + std::to_string(n));
  }
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 0.5, 2});
  grade({2, 1, 0.25, 1.5});
}

FA_STAGE(odd) {
  constexpr double kNone = kMinusInfinity;
  grade({kNone, 1, kNone, 2});
  grade({1, kNone});
  grade({kNone, kNone});
  grade({900, -900, 901});
  grade({-900, -901, -899});
  grade({-1000, 0, 1000});
  grade({0});
  grade({1, 1, 1, 1, 1, 1, 1}, 1);
  grade({3, 2, 1, 2, 3}, 8);
}
#endif
/* Other answers, as changes of the solution
# averaged: each message counts the same
@ easy: averaged
- const double of_all = std::exp(all.m - m), of_part = std::exp(part.lse - m);
+   const double of_all = 1, of_part = 1;

# only_the_message_rescaled: the state keeps its old maximum's scale
@ easy: state was not rescaled
- const double of_all = std::exp(all.m - m), of_part = std::exp(part.lse - m);
+   const double of_all = 1, of_part = std::exp(part.lse - m);

# largest_lse: m for the LSE
@ easy: here it is m
- so_far.lse = all.m + std::log(all.l);
+   so_far.lse = all.m;

# empty_message: -infinity - -infinity
@ odd: -infinity - -infinity
- if (std::isinf(part.lse)) return;
+

# no_maximum: e^LSE itself
@ odd: without the largest LSE
- const double m = std::max(all.m, part.lse);
+   const double m = 0;

# normalised: O is kept divided, m is the LSE
@ right
- const double m = std::max(all.m, part.lse);
- ...
- all.m = m;
+  if (all.l == 0) {
+    all = {part.o, part.lse, 1};
+    return;
+  }
+  const double t = 1 / (1 + std::exp(all.m - part.lse));
+  for (std::size_t d = 0; d < all.o.size(); ++d) {
+    all.o[d] = (1 - t) * all.o[d] + t * part.o[d];
+  }
+  all.m = std::max(all.m, part.lse) + std::log1p(std::exp(-std::fabs(all.m - part.lse)));
*/
