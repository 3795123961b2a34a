#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
#include <numeric>

#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kStages = 4, kTileSize = 128;

const std::vector<Reason> kReasons = {
    expected_bytes(),
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
               {{"nothing was written", {NAN, NAN}},
                {"no tile was read: the sum is 0 and the maximum -infinity", {0, -INFINITY}}},
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
