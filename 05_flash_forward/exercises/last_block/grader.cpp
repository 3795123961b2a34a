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
    "(barrier), these stores come before the addition (fence), only the last block continues, the "
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

// The lse that all launches must write, column by column, and the counter in the end.
std::vector<double> right_of(const Case& c) {
  std::vector<double> all;
  for (const Matrix& x : c.matrices) {
    for (int column = 0; column < kColumns; ++column) {
      double m = kMinusInfinity, l = 0;
      for (int row = 0; row < c.rows(x); ++row) {
        m = std::max(m, static_cast<double>(x[row * kColumns + column]));
      }
      for (int row = 0; row < c.rows(x) && m != kMinusInfinity; ++row) {
        l += std::exp(x[row * kColumns + column] - m);
      }
      all.push_back(m + std::log(l));
    }
  }
  all.push_back(0);
  return all;
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
  require(launched.out.back() == 0,
          "the counter is not 0 at the end, and the next launch needs 0: does any block find that "
          "it is the last, and set it to 0? The addition returns the value before (" +
              c.where() + ")");
  check_result(launched.seen, kReasons, {"lse and the counter", launched.out, kColumns},
               right_of(c), tolerance, {},
               c.where() +
                   "; are sums added that are relative to different maxima, and what does a part "
                   "without rows add?");
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
