#include "common/classroom/grader.hpp"

#include "03_online_softmax/proof.hpp"
#include "common/classroom/prelude_cpu.hpp"

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

// The state of some keys; the value of key j of part p is j + p.
State of(const std::vector<double>& scores, double part) {
  State x;
  for (const double s : scores) x.m = std::max(x.m, s);
  for (const double s : scores) {
    const double p = W::exp_diff(s, x.m);
    x.l += p;
    x.o += p * (part += 1);
  }
  return x;
}

std::string text_of(const std::vector<double>& scores) {
  std::string result;
  for (const double s : scores) result += " " + text(s);
  return result.empty() ? " no keys" : result;
}

void grade(const std::vector<double>& left,
           const std::vector<double>& right) {
  const State a = of(left, 1), b = of(right, 10);
  const double m = std::max(a.m, b.m), low = std::min(a.m, b.m);
  const auto with = [&](double of_m, double a_l, double b_l, double a_o,
                        double b_o, double factor = 1) {
    return std::vector<double>{of_m, factor * (a_l * a.l + b_l * b.l),
                               factor * (a_o * a.o + b_o * b.o)};
  };
  const double fa_ = W::exp_diff(a.m, m), fb = W::exp_diff(b.m, m);
  check({"(m, l, O)", numbers(call<State>("merge", a, b))},
        with(m, fa_, fb, fa_, fb), 1e-9,
        {{"the keys of b are lost", numbers(a)},
         {"the smaller maximum was taken: exponentials can then overflow",
          with(low, W::exp_diff(a.m, low), W::exp_diff(b.m, low),
               W::exp_diff(a.m, low), W::exp_diff(b.m, low))},
         {"only a was rescaled; b may have the smaller maximum as well",
          with(m, fa_, 1, fa_, 1)},
         {"sums that are relative to different maxima were added",
          with(m, 1, 1, 1, 1)},
         {"O was not rescaled", with(m, fa_, fb, 1, 1)},
         {"the sums were averaged; sums of two sets are added",
          with(m, fa_, fb, fa_, fb, 0.5)},
         {"O is a sum already; it was multiplied by l again",
          with(m, fa_, fb, fa_ * a.l, fb * b.l)}},
        fmt::format("scores{} and{}", text_of(left), text_of(right)));
}

// The merge of both parts of a row is the state of the row, at every cut.
proof::Outcome merge_is_union(const proof::Cases& cases) {
  std::vector<std::pair<Exact, Exact>> parts;
  proof::for_rows(0, cases, [&](const proof::Row& row) {
    for (std::size_t cut = 0; cut <= row.length; ++cut) {
      parts.emplace_back(proof::definition(row, 0, cut),
                         proof::definition(row, cut, row.length));
    }
    return true;
  });
  const auto merged = call<std::vector<Exact>>("merge_exact", parts);
  std::size_t next = 0;
  proof::Outcome outcome;
  proof::for_rows(0, cases, [&](const proof::Row& row) {
    for (std::size_t cut = 0; cut <= row.length; ++cut) {
      const bool holds = merged.at(next++) == proof::definition(row);
      if (!proof::note(outcome, holds, row)) return false;
    }
    return true;
  });
  return outcome;
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

FA_STAGE(proof) {
  proof::Outcome (*volatile prove)(const proof::Cases&) = merge_is_union;
  const proof::Outcome outcome = prove({4, 2});
  note("cuts of rows proved", outcome.cases);
  require(outcome.holds, "wrong for some cut of a row of " +
                             text(double(outcome.counterexample.length)) +
                             " scores");
}
