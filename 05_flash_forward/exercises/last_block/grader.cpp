#ifdef FA_ENTRIES  // the student's process
// lse of each matrix, by launches one after the other with the same counter, and then the counter.
FA_ENTRY(run, [](const std::vector<std::vector<float>>& matrices, int parts) {
  return watched([&] {
    auto counter = on_device(std::vector<unsigned>{0});
    DeviceBuffer<float> m(parts * kColumns), l(parts * kColumns);
    std::vector<double> all;
    for (const std::vector<float>& matrix : matrices) {
      const auto x = on_device(matrix);
      DeviceBuffer<float> lse(kColumns);
      launch(lse_of_columns, {{static_cast<unsigned>(parts)}, {kColumns}}, x.data(), lse.data(),
             m.data(), l.data(), counter.data(), static_cast<int>(matrix.size()) / kColumns);
      for (const double value : from_device(lse)) all.push_back(value);
    }
    all.push_back(from_device(counter)[0]);
    return all;
  });
});
#else  // the grader
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kColumns = 128;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

const std::string kUnordered =
    "nothing orders a store before a load of another thread. All threads of a block have stored "
    "(barrier), these stores come before the addition (fence), only the last block goes on, the "
    "addition comes before its loads (acquire), and all of its threads learn of it (barrier)";

const std::vector<Reason> kReasons = {
    {"barrier", "only some threads come to the barrier: no thread may leave before it"},
    {"out of bounds", "it reads or writes beside the arrays"},
    {"unwritten", kUnordered},
    {"race", kUnordered}};

using Matrix = std::vector<float>;

// Launches one after the other, with the same counter.
struct Case {
  std::vector<Matrix> matrices;
  int parts;

  int rows(const Matrix& x) const { return static_cast<int>(x.size()) / kColumns; }
  std::string where() const {
    std::string rows_of;
    for (const Matrix& x : matrices) rows_of += fmt::format(" {}", rows(x));
    return fmt::format("{} parts, launches with rows:{}", parts, rows_of);
  }
};

struct State {
  double m = kMinusInfinity, l = 0;
};

// Rows from begin up to end of a column.
State state_of(const Matrix& x, int column, int begin, int end) {
  State s;
  for (int row = begin; row < end; ++row) {
    s.m = std::max(s.m, static_cast<double>(x[row * kColumns + column]));
  }
  for (int row = begin; row < end && s.m != kMinusInfinity; ++row) {
    s.l += std::exp(x[row * kColumns + column] - s.m);
  }
  return s;
}

using Lse = std::function<double(const std::vector<State>&)>;

double merged(const std::vector<State>& states) {
  State all;
  for (const State& s : states) all.m = std::max(all.m, s.m);
  for (const State& s : states) {
    if (s.m != kMinusInfinity) all.l += std::exp(s.m - all.m) * s.l;
  }
  return all.m + std::log(all.l);
}

// What all launches write, by some merge of the states of the parts, and the counter in the end.
std::vector<double> with(const Case& c, const Lse& lse, double counter = 0) {
  std::vector<double> all;
  for (const Matrix& x : c.matrices) {
    for (int column = 0; column < kColumns; ++column) {
      std::vector<State> states;
      for (int p = 0; p < c.parts; ++p) {
        states.push_back(
            state_of(x, column, c.rows(x) * p / c.parts, c.rows(x) * (p + 1) / c.parts));
      }
      all.push_back(lse(states));
    }
  }
  all.push_back(counter);
  return all;
}

