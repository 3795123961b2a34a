#include "common/classroom/prelude_lab.hpp"
#include "common/gpu/tensor_map.cuh"
#include "student/wgmma_tile.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

// A matrix with rows of 64 elements, of which it uses the first `cols`.
static DeviceBuffer<bfloat16> of_16_bits(const std::vector<float>& numbers, int rows, int cols) {
  std::vector<bfloat16> matrix(static_cast<std::size_t>(rows * 64), static_cast<bfloat16>(NAN));
  for (int i = 0; i < rows * cols; ++i) {
    matrix[i / cols * 64 + i % cols] = static_cast<bfloat16>(numbers[i]);
  }
  return on_device(matrix);
}

FA_ENTRY(multiply,
         [](const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
           std::string error;
           const Launched result = watched([&] {
             const auto on_a = of_16_bits(a, m, k), on_b = of_16_bits(b, k, n);
             DeviceBuffer<float> c(std::int64_t{m} * n);
             error = thrown([&] {
               launch(multiply_tile, {{1}, {kWarpgroup}, sizeof(TileStorage)},
                      tensor_map(on_a.data(), {1, 1, m, k}, {0, 0, 64}, 64),
                      tensor_map(on_b.data(), {1, 1, k, n}, {0, 0, 64}, 64), c.data(), m, n);
             });
             return from_device(c);
           });
           return std::pair(result, error);
         });
