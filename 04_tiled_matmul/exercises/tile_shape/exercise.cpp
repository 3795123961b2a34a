#if defined(FA_STUDENT)
#include "04_tiled_matmul/kernels/matmul_params.cuh"

namespace fa::FA_TARGET {

#ifdef FA_SOLUTION
constexpr int kRows = 64;      // of C, for each block
constexpr int kCols = 64;      // of C, for each block
constexpr int kThreadsX = 16;  // of a block
constexpr int kThreadsY = 16;  // of a block
#else
constexpr int kRows = 32;      // of C, for each block
constexpr int kCols = 32;      // of C, for each block
constexpr int kThreadsX = 32;  // of a block
constexpr int kThreadsY = 32;  // of a block
#endif

/// Blocks for a matrix C, columns in x.
inline unsigned blocks_x(int n) {
  return static_cast<unsigned>(ceil_div(n, kCols));
}
inline unsigned blocks_y(int m) {
  return static_cast<unsigned>(ceil_div(m, kRows));
}

/// C = A B. Launched with blocks of kThreadsX x kThreadsY, blocks_x(n) x blocks_y(m) of them.
__global__ void product(MatmulParams<float> p) {
#ifdef FA_SOLUTION
  constexpr int depth = 16, side = 4, threads = kThreadsX * kThreadsY;
  __shared__ float a_smem[kRows][depth], b_smem[depth][kCols];
  const int x = threadIdx.x, y = threadIdx.y, thread = y * kThreadsX + x;
  const int row0 = blockIdx.y * kRows, col0 = blockIdx.x * kCols;
  float sum[side][side] = {};
  for (int l0 = 0; l0 < p.k; l0 += depth) {
    for (int e = thread; e < kRows * depth; e += threads) {
      const int i = e / depth, l = e % depth;
      a_smem[i][l] = element_of_a(p, row0 + i, l0 + l);
    }
    for (int e = thread; e < depth * kCols; e += threads) {
      const int l = e / kCols, j = e % kCols;
      b_smem[l][j] = element_of_b<false>(p, l0 + l, col0 + j);
    }
    __syncthreads();  // the tiles are complete
    for (int l = 0; l < depth; ++l) {
      float a[side], b[side];
      for (int i = 0; i < side; ++i) a[i] = a_smem[y + kThreadsY * i][l];
      for (int j = 0; j < side; ++j) b[j] = b_smem[l][x + kThreadsX * j];
      for (int i = 0; i < side; ++i) {
        for (int j = 0; j < side; ++j) sum[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();  // all threads are done with the tiles
  }
  for (int i = 0; i < side; ++i) {
    for (int j = 0; j < side; ++j) {
      const int row = row0 + y + kThreadsY * i, col = col0 + x + kThreadsX * j;
      if (row < p.m && col < p.n) {
        p.c[std::int64_t{row} * p.ldc + col] = sum[i][j];
      }
    }
  }
#else
  // TODO: right, but it reads too much. More results for each thread.
  constexpr int tile = 32;
  __shared__ float a_smem[tile][tile], b_smem[tile][tile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row0 = blockIdx.y * tile, col0 = blockIdx.x * tile;
  float sum = 0;
  for (int l0 = 0; l0 < p.k; l0 += tile) {
    a_smem[y][x] = element_of_a(p, row0 + y, l0 + x);
    b_smem[y][x] = element_of_b<false>(p, l0 + y, col0 + x);
    __syncthreads();  // the tiles are complete
    for (int l = 0; l < tile; ++l) sum += a_smem[y][l] * b_smem[l][x];
    __syncthreads();  // all threads are done with the tiles
  }
  if (row0 + y < p.m && col0 + x < p.n) {
    p.c[std::int64_t{row0 + y} * p.ldc + col0 + x] = sum;
  }
#endif
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(blocks, [](int m, int n) { return std::pair(blocks_x(n), blocks_y(m)); });
// With so many unused elements behind each row of A and C, and twice as many behind those of B.
FA_ENTRY(product, [](const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k,
                     int gap) {
  Launched result;
  const auto with_gaps = [](const std::vector<float>& rows, int cols, int ld) {
    std::vector<float> all(rows.size() / cols * ld, 0.0f);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all[i / cols * ld + i % cols] = rows[i];
    }
    return all;
  };
  result.seen = watch([&] {
    const int lda = k + gap, ldb = n + 2 * gap, ldc = n + gap;
    const auto on_a = on_device(with_gaps(a, k, lda)), on_b = on_device(with_gaps(b, n, ldb));
    Field c(std::int64_t{m} * ldc);
    const MatmulParams<float> p{on_a.data(), on_b.data(), c.data(), m, n, k, lda, ldb, ldc};
    launch(product, {{blocks_x(n), blocks_y(m)}, {kThreadsX, kThreadsY}}, p);
    if (c.written_beside()) {
      fail("it writes beside the result: the tail is not masked");
    }
    const std::vector<double> all = c.numbers();
    for (int i = 0; i < m * n; ++i) {
      result.out.push_back(all[i / n * ldc + i % n]);
    }
  });
  return result;
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/matmul.hpp"

using namespace fa::classroom;

namespace {

const std::vector<Reason> kReasons = {
    {"out of bounds", "it reads or writes beside C: the tail is not masked"},
    {"unwritten", "a barrier is missing: the tiles are read before they are there"},
    {"race", "a barrier is missing: a tile is overwritten while others still multiply with it"}};

Launched multiply(const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k,
                  int gap = 0) {
  const auto [blocks_x, blocks_y] = call<std::pair<unsigned, unsigned>>("blocks", m, n);
  require(blocks_x >= 1 && blocks_y >= 1 && blocks_x <= 1024 && blocks_y <= 1024,
          fmt::format("a grid of {} x {} blocks for {} x {} results", blocks_x, blocks_y, m, n));
  return call<Launched>("product", a, b, m, n, k, gap);
}

Seen run(int m, int n, int k) {
  return multiply(random_floats(m * k, 1), random_floats(k * n, 2), m, n, k).seen;
}

void grade(int m, int n, int k, bool apart = false) {
  const MatmulSizes sizes{m, n, k};
  const std::vector<float> a = random_floats(m * k, 1), b = random_floats(k * n, 2);
  const std::vector<double> right = matmul(a, b, sizes);
  const double tolerance = 4e-6 * k;  // float32 sums of k terms of size 1, many times over
  const Launched c = multiply(a, b, m, n, k);
  require(
      c.seen.atomics == 0,
      fmt::format("{} atomic requests, where each result belongs to one thread", c.seen.atomics));
  check_matmul(
      c.seen, kReasons, c.out, right, tolerance, sizes,
      [=](const auto& of_a, const auto& of_b) { return multiply(of_a, of_b, m, n, k).out; });
  require(!apart || agree(multiply(a, b, m, n, k, 4).out, right, tolerance),
          "wrong, and right where rows follow one another without a gap: rows of A, B and C are "
          "lda, ldb and ldc elements apart");
}

}  // namespace

FA_STAGE(easy) {
  grade(128, 192, 32);
}

FA_STAGE(odd) {
  grade(31, 31, 17);
  grade(70, 150, 33, true);
  grade(1, 5, 1);
}

FA_STAGE(races) {
  require_no_races(run(70, 130, 40));
}

FA_STAGE(traffic) {
  const Seen seen = run(128, 128, 128);
  needs_watching(seen);
  note("wavefronts of shared memory", seen.wavefronts);
  budget("sectors of global memory", seen.sectors, 12288, "more results for each block",
         3 * 128 * 128 / 8);
  require(seen.wavefronts <= 45056,
          fmt::format("{} wavefronts of shared memory; the budget is 45056: {}", seen.wavefronts,
                      seen.ideal <= 45056
                          ? "without bank conflicts it would be enough"
                          : "even without bank conflicts there are too many loads. Load each "
                            "operand once into a register, and multiply more results with it"));
}
#endif
/* Other answers, as changes of the solution
# no_second_barrier: the tiles are overwritten too early
@ easy: overwritten
- __syncthreads();  // all threads are done with the tiles
+

# n_for_ldc: rows of C are taken to follow one another
@ odd: lda, ldb and ldc elements apart
- p.c[std::int64_t{row} * p.ldc + col] = sum[i][j];
+         p.c[std::int64_t{row} * p.n + col] = sum[i][j];

# rows_meet: rows of A's tile are 32 numbers apart
@ traffic: without bank conflicts it would be enough
- __shared__ float a_smem[kRows][depth], b_smem[depth][kCols];
+   __shared__ float a_smem[kRows][depth + 16], b_smem[depth][kCols];

# rows_128: blocks of 128 x 64, and of 512 threads
@ right
- constexpr int kRows = 64;      // of C, for each block
+ constexpr int kRows = 128;
- constexpr int kThreadsY = 16;  // of a block
+ constexpr int kThreadsY = 32;
*/
