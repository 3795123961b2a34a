#include "common/classroom/prelude_lab.hpp"
#include "common/gpu/tensor_map.cuh"
#include "student/wgmma_tile.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

namespace {

// A matrix with rows of 64 elements, of which it uses the first `cols`.
DeviceBuffer<bfloat16> of_16_bits(const std::vector<float>& numbers, int rows, int cols) {
  fa::Tensor<fa::bfloat16, 2> matrix({rows, 64});
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < 64; ++c) {
      matrix(r, c) = static_cast<fa::bfloat16>(
          c < cols ? numbers[static_cast<std::size_t>(r * cols + c)] : NAN);
    }
  }
  return DeviceBuffer<bfloat16>(matrix);
}

}  // namespace

FA_ENTRY(multiply,
         [](const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
           Launched result;
           std::string error;
           result.seen = watch([&] {
             const auto on_a = of_16_bits(a, m, k), on_b = of_16_bits(b, k, n);
             DeviceBuffer<float> c(std::int64_t{m} * n);
             try {
               launch(multiply_tile, {{1}, {kWarpgroup}, sizeof(TileStorage)},
                      tensor_map(on_a.data(), {1, 1, m, k}, {0, 0, 64}, 64),
                      tensor_map(on_b.data(), {1, 1, k, n}, {0, 0, 64}, 64), c.data(), m, n);
             } catch (const std::exception& failure) {
               error = failure.what();
             }
             result.out = from_device(c);
           });
           return std::pair(result, error);
         });
