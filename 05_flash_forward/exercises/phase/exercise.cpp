#if defined(FA_STUDENT)
#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

namespace student {

constexpr int kStages = 3;

/// Rows of K and V pass through it.
struct Ring {
  Mbarrier full[kStages];   ///< a row has been written; one arrival
  Mbarrier empty[kStages];  ///< it has been read; one arrival
  float rows[kStages][kWarp];
};

/// The producer's warp writes a row.
/// @param load counts the rows since the kernel began
/// @param x    the lane's element
__device__ inline void put(Ring& ring, int load, float x) {
  const int lane = threadIdx.x % kWarp;
#ifdef FA_SOLUTION
  const int stage = load % kStages, use = load / kStages;
  ring.empty[stage].wait((use + 1) % 2);
  ring.rows[stage][lane] = x;
  __syncwarp();
  if (lane == 0) ring.full[stage].arrive();
#else
  // TODO: wait, write, arrive.
  (void)ring, (void)load, (void)x, (void)lane;
#endif
}

/// The consumer's warp reads a row.
/// @return the lane's element
__device__ inline float get(Ring& ring, int load) {
  const int lane = threadIdx.x % kWarp;
#ifdef FA_SOLUTION
  const int stage = load % kStages, use = load / kStages;
  ring.full[stage].wait(use % 2);
  const float x = ring.rows[stage][lane];
  __syncwarp();
  if (lane == 0) ring.empty[stage].arrive();
  return x;
#else
  // TODO: wait, read, release.
  (void)ring, (void)load, (void)lane;
  return NAN;
#endif
}

/// For each job the sums of k * v over its rows, column by column. You need not change it.
/// Launched with one block of two warps.
/// @param rows of each job
/// @param out  32 for each job
__global__ void ring_sums(const float* k, const float* v, const int* rows, int jobs, float* out) {
  __shared__ Ring ring;
  const int lane = threadIdx.x % kWarp;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      ring.full[i].init(1);
      ring.empty[i].init(1);
    }
    fence_barrier_init();
  }
  __syncthreads();
  int load = 0, row = 0;
  for (int job = 0; job < jobs; ++job) {
    float sum = 0;
    for (int i = 0; i < rows[job]; ++i, ++row, load += 2) {
      if (threadIdx.x < kWarp) {
        put(ring, load, k[row * kWarp + lane]);
        put(ring, load + 1, v[row * kWarp + lane]);
      } else {
        const float key = get(ring, load);
        sum += key * get(ring, load + 1);
      }
    }
    if (threadIdx.x >= kWarp) out[job * kWarp + lane] = sum;
  }
}

}  // namespace student

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
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
#elif defined(FA_GRADER)
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
  check_result(c.seen, kReasons, {"out", c.out, kWarp}, c.right, 1e-4, {},
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
/* Other answers, as changes of the solution
# same_parity: the producer waits for the phase that it begins
@ easy: deadlock
- ring.empty[stage].wait((use + 1) % 2);
+   ring.empty[stage].wait(use % 2);

# lane_0_is_early: the other lanes may still write
@ races: before all lanes have passed
- ring.rows[stage][lane] = x;
- __syncwarp();
+   ring.rows[stage][lane] = x;

# waits_for_its_row: the producer waits until its row was read
@ races: nothing but a full ring may stop the producer
- if (lane == 0) ring.full[stage].arrive();
+   if (lane == 0) ring.full[stage].arrive();
+   ring.empty[stage].wait(use % 2);

# lane0_waits_then_syncwarp: one lane waits for its warp
@ right
- ring.full[stage].wait(use % 2);
+  if (lane == 0) ring.full[stage].wait(use % 2);
+  __syncwarp();

# skip_first_round: no wait in the first round
@ right
- ring.empty[stage].wait((use + 1) % 2);
+  if (load >= kStages) ring.empty[stage].wait((use - 1) & 1);
*/
