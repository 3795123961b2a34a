#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(shape,
         [](int m, int n) { return std::tuple(int{kRows}, int{kCols}, blocks_x(n), blocks_y(m)); });
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
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

struct Case : Launched {
  std::vector<double> right;
  bool ragged = false;  // whether some tiles reach beyond C
};
// Rows and columns of a tile, and blocks in x and y.
using Shape = std::tuple<int, int, unsigned, unsigned>;

Case run(int m, int n, int k, int gap = 0) {
  Case result;
  const std::vector<float> a = random_floats(std::int64_t{m} * k, 1),
                           b = random_floats(std::int64_t{k} * n, 2);
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += static_cast<double>(a[i * k + l]) * b[l * n + j];
      }
      result.right.push_back(sum);
    }
  }
  const auto [rows, cols, blocks_x, blocks_y] = call<Shape>("shape", m, n);
  result.ragged = rows < 1 || cols < 1 || m % rows != 0 || n % cols != 0;
  require(blocks_x >= 1 && blocks_y >= 1 && blocks_x <= 1024 && blocks_y <= 1024,
          fmt::format("a grid of {} x {} blocks for {} x {} results", blocks_x, blocks_y, m, n));
  static_cast<Launched&>(result) = call<Launched>("product", a, b, m, n, k, gap);
  return result;
}

void grade(int m, int n, int k) {
  const Case c = run(m, n, k);
  require(
      c.seen.atomics == 0,
      fmt::format("{} atomic requests, where each result belongs to one thread", c.seen.atomics));
  const std::string where = fmt::format("m {}, n {}, k {}", m, n, k);
  // float32 sums of k terms of size 1, many times over.
  const double tolerance = 4e-6 * k;
  std::size_t unwritten = 0, others_wrong = 0;
  for (std::size_t i = 0; i < c.out.size(); ++i) {
    if (std::isnan(c.out[i])) {
      ++unwritten;
    } else if (std::abs(c.out[i] - c.right[i]) > tolerance) {
      ++others_wrong;
    }
  }
  if (unwritten > 0 && others_wrong == 0 && c.seen.report.findings.empty()) {
    // What is missing at the end of rows or columns is a whole tile's tail.
    refuse(fmt::format("{} of {} results were never written{} (case: {})", unwritten, c.out.size(),
                       c.ragged ? ": was the grid rounded down?" : "", where));
  }
  if (unexplained(c.seen, {"c", c.out, n}, c.right, tolerance, {})) {
    explain_matmul(
        [=](const std::vector<float>& of_a, const std::vector<float>& of_b) {
          return call<Launched>("product", of_a, of_b, m, n, k).out;
        },
        m, n, k);
  }
  check_result(
      c.seen,
      {{"barrier", "some threads never come to the barrier"},
       {"out of bounds", "it reads or writes beside C: the tail is not masked"},
       {"unwritten", "a barrier is missing: the tiles are read before they are there"},
       {"race", "a barrier is missing: a tile is overwritten while others still multiply with it"}},
      {"c", c.out, n}, c.right, tolerance, {}, where);
}

}  // namespace

FA_STAGE(easy) {
  grade(128, 192, 32);
}

FA_STAGE(odd) {
  grade(31, 31, 17);
  grade(70, 150, 33);
  grade(1, 5, 1);
  const Case apart = run(70, 150, 33, 4);
  require(agree(apart.out, apart.right, 4e-6 * 33),
          "wrong, and right where rows follow one another without a gap: rows of A, B and C are "
          "lda, ldb and ldc elements apart");
}

FA_STAGE(races) {
  const Case c = run(70, 130, 40);
  require_no_races(c.seen);
}

FA_STAGE(traffic) {
  const Case c = run(128, 128, 128);
  needs_watching(c.seen);
  note("wavefronts of shared memory", c.seen.wavefronts);
  budget("sectors of global memory", c.seen.sectors, 12288, "more results for each block",
         3 * 128 * 128 / 8);
  require(c.seen.wavefronts <= 45056,
          fmt::format("{} wavefronts of shared memory; the budget is 45056: {}", c.seen.wavefronts,
                      c.seen.ideal <= 45056
                          ? "without bank conflicts it would be enough"
                          : "even without bank conflicts there are too many loads. Load each "
                            "operand once into a register, and multiply more results with it"));
}
#endif
