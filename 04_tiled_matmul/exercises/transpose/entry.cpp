#include "common/classroom/prelude_lab.hpp"
#include "student/transpose.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(transpose, [](const std::vector<float>& matrix, int rows, int cols) {
  constexpr int tile = 32;
  Launched result;
  result.seen = watch([&] {
    const auto in = on_device(matrix);
    DeviceBuffer<float> out(std::int64_t{rows} * cols);
    launch(transpose_tiles,
           {{static_cast<unsigned>(ceil_div(cols, tile)),
             static_cast<unsigned>(ceil_div(rows, tile))},
            {tile, 8}},
           in.data(), out.data(), rows, cols);
    result.out = from_device(out);
  });
  return result;
});
