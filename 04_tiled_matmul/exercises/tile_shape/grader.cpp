#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
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
