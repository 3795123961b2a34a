#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
#include "common/classroom/grader.hpp"

using namespace fa::classroom;

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

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

// A way, right or wrong, to merge a message: it returns the factors of the state's O, of its l, and
// of the message, from the old and the new maximum and the message's LSE.
struct Factors {
  double o, l, part;
};
using Way = std::function<Factors(double m_old, double m, double lse)>;

// The results of a way to merge the messages; divided, and with ln(l), where these are true.
Partial merged(const std::vector<Partial>& messages, const Way& way, bool divide = true,
               bool logarithm = true) {
  std::vector<double> o(messages[0].o.size(), 0.0);
  double m = kMinusInfinity, l = 0;
  for (const Partial& message : messages) {
    if (message.lse == kMinusInfinity) continue;
    const double m_new = std::max(m, message.lse);
    const Factors factors = way(m, m_new, message.lse);
    for (std::size_t d = 0; d < o.size(); ++d) {
      o[d] = factors.o * o[d] + factors.part * message.o[d];
    }
    l = factors.l * l + factors.part;
    m = m_new;
  }
  if (l == 0) return {o, kMinusInfinity};
  for (double& x : o) x /= divide ? l : 1;
  return {o, m + (logarithm ? std::log(l) : 0)};
}

// By the definition: weights e^(LSE - largest LSE), all messages at once.
Partial reference(const std::vector<Partial>& messages) {
  Partial all{std::vector<double>(messages[0].o.size(), 0.0), kMinusInfinity};
  double m = kMinusInfinity, sum = 0;
  for (const Partial& message : messages) m = std::max(m, message.lse);
  if (m == kMinusInfinity) return all;
  for (const Partial& message : messages) sum += std::exp(message.lse - m);
  for (const Partial& message : messages) {
    const double w = std::exp(message.lse - m) / sum;
    for (std::size_t d = 0; d < all.o.size(); ++d) all.o[d] += w * message.o[d];
  }
  all.lse = m + std::log(sum);
  return all;
}

void check_after(const std::vector<Partial>& so_far, const Partial& out, const std::string& where) {
  const Partial right = reference(so_far);
  const auto e = [](double a, double b) { return std::exp(a - b); };
  std::vector<double> no_maximum = right.o;
  const double unsafe = std::exp(right.lse);
  for (double& o : no_maximum) o = unsafe == 0 ? 0 : NAN;
  no_maximum.push_back(unsafe == 0 ? kMinusInfinity : unsafe);
  const Way safe = [=](double old, double m, double lse) {
    return Factors{e(old, m), e(old, m), e(lse, m)};
  };
  const bool none = right.lse == kMinusInfinity;
  std::vector<double> nan(right.o.size() + 1, NAN), nan_o(right.o.size(), NAN);
  nan_o.push_back(kMinusInfinity);
  check({"(o, LSE)", numbers(out)}, numbers(right), 1e-9,
        {{"the earlier messages are lost: only the last one counts", numbers(so_far.back())},
         {none ? "no key has arrived yet, and the result is NaN: o must be 0, LSE -infinity"
               : "the result is NaN: -infinity - -infinity is, where no key has arrived before",
          nan},
         {none ? "no key has arrived yet: 0 / 0 is NaN, and o must be 0" : "o is NaN", nan_o},
         {unsafe == 0 ? "zeros, as if no key had arrived: e^LSE is 0 unless the largest LSE is "
                        "subtracted first, and no LSE is too small to count"
                      : "e^LSE was taken without the largest LSE subtracted: it is infinite",
          no_maximum},
         {"the outputs were averaged; a message with a larger LSE weighs more",
          numbers(merged(so_far,
                         [](double, double, double) {
                           return Factors{1, 1, 1};
                         }))},
         {"the state was not rescaled when the maximum rose",
          numbers(merged(so_far,
                         [=](double, double m, double lse) {
                           return Factors{1, 1, e(lse, m)};
                         }))},
         {"the message was not rescaled to the larger maximum",
          numbers(merged(so_far,
                         [=](double old, double m, double) {
                           return Factors{e(old, m), e(old, m), 1};
                         }))},
         {"the sum l was not rescaled when the maximum rose",
          numbers(merged(so_far,
                         [=](double old, double m, double lse) {
                           return Factors{e(old, m), 1, e(lse, m)};
                         }))},
         {"the output is not divided by l", numbers(merged(so_far, safe, false))},
         {"the LSE is the largest one alone: ln(l) is missing",
          numbers(merged(so_far, safe, true, false))}},
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
