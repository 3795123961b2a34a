#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(softmax, [](const std::vector<float>& matrix, int rows, int cols) {
  return watched([&] {
    const auto x = on_device(matrix);
    DeviceBuffer<float> y(std::int64_t{rows} * cols);
    launch(softmax_half_warps,
           {{static_cast<unsigned>(ceil_div(rows, 2 * kSoftmaxWarps))}, {32, kSoftmaxWarps}},
           x.data(), y.data(), rows, cols);
    return from_device(y);
  });
});
#else  // the grader
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct Case : Launched {
  std::vector<float> x;
};

struct State {
  double m = kMinusInfinity, l = 0;
};

double power_of(double a, double b) {
  return a == kMinusInfinity ? 0 : std::exp(a - b);
}

using Merge = std::function<State(State own, State other)>;

State right_merge(State a, State b) {
  const double m = std::max(a.m, b.m);
  return {m, power_of(a.m, m) * a.l + power_of(b.m, m) * b.l};
}

// The kernel's result with some merge and some exchange, lane by lane; a warp has two rows.
std::vector<double> simulated(const std::vector<float>& x, int cols, const Merge& merge,
                              int from = 8, int to = 1, bool down = false) {
  std::vector<double> result;
  const int rows = static_cast<int>(x.size()) / cols;
  for (int first = 0; first < rows; first += 2) {
    std::vector<State> lanes(32);
    for (int half = 0; half < 2 && first + half < rows; ++half) {
      for (int j = 0; j < cols; ++j) {
        State& lane = lanes[16 * half + j % 16];
        lane = right_merge(lane, {x[(first + half) * cols + j], 1});
      }
    }
    for (int distance = from; distance >= to; distance /= 2) {
      const std::vector<State> old = lanes;
      for (int lane = 0; lane < 32; ++lane) {
        const int other = down ? (lane + distance < 32 ? lane + distance : lane) : lane ^ distance;
        lanes[lane] = merge(old[lane], old[other]);
      }
    }
    for (int half = 0; half < 2 && first + half < rows; ++half) {
      for (int j = 0; j < cols; ++j) {
        const State& s = lanes[16 * half + j % 16];
        const double p = power_of(x[(first + half) * cols + j], s.m);
        result.push_back(s.l == 0 ? 0 : p / s.l);
      }
    }
  }
  return result;
}

Case run(int rows, int cols, int masked_row = -1, float level = 0, bool ties = false) {
  Case result;
  result.x = random_floats(std::int64_t{rows} * cols, 3);
  for (float& x : result.x) {
    x = level + (ties ? (x < 0 ? -1.0f : 1.0f) : 3 * x);
  }
  if (masked_row >= 0) {
    std::fill_n(result.x.begin() + masked_row * cols, cols, -INFINITY);
  }
  static_cast<Launched&>(result) = call<Launched>("softmax", result.x, rows, cols);
  return result;
}

void grade(int rows, int cols, int masked_row = -1, float level = 0, bool ties = false) {
  const Case c = run(rows, cols, masked_row, level, ties);
  const auto with = [&](const Merge& merge) { return simulated(c.x, cols, merge); };
  const auto exchanged = [&](int from, int to, bool down = false) {
    return simulated(c.x, cols, right_merge, from, to, down);
  };
  check_result(
      c.seen, {}, {"y", c.out, cols}, exchanged(8, 1), level == 0 ? 2e-6 : 1e-2,
      {{level < 0 ? "the maximum starts at 0, or is not subtracted: every e^x underflows to 0"
                  : "it is NaN: e^x overflows where the maximum is not subtracted",
        std::vector<double>(level == 0 ? 0 : c.out.size(), level < 0 ? 0 : NAN)},
       {"each lane divides by its own sum: the lanes were not merged", exchanged(0, 1)},
       {"sums that are relative to different maxima were added", with([](State a, State b) {
          return State{std::max(a.m, b.m), a.l + b.l};
        })},
       {"both lanes have the same maximum, and one of their sums is lost",
        with([](State a, State b) { return a.m == b.m ? a : right_merge(a, b); })},
       {"the other lane's sum is subtracted, not added", with([](State a, State b) {
          const double m = std::max(a.m, b.m);
          return State{m, power_of(a.m, m) * a.l - power_of(b.m, m) * b.l};
        })},
       {"the maximum changes and the sum does not: no other sum is added",
        with([](State a, State b) {
          return State{std::max(a.m, b.m), a.l};
        })},
       {"the other lane's sum was not rescaled", with([](State a, State b) {
          const double m = std::max(a.m, b.m);
          return State{m, power_of(a.m, m) * a.l + b.l};
        })},
       {"m was overwritten before the own sum was rescaled with it", with([](State a, State b) {
          const double m = std::max(a.m, b.m);
          return State{m, a.l + power_of(b.m, m) * b.l};
        })},
       {"only one lane knows the whole row: with shfl_down the others mix in what is not theirs",
        exchanged(8, 1, true)},
       {"the two rows of a warp were merged: 16 lanes have a row, so the largest distance is 8",
        exchanged(16, 1)},
       {"the two halves of a row are never merged: begin with distance 8", exchanged(4, 1)},
       {"neighbouring lanes are never merged: the last distance is 1", exchanged(8, 2)},
       {"a lane that has seen no element, or nothing but -infinity: -infinity - -infinity is NaN",
        with([](State a, State b) {
          const double m = std::max(a.m, b.m);
          return State{m, std::exp(a.m - m) * a.l + std::exp(b.m - m) * b.l};
        })}},
      fmt::format("{} rows, {} columns{}{}", rows, cols, masked_row < 0 ? "" : ", one of -infinity",
                  level == 0 ? "" : fmt::format(", elements around {:g}", level)) +
          (ties ? ", elements 1 and -1" : ""));
}

}  // namespace

FA_STAGE(easy) {
  grade(4, 32);
  grade(8, 64);
}

FA_STAGE(odd) {
  grade(5, 7);
  grade(3, 113);
  grade(1, 1);
  grade(4, 40, 2);
  grade(3, 50, -1, -2e4f);
  grade(3, 50, -1, 2e4f);
  grade(3, 50, -1, 0, true);
}

FA_STAGE(races) {
  for (const int cols : {7, 96}) {
    const Case c = run(6, cols);
    require_no_races(c.seen);
  }
}

FA_STAGE(traffic) {
  const Case c = run(16, 128);
  needs_watching(c.seen);
  const std::int64_t least = 3 * 16 * 128 * 4;
  note("bytes of global memory", c.seen.bytes);
  note("wavefronts of shared memory", c.seen.wavefronts);
  require(c.seen.atomics == 0,
          fmt::format("{} atomic requests, where lanes of one warp can exchange by shuffles",
                      c.seen.atomics));
  budget("bytes of global memory", c.seen.bytes, least, "", least);
  require(c.seen.wavefronts == 0, "lanes of one warp need no shared memory to agree");
}
#endif
