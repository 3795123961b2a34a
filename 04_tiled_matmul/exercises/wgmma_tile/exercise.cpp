#if defined(FA_STUDENT)
#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

/// Dynamic shared memory of the block.
struct TileStorage {
  SwizzledTile<bfloat16, 64, 64> a;  ///< [m, k]
  SwizzledTile<bfloat16, 64, 64> b;  ///< [k, n]
  Mbarrier full;                     ///< both have arrived
};

/// C = A B with m, n and k of at most 64; what TMA copies from outside of a matrix is 0.
/// One warpgroup.
/// @param a_map of A, [m, k]
/// @param b_map of B, [k, n]
/// @param c     [m, n]
__global__ void __launch_bounds__(kWarpgroup)
    multiply_tile(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                  float* c, int m, int n) {
  auto& shared = *dynamic_shared<TileStorage>();
  float d[32] = {};  // the sums of this thread: 64 columns / 2
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#ifdef FA_SOLUTION
  if (threadIdx.x == 0) {
    shared.full.init(1);
    fence_barrier_init();
    shared.full.arrive_and_expect(2 * 64 * 64 * 2);
    load_tile(shared.a, a_map, shared.full, 0, 0, 0);
    load_tile(shared.b, b_map, shared.full, 0, 0, 0);
  }
  __syncthreads();  // the barrier is initialised
  shared.full.wait(0);
  wgmma_fence(d);
  const auto a = matrix_descriptor<Major::kK>(shared.a.data, 0);
  const auto b = matrix_descriptor<Major::kMN>(shared.b.data, 64 * 128);
  for (int l = 0; l < 64; l += 16) {
    wgmma<bfloat16>(d, a + 2 * l, b + 128 * l, true);
  }
  wgmma_commit();
  wgmma_wait<0>(d);
  for (int i = 0; i < 32; ++i) {
    const int row = 16 * warp + i / 2 % 2 * 8 + lane / 4;
    const int col = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (row < m && col < n) c[row * n + col] = d[i];
  }
#else
  // TODO: load both tiles, wait, four wgmma with descriptors, wait, store.
  (void)a_map, (void)b_map, (void)shared;
  for (int i = threadIdx.x; i < m * n; i += kWarpgroup) c[i] = d[0];
  (void)warp, (void)lane;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
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
#elif defined(FA_GRADER)
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
/* Other answers, as changes of the solution
# k_major_b: B is described as if it were stored [n, k]
@ easy: an element is taken for another one
- const auto b = matrix_descriptor<Major::kMN>(shared.b.data, 64 * 128);
+ const auto b = matrix_descriptor<Major::kK>(shared.b.data, 0);
- wgmma<bfloat16>(d, a + 2 * l, b + 128 * l, true);
+ wgmma<bfloat16>(d, a + 2 * l, b + 2 * l, true);

# not_waited_for: the sums are read at once
@ easy: wgmma_wait<0>(d) before the store
- wgmma_wait<0>(d);

# no_guard: C is smaller
@ odd: guard the store
- if (row < m && col < n) c[row * n + col] = d[i];
+ c[row * n + col] = d[i];

# no_fence: wgmma may begin before d = 0
@ races: wgmma_fence() is missing
- wgmma_fence(d);

# first_scale: the first product does not add
@ right
- wgmma<bfloat16>(d, a + 2 * l, b + 128 * l, true);
+    wgmma<bfloat16>(d, a + 2 * l, b + 128 * l, l > 0);
*/
