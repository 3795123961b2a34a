#ifdef FA_ENTRIES  // the student's process
#include "common/gpu/tensor_map.cuh"

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
#else  // the grader
#include "04_tiled_matmul/exercises/grading/matmul.hpp"

using namespace fa::classroom;

namespace {

const std::vector<Reason> kReasons = {
    {"copy",
     "a tile is used before it has arrived: wait at the barrier for phase 0; it must expect the "
     "bytes of both tiles"},
    {"wgmma",
     "the sums d belong to wgmma from wgmma_fence(d), before the first one, to wgmma_commit() and "
     "wgmma_wait<0>(d) before the store"},
    {"operand",
     "wgmma reads what is not there: is the descriptor's address that of the tile, and does it "
     "stay inside of it?"},
    {"unwritten",
     "wgmma reads what no copy has written: how many bytes is it from 16 steps of k to the next "
     "16?"},
    {"out of bounds",
     "C is written beside its m x n elements: guard the store, and a row of C has n elements"}};

Launched multiply(const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
  return call_waiting(kReasons,
                      "the bytes that are announced must be those that TMA copies, two whole tiles "
                      "of 64 x 64 elements of 2 bytes.",
                      "multiply", a, b, m, n, k);
}

void grade(int m, int n, int k) {
  const MatmulSizes sizes{m, n, k};
  const std::vector<float> a = whole_numbers(m * k, 1), b = whole_numbers(k * n, 2);
  const Launched c = multiply(a, b, m, n, k);
  const auto right = matmul(a, b, sizes);
  check_matmul(
      c.seen, kReasons, c.out, right, 0, sizes,
      [=](const auto& of_a, const auto& of_b) { return multiply(of_a, of_b, m, n, k).out; },
      {{"C is 0: nothing was multiplied", std::vector<double>(right.size(), 0)}});
}

}  // namespace

FA_STAGE(easy) {
  grade(64, 64, 64);
}

FA_STAGE(odd) {
  grade(63, 63, 64);
  grade(64, 64, 40);
  grade(37, 51, 64);
  grade(1, 3, 5);
}

FA_STAGE(races) {
  for (const int size : {64, 33}) {
    const int count = size * size;
    const Seen seen =
        multiply(whole_numbers(count, 1), whole_numbers(count, 2), size, size, size).seen;
    require_no_races(seen, kReasons);
  }
}
#endif
