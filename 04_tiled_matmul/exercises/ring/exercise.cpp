#if defined(FA_STUDENT)
#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

/// Stages of the ring, and floats of a tile.
constexpr int kStages = 4, kTileSize = 128;

/// Dynamic shared memory of the block.
struct RingStorage {
  __align__(16) float stages[kStages][kTileSize];
  Mbarrier full[kStages];   ///< the bytes of a tile have arrived
  Mbarrier empty[kStages];  ///< both consumers are done with the stage
};

/// out[0] = the sum of all elements, out[1] = the largest one.
/// One block of three warps: a producer, a consumer for the sum, a consumer for the maximum.
/// @param x [tiles, kTileSize]
__global__ void sum_and_max(const float* x, float* out, int tiles) {
  auto& shared = *dynamic_shared<RingStorage>();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  constexpr int bytes = kTileSize * static_cast<int>(sizeof(float));
#ifdef FA_SOLUTION
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      shared.full[i].init(1);
      shared.empty[i].init(2);  // one lane of each consumer warp
    }
    fence_barrier_init();
  }
  __syncthreads();  // the barriers are initialised
  float sum = 0, largest = -INFINITY;
  for (int t = 0; t < tiles; ++t) {
    const int stage = t % kStages, round = t / kStages;
    if (threadIdx.x == 0) {
      shared.empty[stage].wait((round + 1) % 2);
      shared.full[stage].arrive_and_expect(bytes);
      bulk_load(shared.stages[stage], x + t * kTileSize, bytes, shared.full[stage]);
    }
    if (warp == 0) continue;
    shared.full[stage].wait(round % 2);
    for (int i = lane; i < kTileSize; i += kWarp) {
      sum += shared.stages[stage][i];
      largest = fmaxf(largest, shared.stages[stage][i]);
    }
    __syncwarp();  // all lanes have read
    if (lane == 0) shared.empty[stage].arrive();
  }
#else
  // TODO: initialise the barriers; one thread of warp 0 fills the stages; warps 1 and 2 read them.
  float sum = 0, largest = -INFINITY;
  (void)shared, (void)x, (void)tiles, (void)bytes;
  if (tiles >= 0) return;
#endif
  sum = warp_sum(sum);
  largest = warp_max(largest);
  if (warp == 1 && lane == 0) out[0] = sum;
  if (warp == 2 && lane == 0) out[1] = largest;
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
namespace {

// Tiles whose copies have begun when a consumer first reads one.
double tiles_in_flight(const Seen& seen) {
  const char *begin = nullptr, *end = nullptr;
  std::int64_t bytes = 0;
  for (const fa::lab::Touch& touch : seen.touches) {
    const auto* const address = static_cast<const char*>(touch.address);
    if (!touch.shared) continue;
    if (touch.write && touch.size >= 16) {
      begin = begin == nullptr ? address : std::min(begin, address);
      end = end == nullptr ? address + touch.size : std::max(end, address + touch.size);
      bytes += touch.size;
    } else if (!touch.write && address >= begin && address < end) {
      break;
    }
  }
  return static_cast<double>(bytes) / sizeof(float) / kTileSize;
}

}  // namespace

FA_ENTRY(run, [](const std::vector<float>& numbers, int tiles) {
  std::string error;
  Launched result = watched([&] {
    const auto x = on_device(numbers);
    DeviceBuffer<float> out(2);
    error = thrown([&] {
      launch(sum_and_max, {{1}, {3 * kWarp}, sizeof(RingStorage)}, x.data(), out.data(), tiles);
    });
    return from_device(out);
  });
  result.out.push_back(tiles_in_flight(result.seen));
  return std::pair(result, error);
});
#elif defined(FA_GRADER)
#include <numeric>

#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kStages = 4, kTileSize = 128;

const std::vector<Reason> kReasons = {
    {"bytes",  // before those for what follows from it
     "an mbarrier expects another number of bytes than the copies bring: arrive_and_expect() "
     "announces those of all copies of its phase"},
    {"copy",
     "a stage is read or overwritten while a copy is in flight: consumers wait at full for the "
     "parity of their round"},
    {"race",
     "a stage is overwritten while a consumer still reads it, or read before its tile has arrived. "
     "The producer must wait until both consumer warps have released the stage, and a warp "
     "releases it when all its lanes have read: __syncwarp() before the arrival"},
    {"proxy",
     "the barriers may not be initialised when the copy begins: fence_barrier_init() and "
     "__syncthreads() follow init()"},
    {"barrier",
     "the number of arrivals with init() is not the number that come in a phase, a barrier is used "
     "before it is initialised, more than one thread initialises it, or only some threads come to "
     "__syncthreads()"}};

struct Case : Launched {
  std::vector<float> x;
  double in_flight = 0;
};

Case run(int tiles) {
  Case result;
  for (const float number : random_floats(std::int64_t{tiles} * kTileSize, 1)) {
    result.x.push_back(std::round(4 * number) - 30);
  }
  static_cast<Launched&>(result) =
      call_waiting(kReasons,
                   "compare the number of arrivals with init(), the bytes with what is copied, and "
                   "the parities with the table of the chapter.",
                   "run", result.x, tiles);
  result.in_flight = result.out.back();
  result.out.pop_back();
  return result;
}

void grade(int tiles) {
  const Case c = run(tiles);
  const double sum = std::accumulate(c.x.begin(), c.x.end(), 0.0);
  const double largest = *std::max_element(c.x.begin(), c.x.end());
  check_result(c.seen, kReasons, {"sum and maximum", c.out, 2}, {sum, largest}, 0,
               {{"no tile was read: the sum is 0 and the maximum -infinity", {0, -INFINITY}}},
               fmt::format("{} tiles", tiles));
}

}  // namespace

FA_STAGE(easy) {
  grade(4);
  grade(2);
}

FA_STAGE(odd) {
  grade(1);
  grade(5);
  grade(8);
  grade(13);
}

FA_STAGE(races) {
  for (const int tiles : {3, 9, 17}) {
    const Case c = run(tiles);
    require_no_races(c.seen, kReasons);
    const int room = std::min(tiles, kStages);
    require(
        c.in_flight >= room,
        fmt::format(
            "the ring has room for {} tiles, and of {} only {} {} in flight when the first is "
            "read: nothing but a full ring may stop the producer, and tile t goes to stage t % {}",
            kStages, tiles, c.in_flight, c.in_flight == 1 ? "is" : "are", kStages));
  }
}
#endif
/* Other answers, as changes of the solution
# producer_parity: the producer waits for the consumers' parity
@ easy: threads wait forever
- shared.empty[stage].wait((round + 1) % 2);
+ shared.empty[stage].wait(round % 2);

# one_consumer: a phase of empty needs one arrival
@ odd: the number of arrivals with init()
- shared.empty[i].init(2);  // one lane of each consumer warp
+ shared.empty[i].init(1);

# no_syncwarp: lane 0 releases for all
@ races: __syncwarp() before the arrival
- __syncwarp();  // all lanes have read

# two_stages: half of the ring
@ races: the ring has room for 4 tiles, and of 3 only 2 are in flight
- const int stage = t % kStages, round = t / kStages;
+   const int stage = t % 2, round = t / 2;

# only_when_full: the producer waits from the second round on, and the parity is a bit of t
@ right
- shared.empty[stage].wait((round + 1) % 2);
+      if (t >= kStages) shared.empty[stage].wait((round - 1) & 1);
- shared.full[stage].wait(round % 2);
+    shared.full[stage].wait(t >> 2 & 1);

*/
