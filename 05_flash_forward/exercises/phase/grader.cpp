#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(run, [](const std::vector<float>& k, const std::vector<float>& v,
                 const std::vector<int>& rows) {
  Launched result = watched([&] {
    const auto keys = on_device(k), values = on_device(v);
    const auto of_jobs = on_device(rows);
    const int jobs = static_cast<int>(rows.size());
    DeviceBuffer<float> out(std::int64_t{jobs} * kWarp);
    launch(fa::FA_TARGET::student::ring_sums, {{1}, {2 * kWarp}}, keys.data(), values.data(),
           of_jobs.data(), jobs, out.data());
    return from_device(out);
  });
  result.out.push_back(rows_ahead(result.seen, 0, 1));
  return result;
});

FA_ENTRY(stages, [] { return fa::FA_TARGET::student::kStages; });
#else  // the grader
#include <numeric>

#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kWarp = 32;

const std::vector<Reason> kReasons = {
    {"barrier",
     "an mbarrier is not used as it was initialised: it takes one arrival for each phase, a wait "
     "names the parity 0 or 1, and none may be missing; or a lane arrives for its warp before all "
     "lanes have passed their wait and are done with the row"},
    {"unwritten",
     "a row is read before it was written: which phase of full ends when this row has been "
     "written, and do all lanes write before lane 0 arrives?"},
    {"race",
     "a row is written while the consumer may still read it, or read while the producer may still "
     "write it: compare the phases that both wait for, and where a lane arrives before the others "
     "are done"}};

struct Case {
  Seen seen;
  std::vector<double> out, right;
  double ahead;  // rows that are written when the first one is read
};

Case run(const std::vector<int>& rows) {
  const int total = std::accumulate(rows.begin(), rows.end(), 0);
  const auto k = random_floats(std::int64_t{total} * kWarp, 1),
             v = random_floats(std::int64_t{total} * kWarp, 2);
  auto launched = call<Launched>("run", k, v, rows);
  const double ahead = launched.out.back();
  launched.out.pop_back();
  std::vector<double> right;
  int first = 0;
  for (const int count : rows) {
    for (int lane = 0; lane < kWarp; ++lane) {
      double sum = 0;
      for (int row = first; row < first + count; ++row) {
        const auto at = static_cast<std::size_t>(row * kWarp + lane);
        sum += static_cast<double>(k[at]) * static_cast<double>(v[at]);
      }
      right.push_back(sum);
    }
    first += count;
  }
  return {launched.seen, launched.out, right, ahead};
}

void grade(const std::vector<int>& rows) {
  const Case c = run(rows);
  if (found(c.seen, "unwritten")) require_no_findings(c.seen, kReasons);
  check_result(c.seen, kReasons, {"out", c.out, kWarp}, c.right, 1e-4,
               {{"nothing was written", std::vector<double>(c.right.size(), NAN)}},
               fmt::format("{} job(s), {} rows of K in the first", rows.size(), rows.front()));
}

}  // namespace

FA_STAGE(easy) {
  grade({1});
}

FA_STAGE(odd) {
  grade({2});
  grade({7});
  grade({1, 2, 0, 5, 1});
}

FA_STAGE(races) {
  require(call<int>("stages") == 3, "the ring has three stages");
  const Case c = run({3, 4});
  require_no_races(c.seen, kReasons);
  require(c.ahead >= 3,
          fmt::format("the ring has room for three rows, and {} written when the first is read: "
                      "nothing but a full ring may stop the producer, and load n goes to stage "
                      "n % 3",
                      c.ahead == 1 ? "only 1 is" : fmt::format("only {} are", c.ahead)));
}
#endif
