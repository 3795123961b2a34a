#include "common/classroom/prelude_lab.hpp"
#include "student/transpose.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(transpose, [](const std::vector<float>& matrix, int rows, int cols) {
  constexpr int tile = 32;
  return watched([&] {
    const auto in = on_device(matrix);
    DeviceBuffer<float> out(std::int64_t{rows} * cols);
    launch(
        transpose_tiles,
        {{static_cast<unsigned>(ceil_div(cols, tile)), static_cast<unsigned>(ceil_div(rows, tile))},
         {tile, 8}},
        in.data(), out.data(), rows, cols);
    return from_device(out);
  });
});
// The tile of a large matrix whose first element is (y0, x0), transposed; rows below it there are
// none. Of `in` only these rows exist, of `out` as many.
FA_ENTRY(far_tile, [](const std::vector<float>& tile, int rows, int cols, int x0, int y0) {
  constexpr int side = 32;
  const int height = rows - y0;
  std::vector<float> matrix(static_cast<std::size_t>(height) * cols);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < side; ++x) {
      matrix[static_cast<std::size_t>(y) * cols + x0 + x] =
          tile[static_cast<std::size_t>(y * side + x)];
    }
  }
  const auto in = on_device(matrix);
  DeviceBuffer<float> out(std::int64_t{side} * rows);
  launch(far_blocks<transpose_tiles, const float*, float*, int, int>, {{1}, {side, 8}},
         fa::Size(static_cast<unsigned>(x0 / side), static_cast<unsigned>(y0 / side)),
         fa::Size(static_cast<unsigned>(ceil_div(cols, side)),
                  static_cast<unsigned>(ceil_div(rows, side))),
         in.data() - std::int64_t{y0} * cols, out.data() - std::int64_t{x0} * rows, rows, cols);
  const std::vector<double> all = from_device(out);
  std::vector<double> result;
  for (int x = 0; x < side; ++x) {
    for (int y = 0; y < height; ++y) {
      result.push_back(all[static_cast<std::size_t>(x) * rows + y0 + y]);
    }
  }
  return result;
});
