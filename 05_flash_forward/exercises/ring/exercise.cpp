#if defined(FA_STUDENT)
#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

namespace student {

constexpr int kStages = 3;

/// Differences of neighbouring tiles of 32 elements.
/// Launched with one block of two warps.
/// @param x   [tiles, 32]
/// @param out of the same shape
__global__ void differences(const float* x, float* out, int tiles) {
  __shared__ Mbarrier full[kStages], empty[kStages];
  __shared__ float ring[kStages][kWarp];
  const int lane = threadIdx.x % kWarp;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      full[i].init(1);
      empty[i].init(1);
    }
    fence_barrier_init();
  }
  __syncthreads();
  PipelineState<kStages> at;
  if (threadIdx.x < kWarp) {  // the producer
    for (int tile = 0; tile < tiles; ++tile, at.advance()) {
      empty[at.stage].wait(at.parity ^ 1);
      ring[at.stage][lane] = x[tile * kWarp + lane];
      __syncwarp();
      if (lane == 0) full[at.stage].arrive();
    }
    return;
  }
  for (int tile = 0; tile < tiles; ++tile, at.advance()) {
    full[at.stage].wait(at.parity);
    const int before = (at.stage + kStages - 1) % kStages;
    float difference = ring[at.stage][lane];
    if (tile > 0) difference -= ring[before][lane];
    out[tile * kWarp + lane] = difference;
    __syncwarp();  // all lanes have read
#ifdef FA_SOLUTION
    if (lane == 0 && tile > 0) empty[before].arrive();
#else
    if (lane == 0) empty[at.stage].arrive();
#endif
  }
}

}  // namespace student

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
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
#elif defined(FA_GRADER)
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
  std::vector<double> out, right;
  double ahead;  // tiles that are written when the first one is read
};

Case run(int tiles) {
  const auto x = random_floats(std::int64_t{tiles} * kWarp, 5);
  auto launched = call<Launched>("run", x);
  const double ahead = launched.out.back();
  launched.out.pop_back();
  std::vector<double> right;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double before = i < kWarp ? 0 : static_cast<double>(x[i - kWarp]);
    right.push_back(static_cast<double>(x[i]) - before);
  }
  return {launched.seen, launched.out, right, ahead};
}

void grade(int tiles) {
  const Case c = run(tiles);
  check_result(c.seen, kReasons, {"out", c.out, kWarp}, c.right, 1e-6, {},
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
/* Other answers, as changes of the solution
# evidence_late: the stages are counted, not what is read
@ found: not found: fewer tiles, or more
- // answer: 4, 1
+ // answer: 5, 1

# never: no stage is released
@ odd: deadlock
- if (lane == 0 && tile > 0) empty[before].arrive();
+

# before_the_read: the order of reads and release
@ races: has not finished with
- __syncwarp();  // all lanes have read
+

# waits_for_two: the producer waits for the tile before the last one
@ races: the producer waits where it need not
- ring[at.stage][lane] = x[tile * kWarp + lane];
+       if (tile > 1) {
+         empty[(at.stage + 1) % kStages].wait(at.stage == 2 ? at.parity : at.parity ^ 1);
+       }
+       ring[at.stage][lane] = x[tile * kWarp + lane];
- if (lane == 0 && tile > 0) empty[before].arrive();
+     if (lane == 0 && tile > 0) empty[before].arrive();

# release_after_next: the stage by the number of the tile
@ right
- if (lane == 0 && tile > 0) empty[before].arrive();
+    if (lane == 0 && tile >= 1) { empty[(tile - 1) % 3].arrive(); }
*/
