#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(run, [](const std::vector<float>& x) {
  Launched result = watched([&] {
    const auto in = on_device(x);
    DeviceBuffer<float> out(in.count());
    launch(fa::FA_TARGET::student::differences, {{1}, {2 * kWarp}}, in.data(), out.data(),
           static_cast<int>(x.size()) / kWarp);
    return from_device(out);
  });
  result.out.push_back(rows_ahead(result.seen, 0, 1));
  return result;
});

FA_ENTRY(stages, [] { return fa::FA_TARGET::student::kStages; });
#else  // the grader
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kWarp = 32;

const std::vector<Reason> kReasons = {
    {"unwritten", "a stage is read before anything was written to it"},
    {"race",
     "the producer may write a stage that the consumer has not finished with, or the consumer "
     "reads one that is not written yet"},
    {"barrier",
     "an mbarrier gets more or fewer arrivals than it was initialised for, or a wait names the "
     "wrong phase"}};

struct Case {
  Seen seen;
  std::vector<float> in;
  std::vector<double> out;
  double ahead = 0;  // tiles that are written when the first one is read
};

Case run(int tiles) {
  Case c;
  c.in = random_floats(std::int64_t{tiles} * kWarp, 5);
  const auto launched = call<Launched>("run", c.in);
  c.seen = launched.seen;
  c.out = launched.out;
  c.ahead = c.out.back();
  c.out.pop_back();
  return c;
}

// x[n] - x[from(n)], where there is one.
template <class From>
std::vector<double> differences(const Case& c, From from) {
  std::vector<double> result;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    const int other = from(static_cast<int>(i) / kWarp);
    double x = static_cast<double>(c.in[i]);
    if (other >= 0) {
      x -= static_cast<double>(c.in[static_cast<std::size_t>(other) * kWarp + i % kWarp]);
    }
    result.push_back(x);
  }
  return result;
}

void grade(int tiles) {
  const Case c = run(tiles);
  check_result(c.seen, kReasons, {"out", c.out, kWarp}, differences(c, [](int n) { return n - 1; }),
               1e-6,
               {{"nothing is subtracted", differences(c, [](int) { return -1; })},
                {"a tile is subtracted from itself", differences(c, [](int n) { return n; })}},
               fmt::format("{} tiles", tiles));
}

}  // namespace

FA_STAGE(found) {
  const Evidence shown = evidence("the number of tiles and the row of out that may be wrong");
  require(shown.numbers.size() == 2, "not found: the answer is two numbers, tiles and row");
  const double tiles = shown.numbers[0], row = shown.numbers[1];
  require(tiles > row, "not found: with so few tiles there is no such row");
  require(tiles != 3 && tiles != 2, "not found: with so few tiles no stage is ever used twice");
  require(tiles == 4,
          "not found: fewer tiles, or more, are the least with which a stage can be overwritten "
          "while it is still needed");
  require(row == 1,
          "not found: the number of tiles is right; which iteration of the consumer still reads "
          "what is overwritten?");
}

FA_STAGE(easy) {
  grade(1);
  grade(3);
}

FA_STAGE(odd) {
  grade(4);
  grade(17);
}

FA_STAGE(races) {
  require(call<int>("stages") == 3, "the ring has three stages");
  for (const int tiles : {4, 7}) {
    const Case c = run(tiles);
    require_no_races(c.seen, kReasons);
    require(c.ahead >= 3,
            fmt::format("only {} tiles are written when the consumer reads the first one, and the "
                        "ring has room for three: the producer waits where it need not",
                        c.ahead));
  }
}
#endif
