#include "common/classroom/prelude_lab.hpp"
#include "student/cp_async.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

namespace {

// Copies of the block's first thread that are in flight when it begins to add a tile; the fewest of
// all tiles that have two more behind them.
double copies_in_flight(const Seen& seen, int tiles) {
  constexpr int reads_of_a_tile = kTileSize / kThreads;
  int in_flight = 0, reads = 0, fewest = tiles > 2 ? 2 : 0;
  for (const fa::lab::Touch& touch : seen.touches) {
    if (touch.thread != 0 || !touch.shared) continue;
    if (touch.write) {
      in_flight += touch.landed ? -1 : 1;
    } else if (reads++ % reads_of_a_tile == 0 && reads / reads_of_a_tile + 2 < tiles) {
      fewest = std::min(fewest, in_flight);
    }
  }
  return fewest;
}

}  // namespace

FA_ENTRY(sum, [](const std::vector<float>& numbers, int tiles) {
  Launched result = watched([&] {
    const auto x = on_device(numbers);
    DeviceBuffer<float> out(256);
    launch(sum_tiles, {{1}, {64}}, x.data(), out.data(), tiles);
    return from_device(out);
  });
  result.out.push_back(copies_in_flight(result.seen, tiles));
  return result;
});
