#include "common/classroom/prelude_lab.hpp"
#include "student/cp_async.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(sum, [](const std::vector<float>& numbers, int tiles) {
  Launched result;
  result.seen = watch([&] {
    const auto x = on_device(numbers);
    DeviceBuffer<float> out(256);
    launch(sum_tiles, {{1}, {64}}, x.data(), out.data(), tiles);
    result.out = from_device(out);
  });
  return result;
});
