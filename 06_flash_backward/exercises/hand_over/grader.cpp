#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(run, [](const std::vector<float>& q) {
  Launched result = watched([&] {
    const auto in = on_device(q);
    DeviceBuffer<float> out(kWarp);
    launch(fa::FA_TARGET::student::cubes, {{1}, {3 * kWarp}}, in.data(), out.data(),
           static_cast<int>(q.size()) / kWarp);
    return from_device(out);
  });
  result.out.push_back(rows_ahead(result.seen, 0, 1));
  result.out.push_back(rows_ahead(result.seen, 1, 2));
  return result;
});

FA_ENTRY(stages, [] { return fa::FA_TARGET::student::kStages; });
#else  // the grader
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kWarp = 32;

const std::vector<Reason> kReasons = {
    {"out of bounds", "it reads or writes beside an array"},
    {"unwritten", "a place is read before anything was written to it"},
    {"race",
     "a place is written while another warp may still read it, or read before it was written"},
    {"barrier",
     "an mbarrier gets more or fewer arrivals than it was initialised for, or a wait names the "
     "wrong phase"}};

struct Case {
  Seen seen;
  std::vector<double> out, right;
  double q_ahead, p_ahead;  // rows that are written when the first one is read
};

Case run(int tiles) {
  const auto q = random_floats(std::int64_t{tiles} * kWarp, 5);
  auto launched = call<Launched>("run", q);
  const double p_ahead = launched.out.back();
  launched.out.pop_back();
  const double q_ahead = launched.out.back();
  launched.out.pop_back();
  Case c{launched.seen, launched.out, {}, q_ahead, p_ahead};
  for (std::size_t lane = 0; lane < kWarp; ++lane) {
    double sum = 0;
    for (std::size_t at = lane; at < q.size(); at += kWarp) sum += std::pow(q[at], 3);
    c.right.push_back(sum);
  }
  return c;
}

void grade(int tiles) {
  const Case c = run(tiles);
  check_result(c.seen, kReasons, {"out", c.out, kWarp}, c.right, 1e-3, {},
               fmt::format("{} tiles", tiles));
}

}  // namespace

FA_STAGE(found) {
  require(names_both(evidence("the numbers of two lines that race"), {"p_smem[lane] = q_smem"},
                     {"p = p_smem[lane]"}),
          "not found: these are not two lines of the file as it was, of which one writes what the "
          "other still reads");
}

FA_STAGE(easy) {
  grade(1);
}

FA_STAGE(odd) {
  grade(2);
  grade(9);
}

FA_STAGE(races) {
  require(call<int>("stages") == 2, "the ring has two stages");
  for (const int tiles : {2, 3, 8}) {
    const Case c = run(tiles);
    require_no_races(c.seen, kReasons);
    const auto runs_ahead = [](double rows, const char* writer, const char* what) {
      require(rows >= 2,
              fmt::format("{} has written only {} of two rows of {} when the first is read: it "
                          "waits longer than it did",
                          writer, rows, what));
    };
    runs_ahead(c.q_ahead, "warp 0", "Q");
    runs_ahead(c.p_ahead, "warp 1", "P");
  }
}
#endif
