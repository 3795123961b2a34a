#if defined(FA_STUDENT)
#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Rows and columns of C that a block computes, and the depth of its tiles.
constexpr int kTile = 16;

/// C = A^T B, all row-major: c[i][j] is the sum over l of a[l][i] b[l][j].
/// Launched with blocks of 16 x 16; grid of ceil(n / 16) x ceil(m / 16).
/// No matrix has 2^31 elements or more.
/// @param a [k, m]
/// @param b [k, n]
/// @param c [m, n]
__global__ void matmul_at_b(const float* a, const float* b, float* c, int m, int n, int k) {
#ifdef FA_SOLUTION
  __shared__ float a_smem[kTile][kTile], b_smem[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
  float sum = 0;
  for (int l0 = 0; l0 < k; l0 += kTile) {
    const int l = l0 + y;
    a_smem[y][x] = l < k && row0 + x < m ? a[l * m + row0 + x] : 0;
    b_smem[y][x] = l < k && col0 + x < n ? b[l * n + col0 + x] : 0;
    __syncthreads();  // the tiles are complete
    for (int i = 0; i < kTile; ++i) sum += a_smem[i][y] * b_smem[i][x];
    __syncthreads();  // all threads are done with the tiles
  }
  if (row0 + y < m && col0 + x < n) c[(row0 + y) * n + col0 + x] = sum;
#else
  // TODO: tiles of A and B in shared memory, two barriers for each step along k.
  (void)a, (void)b, (void)c, (void)m, (void)n, (void)k;
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(matmul, [](const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
  constexpr int tile = 16;
  return watched([&] {
    const auto on_a = on_device(a), on_b = on_device(b);
    DeviceBuffer<float> c(std::int64_t{m} * n);
    launch(matmul_at_b,
           {{static_cast<unsigned>(ceil_div(n, tile)), static_cast<unsigned>(ceil_div(m, tile))},
            {tile, tile}},
           on_a.data(), on_b.data(), c.data(), m, n, k);
    return from_device(c);
  });
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/matmul.hpp"

using namespace fa::classroom;

namespace {

constexpr int kTile = 16;

const std::vector<Reason> kReasons = {
    {"barrier",
     "only some threads come to a barrier: threads outside of C must load and wait, too"},
    {"out of bounds", "it reads or writes beside a matrix: both loads and the store need a guard"},
    {"unwritten",
     "a tile is read where nothing was stored: store 0 where an element does not exist, and put a "
     "barrier before the multiplication"},
    own_elements(),
    {"race",
     "a tile is overwritten while other threads still multiply with it, or is read before it is "
     "there: two barriers for each step"}};

Launched multiply(const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
  return call<Launched>("matmul", a, b, m, n, k);
}

Seen run(int m, int n, int k) {
  return multiply(random_floats(k * m, 1), random_floats(k * n, 2), m, n, k).seen;
}

void grade(int m, int n, int k) {
  const MatmulSizes sizes{m, n, k, StoredA::kByColumns};
  const std::vector<float> a = random_floats(k * m, 1), b = random_floats(k * n, 2);
  const Launched c = multiply(a, b, m, n, k);
  check_matmul(
      c.seen, kReasons, c.out, matmul(a, b, sizes), 4e-6 * k, sizes,
      [=](const auto& of_a, const auto& of_b) { return multiply(of_a, of_b, m, n, k).out; });
}

}  // namespace

FA_STAGE(easy) {
  grade(16, 16, 16);
  grade(32, 32, 32);
}

FA_STAGE(odd) {
  grade(17, 31, 33);
  grade(5, 3, 20);
  grade(40, 16, 1);
  grade(1, 1, 70);
}

FA_STAGE(races) {
  for (const int size : {32, 19}) {
    require_no_races(run(size, 33, 40));
  }
}

FA_STAGE(traffic) {
  constexpr int size = 64;
  const Seen seen = run(size, size, size);
  needs_watching(seen);
  // Each of 16 blocks loads 4 tiles of A and of B; C is written once.
  const std::int64_t least = (16 * 4 * 2 * kTile * kTile + size * size) / 8;
  // Stores of a tile: 8 for each tile. Reads of a warp: one for A, one for B, 8 warps, 16 times.
  const std::int64_t rounds = 16 * 4 * (2 * 8 + 2 * 8 * 16);
  note("wavefronts of shared memory", seen.wavefronts);
  require(seen.wavefronts > 0, "shared memory was not used");
  budget("sectors of global memory", seen.sectors, least,
         "do neighbouring threads load neighbouring elements of A, once for each tile?", least);
  require(seen.wavefronts <= rounds + rounds / 4,
          fmt::format("bank conflicts: {} wavefronts of shared memory, and {} would do",
                      seen.wavefronts, rounds));
}
#endif
/* Other answers, as changes of the solution
# a_as_stored_in_the_page: A B
@ easy: an element is taken for another one
- a_smem[y][x] = l < k && row0 + x < m ? a[l * m + row0 + x] : 0;
- b_smem[y][x] = l < k && col0 + x < n ? b[l * n + col0 + x] : 0;
+     a_smem[x][y] = l0 + x < k && row0 + y < m ? a[(row0 + y) * k + l0 + x] : 0;
+     b_smem[y][x] = l < k && col0 + x < n ? b[l * n + col0 + x] : 0;

# no_second_barrier: overwritten while others multiply
@ easy: two barriers for each step
- __syncthreads();  // all threads are done with the tiles

# early_return: threads outside of C leave
@ odd: threads outside of C must load
- float sum = 0;
+ float sum = 0;
+ if (row0 + y >= m || col0 + x >= n) return;

# column_loads: lanes walk down the columns of A
@ traffic: do neighbouring threads load
- a_smem[y][x] = l < k && row0 + x < m ? a[l * m + row0 + x] : 0;
+ a_smem[x][y] = l0 + x < k && row0 + y < m ? a[(l0 + x) * m + row0 + y] : 0;

# double_buffer: two tiles, one barrier a step
@ right
- __shared__ float a_smem[kTile][kTile], b_smem[kTile][kTile];
+  __shared__ float a_all[2][kTile][kTile], b_all[2][kTile][kTile];
- const int l = l0 + y;
+    auto& a_smem = a_all[l0 / kTile % 2]; auto& b_smem = b_all[l0 / kTile % 2];
+    const int l = l0 + y;
- __syncthreads();  // all threads are done with the tiles
+
*/
