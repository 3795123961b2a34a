#ifdef FA_ENTRIES  // the student's process
// The rows of y, and then lse.
FA_ENTRY(softmax, [](const std::vector<float>& matrix, int rows, int cols) {
  std::string error;
  Launched result = watched([&] {
    const auto x = on_device(matrix);
    DeviceBuffer<float> y(std::int64_t{rows} * cols), lse(rows);
    error = thrown([&] {
      launch(softmax_block, {{static_cast<unsigned>(rows)}, {kThreads}}, x.data(), y.data(),
             lse.data(), cols);
    });
    std::vector<double> all = from_device(y);
    for (const double value : from_device(lse)) all.push_back(value);
    return all;
  });
  return std::pair(result, error);
});
#else  // the grader
#include <numeric>

#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

const std::vector<Reason> kReasons = {
    {"barrier", "only some threads come to the barrier: no thread may return early"},
    {"unwritten",
     "shared memory is read where no warp has stored: is there a barrier after the store, and has "
     "every warp stored its state?"},
    {"race", "a barrier is missing between storing and reading the states of the warps"}};

struct State {
  double m = kMinusInfinity, l = 0;
};

double exp_of(double a, double b) {
  return a == kMinusInfinity ? 0 : std::exp(a - b);
}

State merged(State a, State b) {
  const double m = std::max(a.m, b.m);
  return {m, exp_of(a.m, m) * a.l + exp_of(b.m, m) * b.l};
}

struct Case : Launched {
  int rows = 0, cols = 0, masked_row = -1;
  float level = 0;
  bool ties = false;
  std::vector<float> x{};

  std::string where() const {
    return fmt::format("{} rows, {} columns{}{}{}", rows, cols,
                       masked_row < 0 ? "" : ", one of -infinity",
                       level == 0 ? "" : fmt::format(", elements around {:g}", level),
                       ties ? ", elements 1 and -1" : "");
  }
};

Case run(int rows, int cols, int masked_row, float level = 0, bool ties = false) {
  Case c{{}, rows, cols, masked_row, level, ties, random_floats(std::int64_t{rows} * cols, 3)};
  for (float& x : c.x) x = level + (ties ? (x < 0 ? -1.0f : 1.0f) : 4 * x);
  if (masked_row >= 0) std::fill_n(c.x.begin() + masked_row * cols, cols, -INFINITY);
  static_cast<Launched&>(c) = call_waiting(
      kReasons, "shuffles need all lanes and barriers all threads, so no thread may return early.",
      "softmax", c.x, rows, cols);
  return c;
}

using PartOf = std::function<int(int)>;  // the part of its row that an element is in
using Merge = std::function<State(State, State)>;
using Lse = std::function<double(State)>;

int whole_row(int) {
  return 0;
}
double natural_lse(State s) {
  return s.m + std::log(s.l);
}

// y and lse with some merge, when an element's state is that of a part of its row.
std::vector<double> with(const Case& c, const PartOf& part_of, const Merge& merge = merged,
                         const Lse& lse = natural_lse) {
  std::vector<double> y, logs;
  for (int row = 0; row < c.rows; ++row) {
    std::vector<State> parts(128);
    for (int j = 0; j < c.cols; ++j) {
      State& part = parts[static_cast<std::size_t>(part_of(j))];
      part = merge(part, {c.x[row * c.cols + j], 1});
    }
    for (int j = 0; j < c.cols; ++j) {
      const State& s = parts[static_cast<std::size_t>(part_of(j))];
      y.push_back(s.l == 0 ? 0 : exp_of(c.x[row * c.cols + j], s.m) / s.l);
    }
    logs.push_back(lse(parts[0]));
  }
  y.insert(y.end(), logs.begin(), logs.end());
  return y;
}

// The same when each warp begins with its own state and merges all four.
std::vector<double> with_own_state_twice(const Case& c) {
  std::vector<double> y = with(c, whole_row);
  for (int row = 0; row < c.rows && c.cols > 32; ++row) {
    State all;
    std::vector<State> warps(4);
    for (int j = 0; j < c.cols; ++j) {
      const State one{c.x[row * c.cols + j], 1};
      State& warp = warps[static_cast<std::size_t>(j % 128 / 32)];
      all = merged(all, one);
      warp = merged(warp, one);
    }
    for (int j = 0; j < c.cols; ++j) {
      const State s = merged(all, warps[static_cast<std::size_t>(j % 128 / 32)]);
      y[row * c.cols + j] = s.l == 0 ? 0 : exp_of(c.x[row * c.cols + j], s.m) / s.l;
    }
    y[c.rows * c.cols + row] = natural_lse(merged(all, warps[0]));
  }
  return y;
}

