#if defined(FA_STUDENT)
#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

namespace student {

constexpr int kConsumers = 3;

/// What was issued so far.
struct Order {
  int count;
  int* list;  ///< 100 * consumer + step
};

/// Stands for the matmuls of a step. One lane calls it.
__device__ inline void issue(Order& order, int consumer, int step) {
  order.list[order.count] = 100 * consumer + step;
  order.count = order.count + 1;
}

/// Consumers issue their steps in rounds. All threads of the three warps call it.
/// @param steps of each consumer
__device__ inline void take_turns(Order& order, const int* steps) {
  const int consumer = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#ifdef FA_SOLUTION
  constexpr int threads = 2 * kWarp;
  const int next = (consumer + 1) % kConsumers;
  int rounds = 0;
  for (int i = 0; i < kConsumers; ++i) {
    rounds = steps[i] > rounds ? steps[i] : rounds;
  }
  if (consumer == kConsumers - 1) named_barrier_arrive(1, threads);
  for (int step = 0; step < rounds; ++step) {
    named_barrier_wait(1 + consumer, threads);
    if (lane == 0 && step < steps[consumer]) issue(order, consumer, step);
    __syncwarp();
    named_barrier_arrive(1 + next, threads);
  }
  if (consumer == 0) named_barrier_wait(1, threads);
#else
  // TODO: wait for the turn, issue, pass it on.
  (void)order, (void)steps, (void)consumer, (void)lane;
#endif
}

/// Two jobs. You need not change it.
/// Launched with one block of three warps.
/// @param steps of the consumers, for each job
/// @param list  of what was issued
__global__ void two_jobs(const int* steps, int* list) {
  __shared__ Order order;
  if (threadIdx.x == 0) order = {0, list};
  __syncthreads();
  take_turns(order, steps);
  take_turns(order, steps + kConsumers);
}

}  // namespace student

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(run, [](const std::vector<int>& steps) {
  return watched([&] {
    const auto of_jobs = on_device(steps);
    auto list = on_device(std::vector<int>(100, -1));
    launch(fa::FA_TARGET::student::two_jobs, {{1}, {3 * kWarp}}, of_jobs.data(), list.data());
    return from_device(list);
  });
});
#elif defined(FA_GRADER)
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
/* Other answers, as changes of the solution
# no_start: no consumer has the first turn
@ easy: deadlock
- if (consumer == kConsumers - 1) named_barrier_arrive(1, threads);
+

# left_over: the last arrival is not taken
@ odd: can issue at the same time
- if (consumer == 0) named_barrier_wait(1, threads);
+

# own_rounds: a consumer leaves after its last step
@ odd: with 32 of 64 threads there
- for (int step = 0; step < rounds; ++step) {
+   for (int step = 0; step < steps[consumer] + 0 * rounds; ++step) {

# barrier_zero: the ids 0, 1, 2
@ races: Barrier 0 is that of __syncthreads()
- if (consumer == kConsumers - 1) named_barrier_arrive(1, threads);
+ if (consumer == kConsumers - 1) named_barrier_arrive(0, threads);
- named_barrier_wait(1 + consumer, threads);
+   named_barrier_wait(consumer, threads);
- named_barrier_arrive(1 + next, threads);
+   named_barrier_arrive(next, threads);
- if (consumer == 0) named_barrier_wait(1, threads);
+ if (consumer == 0) named_barrier_wait(0, threads);

# successor: the turn passes only to a consumer that has a step left
@ right
- const int next = (consumer + 1) % kConsumers;
- ...
- if (consumer == 0) named_barrier_wait(1, threads);
+  int rounds = 0, owner = 0;  // consumer 0 owns the turn first and last
+  for (int i = 0; i < kConsumers; ++i) rounds = max(rounds, steps[i]);
+  const auto pass_to = [&](int other) {
+    if (other == owner) return;
+    if (consumer == owner) { __syncwarp(); named_barrier_arrive(1 + other, threads); }
+    if (consumer == other) named_barrier_wait(1 + other, threads);
+    owner = other;
+  };
+  for (int turn = 0; turn < rounds * kConsumers; ++turn) {
+    const int step = turn / kConsumers, who = turn % kConsumers;
+    if (step >= steps[who]) continue;
+    pass_to(who);
+    if (who == consumer && lane == 0) issue(order, who, step);
+  }
+  pass_to(0);
*/
