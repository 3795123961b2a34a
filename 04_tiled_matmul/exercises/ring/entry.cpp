#include "common/classroom/prelude_lab.hpp"
#include "student/ring.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(run, [](const std::vector<float>& numbers, int tiles) {
  Launched result;
  std::string error;
  result.seen = watch([&] {
    const auto x = on_device(numbers);
    DeviceBuffer<float> out(2);
    try {
      launch(sum_and_max, {{1}, {3 * kWarp}, sizeof(RingStorage)}, x.data(),
             out.data(), tiles);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    result.out = from_device(out);
  });
  return std::pair(result, error);
});
