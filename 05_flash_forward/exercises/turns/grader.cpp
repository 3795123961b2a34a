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

const std::vector<Reason> kReasons = {
    {"barrier",
     "a barrier is used in two ways: its number of threads, or the threads that arrive at it, do "
     "not match. Barrier 0 is that of __syncthreads(): an arrival at one counts at the other"},
    {"race",
     "two lanes can issue at the same time: only lane 0 calls issue(), no barrier orders the "
     "consumers, or an arrival of the first job is left over in the second"}};

// The list when in each round consumers 0, 1 and 2 issue the step that they have left.
std::vector<double> order(const Steps& steps) {
  std::vector<double> list;
  for (std::size_t job = 0; job < 2; ++job) {
    for (int step = 0; step < 30; ++step) {
      for (std::size_t consumer = 0; consumer < 3; ++consumer) {
        if (step < steps[3 * job + consumer]) {
          list.push_back(static_cast<double>(100 * consumer) + step);
        }
      }
    }
  }
  list.resize(100, -1);
  return list;
}

void grade(const Steps& steps) {
  const auto launched = call<Launched>("run", steps);
  check_result(
      launched.seen, kReasons, {"list", launched.out}, order(steps), 0,
      {{"nothing was issued", std::vector<double>(100, -1)}},
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
  require_no_races(launched.seen, kReasons);
}
#endif