std::vector<Mistake> mistakes_of(const Case& c) {
  const std::vector<double> nan(c.out.size(), NAN);
  std::vector<Mistake> mistakes{
      {"lse lacks the maximum: it is m + ln l",
       with(c, whole_row, merged, [](State s) { return std::log(s.l); })},
      {"the logarithm has base 2; lse is natural",
       with(c, whole_row, merged, [](State s) { return s.m + std::log2(s.l); })},
      {"sums that are relative to different maxima were added",
       with(c, whole_row, [](State a, State b) {
         return State{std::max(a.m, b.m), a.l + b.l};
       })}};
  if (c.level != 0) {
    // What float32 makes of powers of the elements themselves.
    const bool low = c.level < 0;
    std::vector<double> powers(c.out.size(), low ? 0 : NAN);
    std::fill_n(powers.end() - c.rows, c.rows, low ? kMinusInfinity : -kMinusInfinity);
    mistakes.push_back(
        {low ? "the maximum starts at 0, or is not subtracted: every e^x underflows to 0"
             : "the maximum is not subtracted: e^x overflows",
         powers});
    std::fill_n(powers.begin(), powers.size() - c.rows, NAN);
    mistakes.push_back({"the maximum is not subtracted everywhere", powers});
  }
  mistakes.push_back({c.cols % 128 == 0 ? "nothing was written"
                                        : "a thread without an element brings NaN: -infinity - "
                                          "-infinity. Its state is (-infinity, 0)",
                      nan});
  if (c.cols > 32) {
    mistakes.push_back({"the four warps were not merged: each of them divides by its own sum",
                        with(c, [](int j) { return j % 128 / 32; })});
    mistakes.push_back({"the lanes of a warp were not merged: each thread divides by its own sum",
                        with(c, [](int j) { return j % 128; })});
  }
  if (c.masked_row >= 0) {
    mistakes.push_back(
        {"a row of -infinity: -infinity - -infinity is NaN. y is 0, and lse is -infinity",
         with(c, whole_row, [](State a, State b) {
           const double m = std::max(a.m, b.m);
           return State{m, std::exp(a.m - m) * a.l + std::exp(b.m - m) * b.l};
         })});
    std::vector<double> divided = with(c, whole_row);
    std::fill_n(divided.begin() + c.masked_row * c.cols, c.cols, NAN);
    mistakes.push_back({"a row of -infinity has the sum 0: 0 / 0 is NaN, y must be 0", divided});
  }
  mistakes.push_back(
      {"a warp's own state is merged twice: begin again with (-infinity, 0), or leave the own warp "
       "out",
       with_own_state_twice(c)});
  return mistakes;
}

void grade(int rows, int cols, int masked_row = -1, float level = 0, bool ties = false) {
  const Case c = run(rows, cols, masked_row, level, ties);
  const std::vector<double> right = with(c, whole_row);
  if (ties && !agree(c.out, right, 1e-5)) {
    require_no_findings(c.seen, kReasons);
    refuse(
        "wrong only when elements are equal: when two states have the same maximum, both sums "
        "count");
  }
  const std::vector<Mistake> mistakes = mistakes_of(c);
  const double tolerance = level == 0 ? 1e-5 : 1e-2;
  const bool foreseen = std::any_of(mistakes.begin(), mistakes.end(), [&](const Mistake& x) {
    return agree(c.out, x.result, tolerance);
  });
  if (foreseen || c.out.size() != right.size()) {
    check_result(c.seen, kReasons, {"y and lse", c.out, cols}, right, tolerance, mistakes,
                 c.where());
    return;
  }
  const auto part = [&](const std::vector<double>& both, bool of_y) {
    const auto middle = both.begin() + std::int64_t{rows} * cols;
    return of_y ? std::vector<double>(both.begin(), middle)
                : std::vector<double>(middle, both.end());
  };
  const std::vector<double> y = part(c.out, true), right_y = part(right, true);
  std::vector<double> scaled = right_y;  // with the sum of each row of y
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = y.begin() + row * cols;
    const double sum = std::accumulate(begin, begin + cols, 0.0);
    for (int j = 0; j < cols; ++j) scaled[row * cols + j] *= sum;
  }
  check_result(c.seen, kReasons, {"y", y, cols}, right_y, tolerance,
               {{"each row is right up to a factor, so only l is wrong: both sums must be rescaled "
                 "to the new maximum, and m kept until they are",
                 scaled}},
               c.where());
  check_result(c.seen, kReasons, {"lse", part(c.out, false), 1}, part(right, false), tolerance, {},
               c.where());
}

}  // namespace

FA_STAGE(easy) {
  grade(2, 256);
  grade(3, 128);
}

FA_STAGE(odd) {
  grade(2, 300);
  grade(1, 1);
  grade(3, 37);
  grade(3, 131, 1);
  grade(2, 20, 0);
  grade(2, 200, -1, -2e4f);
  grade(2, 200, -1, 2e4f);
  grade(2, 200, -1, 0, true);
}

FA_STAGE(races) {
  for (const int cols : {20, 300}) {
    const Case c = run(2, cols, -1);
    require_no_races(c.seen);
  }
}

FA_STAGE(traffic) {
  constexpr int rows = 4, cols = 512;
  const Case c = run(rows, cols, -1);
  needs_watching(c.seen);
  const std::int64_t least = (3 * cols + 1) * rows * 4;
  note("bytes of global memory", c.seen.bytes);
  note("wavefronts of shared memory", c.seen.wavefronts);
  require(c.seen.atomics == 0, "atomics follow one another; lanes and warps can merge in a tree");
  budget("bytes of global memory", c.seen.bytes, least,
         "x is read twice, y written once, lse written by one thread", (2 * cols + 1) * rows * 4);
  require(c.seen.wavefronts <= rows * 128,
          fmt::format("{} wavefronts of shared memory: merge the lanes of a warp by shuffles, so "
                      "that only four states go through it",
                      c.seen.wavefronts));
}
#endif
