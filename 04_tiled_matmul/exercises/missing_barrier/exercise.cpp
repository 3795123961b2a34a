#if defined(FA_STUDENT)
#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

/// Rows and columns of C that a block computes, and the depth of its tiles.
constexpr int kSharedTile = 32;

/// Launched with blocks of 32 x 32; grid of ceil(n / 32) x ceil(m / 32).
// listing: 04_tiled_matmul/kernels/09_matmul_shared_tiles.cuh#shared_tiles

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
template <bool b_transposed>
Launched matmul(const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
  return watched([&] {
    const auto on_a = on_device(a), on_b = on_device(b);
    DeviceBuffer<float> c(std::int64_t{m} * n);
    const MatmulParams<float> p{on_a.data(), on_b.data(),          c.data(), m, n, k,
                                k,           b_transposed ? k : n, n};
    launch(matmul_shared_tiles<b_transposed>,
           {{static_cast<unsigned>(ceil_div(n, kSharedTile)),
             static_cast<unsigned>(ceil_div(m, kSharedTile))},
            {kSharedTile, kSharedTile}},
           p);
    return from_device(c);
  });
}

FA_ENTRY(matmul, [](const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k,
                    bool b_transposed) {
  return b_transposed ? matmul<true>(a, b, m, n, k) : matmul<false>(a, b, m, n, k);
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/matmul.hpp"

using namespace fa::classroom;

namespace {

const std::vector<Reason> kReasons = {
    {"barrier", "some threads never come to the barrier: those outside of C must wait, too"},
    {"out of bounds", "it writes beside C: the tail is not masked"},
    {"unwritten", "the first barrier is missing: the tiles are read before they are there"}};

Launched multiply(const std::vector<float>& a, std::vector<float> b, const MatmulSizes& s,
                  bool b_transposed) {
  if (b_transposed) {
    const std::vector<float> rows = b;
    for (int i = 0; i < s.k * s.n; ++i) b[i % s.n * s.k + i / s.n] = rows[i];
  }
  return call<Launched>("matmul", a, b, s.m, s.n, s.k, b_transposed);
}

Seen run(const MatmulSizes& s) {
  return multiply(random_floats(s.m * s.k, 1), random_floats(s.k * s.n, 2), s, true).seen;
}

void grade(const MatmulSizes& s, bool b_transposed = false) {
  const std::vector<float> a = random_floats(s.m * s.k, 1), b = random_floats(s.k * s.n, 2);
  const Launched c = multiply(a, b, s, b_transposed);
  // float32 sums of k terms of size 1, many times over.
  check_matmul(c.seen, kReasons, c.out, matmul(a, b, s), 4e-6 * s.k, s,
               [=](const auto& of_a, const auto& of_b) {
                 return multiply(of_a, of_b, s, b_transposed).out;
               });
}

}  // namespace

FA_STAGE(found) {
  require(names_both(evidence("the numbers of two lines that race"), {"element_of_"}, {"acc += "}),
          "not found. One of the two lines stores an element that the other one loads. Their "
          "numbers are those of the file as it was at the start");
}

FA_STAGE(easy) {
  grade({31, 31, 31});
  grade({32, 64, 32});
}

FA_STAGE(odd) {
  grade({32, 32, 64});
  grade({31, 33, 65});
  grade({33, 31, 70}, true);
  grade({1, 5, 3}, true);
}

FA_STAGE(races) {
  require_no_races(run({33, 40, 64}));
}

FA_STAGE(traffic) {
  const Seen seen = run({64, 64, 64});
  needs_watching(seen);
  // Reading A's tile is one word for a warp, B's a row: one wavefront each, and one for each store.
  const std::int64_t budget = 2 * 64 * 64 * 64 / 32 + 4 * 64 * 64 * 2 / 32;
  note("wavefronts of shared memory", seen.wavefronts);
  require(seen.wavefronts <= budget,
          fmt::format("bank conflicts: {} wavefronts, and {} would do", seen.wavefronts, budget));
}
#endif
/* Other answers, as changes of the solution
# start: what the student begins with
@ start
- __syncthreads();  // all threads are done with the tiles

# no_first_barrier: the tiles are read before they are there
@ easy: the first barrier is missing
- __syncthreads();  // the tiles are complete
+

# warp_barrier: a warp waits for itself only
@ odd: nothing orders them
- __syncthreads();  // all threads are done with the tiles
+     __syncwarp();

# in_a_branch: only threads inside of C wait
@ odd: some threads never come
- __syncthreads();  // all threads are done with the tiles
+     if (row0 + y < p.m && col0 + x < p.n) __syncthreads();

# unpadded: B's tile without a pad
@ traffic: bank conflicts
- __shared__ float a_smem[tile][tile], b_smem[tile][tile + 1];
+   __shared__ float a_smem[tile][tile], b_smem[tile][tile];

# double_buffer: two tiles of each, one barrier a step
@ right
- __shared__ float a_smem[tile][tile], b_smem[tile][tile + 1];
+  __shared__ float a_two[2][tile][tile], b_two[2][tile][tile + 1];
- a_smem[y][x] = element_of_a(p, row0 + y, k0 + x);
+    auto& a_smem = a_two[k0 / tile & 1];
+    auto& b_smem = b_two[k0 / tile & 1];
+    a_smem[y][x] = element_of_a(p, row0 + y, k0 + x);
- __syncthreads();  // all threads are done with the tiles
+
*/
