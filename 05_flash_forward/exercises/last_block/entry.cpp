#include "common/classroom/prelude_lab.hpp"
#include "student/last_block.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

// lse of each matrix, by launches one after the other with the same counter, and then the counter.
FA_ENTRY(run, [](const std::vector<std::vector<float>>& matrices, int parts) {
  return watched([&] {
    auto counter = on_device(std::vector<unsigned>{0});
    DeviceBuffer<float> m(parts * kColumns), l(parts * kColumns);
    std::vector<double> all;
    for (const std::vector<float>& matrix : matrices) {
      const auto x = on_device(matrix);
      DeviceBuffer<float> lse(kColumns);
      launch(lse_of_columns, {{static_cast<unsigned>(parts)}, {kColumns}}, x.data(), lse.data(),
             m.data(), l.data(), counter.data(), static_cast<int>(matrix.size()) / kColumns);
      for (const double value : from_device(lse)) all.push_back(value);
    }
    all.push_back(from_device(counter)[0]);
    return all;
  });
});
