#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(run, [](const std::vector<int>& steps) {
  return watched([&] {
    const auto of_jobs = on_device(steps);
    auto list = on_device(std::vector<int>(100, -1));
    launch(fa::FA_TARGET::student::two_jobs, {{1}, {3 * kWarp}}, of_jobs.data(), list.data());
    return from_device(list);
  });
});
#else  // the grader
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

using Steps = std::vector<int>;  // of three consumers in two jobs

std::vector<Reason> reasons(const Seen& seen) {
  const auto says = [&](const char* words) {
    return std::any_of(seen.report.findings.begin(), seen.report.findings.end(),
                       [&](const fa::lab::Finding& finding) {
                         return finding.message.find(words) != std::string::npos;
                       });
  };
  const bool in_warp = says("in one warp");
  return {{"barrier", says("named barrier 0")
                          ? "barrier 0 is that of __syncthreads(): where a block uses both, an "
                            "arrival at one counts at the other; use the ids 1, 2, 3"
                          : "a barrier is used in two ways: its number of threads, or the threads "
                            "that arrive at it, do not match"},
          {"race", in_warp ? "several lanes of a consumer issue; only lane 0 calls issue()"
                           : "two consumers can issue at the same time: no barrier orders their "
                             "calls, or an arrival of the first job is left over in the second"}};
}

std::vector<double> order(const Steps& steps, bool by_rounds, int jobs, bool backwards = false) {
  std::vector<double> list;
  for (int job = 0; job < jobs; ++job) {
    const int* const of = steps.data() + 3 * job;
    if (by_rounds) {
      for (int step = 0; step < 30; ++step) {
        for (int i = 0; i < 3; ++i) {
          const int consumer = backwards ? (3 - i) % 3 : i;
          if (step < of[consumer]) list.push_back(100 * consumer + step);
        }
      }
    } else {
      for (int consumer = 0; consumer < 3; ++consumer) {
        for (int step = 0; step < of[consumer]; ++step) {
          list.push_back(100 * consumer + step);
        }
      }
    }
  }
  list.resize(100, -1);
  return list;
}

void grade(const Steps& steps) {
  const auto launched = call<Launched>("run", steps);
  std::vector<double> shared(100, -1);
  int rounds = std::min({steps[0], steps[1], steps[2]});
  const auto fewest = order({rounds, rounds, rounds, 0, 0, 0}, true, 1);
  check_result(
      launched.seen, reasons(launched.seen), {"list", launched.out, 10}, order(steps, true, 2), 0,
      {{"nothing was issued", shared},
       {"only the rounds in which all three have a step are issued", fewest},
       {"a consumer issues all its steps before the next one has a turn", order(steps, false, 2)},
       {"the turn goes round as 0, 2, 1, 0: pass it on to the next consumer, not to the one before",
        order(steps, true, 2, true)}},
      fmt::format("{}, {} and {} steps, then {}, {} and {}; the list has 100 * consumer + step",
                  steps[0], steps[1], steps[2], steps[3], steps[4], steps[5]));
}

}  // namespace

FA_STAGE(easy) {
  grade({2, 2, 2, 0, 0, 0});
}

FA_STAGE(odd) {
  grade({1, 3, 2, 2, 1, 1});
  grade({0, 0, 3, 1, 0, 0});
  grade({4, 0, 1, 0, 5, 0});
}

FA_STAGE(races) {
  const auto launched = call<Launched>("run", Steps{3, 2, 4, 1, 2, 2});
  needs_watching(launched.seen);
  require_no_findings(launched.seen, reasons(launched.seen));
}
#endif
