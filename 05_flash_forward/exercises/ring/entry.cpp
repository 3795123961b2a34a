#include "common/classroom/prelude_lab.hpp"
#include "student/ring.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

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