std::vector<Mistake> mistakes_of(const Case& c, double counter) {
  const std::vector<double> right = with(c, merged);
  std::vector<double> first_only = right, nan(right.size(), NAN);
  std::fill(first_only.begin() + kColumns, first_only.end(), NAN);
  first_only.back() = nan.back() = counter;
  std::vector<double> counted = right;
  counted.back() = counter;
  return {{"the next launch finds a counter that is not 0, and none of its blocks is the last: the "
           "last block sets it to 0",
           c.matrices.size() > 1 ? first_only : counted},
          {"lse is right, but the counter is not 0 at the end", counted},
          {"nothing was written: does any block find that it is the last? The addition returns the "
           "value before",
           nan},
          {"sums that are relative to different maxima were added",
           with(c,
                [](const std::vector<State>& states) {
                  State all;
                  for (const State& s : states) all = {std::max(all.m, s.m), all.l + s.l};
                  return all.m + std::log(all.l);
                })},
          {"a part without rows brings NaN: -infinity - -infinity. exp_diff() gives 0 there",
           with(c, [](const std::vector<State>& states) {
             State all;
             for (const State& s : states) all.m = std::max(all.m, s.m);
             for (const State& s : states) all.l += std::exp(s.m - all.m) * s.l;
             return all.m + std::log(all.l);
           })}};
}

// Whether each launch gave lse of one part; which one comes last may differ.
bool of_single_parts(const Case& c, const std::vector<double>& out) {
  for (std::size_t i = 0; i < c.matrices.size(); ++i) {
    const Case launch{{c.matrices[i]}, c.parts};
    const auto begin = out.begin() + static_cast<std::ptrdiff_t>(i) * kColumns;
    std::vector<double> of_launch(begin, begin + kColumns);
    of_launch.push_back(0);
    bool found = false;
    for (int p = 0; p < c.parts && !found; ++p) {
      const Lse of_part = [=](const std::vector<State>& states) {
        return merged({states[static_cast<std::size_t>(p)]});
      };
      found = agree(of_launch, with(launch, of_part), 1e-4);
    }
    if (!found) return false;
  }
  return c.parts > 1;
}

Matrix random_matrix(int rows, std::uint64_t seed, float spread = 2) {
  Matrix x = random_floats(std::int64_t{rows} * kColumns, seed);
  for (float& value : x) value *= spread;
  return x;
}

void grade(const Case& c, double tolerance = 1e-4) {
  const auto launched = call<Launched>("run", c.matrices, c.parts);
  // A merge that comes too early may be right by chance.
  const bool raced = found(launched.seen, "race") || found(launched.seen, "unwritten");
  if (raced) require_no_findings(launched.seen, kReasons);
  require(!of_single_parts(c, launched.out),
          "lse is that of one part alone: the states of the others are in states_m and states_l (" +
              c.where() + ")");
  check_result(launched.seen, kReasons, {"lse and the counter", launched.out, kColumns},
               with(c, merged), tolerance, mistakes_of(c, launched.out.back()), c.where());
}

}  // namespace

FA_STAGE(easy) {
  grade({{random_matrix(64, 1), random_matrix(64, 2)}, 4});
  grade({{random_matrix(30, 3), random_matrix(48, 4), random_matrix(7, 5)}, 3});
}

FA_STAGE(odd) {
  grade({{random_matrix(5, 6), random_matrix(1, 7)}, 1});
  grade({{random_matrix(3, 8), random_matrix(5, 9)}, 7});
  grade({{random_matrix(40, 10, 40), random_matrix(41, 11, 40)}, 5});
  Matrix masked = random_matrix(12, 12);
  for (int row = 0; row < 12; ++row) masked[row * kColumns + 77] = -INFINITY;
  grade({{masked, masked}, 6});
  grade({{Matrix{}, random_matrix(9, 13)}, 2});
  Matrix low = random_matrix(10, 14);
  for (float& value : low) value -= 2e4f;
  grade({{low}, 3}, 4e-3);
}

FA_STAGE(races) {
  for (const int parts : {2, 9}) {
    const auto launched = call<Launched>(
        "run", std::vector<Matrix>{random_matrix(20, 15), random_matrix(20, 16)}, parts);
    require_no_races(launched.seen, kReasons);
  }
}
#endif
