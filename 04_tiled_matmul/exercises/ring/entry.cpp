#include "common/classroom/prelude_lab.hpp"
#include "student/ring.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

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
