#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
#include "04_tiled_matmul/exercises/grading/matmul.hpp"
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

constexpr int kTile = 16;

struct Case : Launched {
  std::vector<float> a, b;
};

Case run(int m, int n, int k) {
  Case result;
  result.a = random_floats(std::int64_t{k} * m, 1);
  result.b = random_floats(std::int64_t{k} * n, 2);
  static_cast<Launched&>(result) = call<Launched>("matmul", result.a, result.b, m, n, k);
  return result;
}

void grade(int m, int n, int k) {
  const Case c = run(m, n, k);
  // The sum over some steps of k, with the place of an element of A and of B.
  const auto matmul = [&](auto of_a, auto of_b, int first, int last) {
    std::vector<double> result;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int l = first; l < last; ++l) {
          const int at_a = of_a(l, i), at_b = of_b(l, j);
          if (at_a < k * m && at_b < k * n) {
            sum += double{c.a[at_a]} * c.b[at_b];
          }
        }
        result.push_back(sum);
      }
    }
    return result;
  };
  const auto in_a = [=](int l, int i) { return l * m + i; };
  const auto in_b = [=](int l, int j) { return l * n + j; };
  std::vector<Mistake> mistakes{{"nothing was written", std::vector<double>(c.out.size(), NAN)}};
  if (k > kTile) {
    mistakes.push_back({"only the last tile along k is in the sum",
                        matmul(in_a, in_b, (k - 1) / kTile * kTile, k)});
    mistakes.push_back({"only the first tile along k is in the sum", matmul(in_a, in_b, 0, kTile)});
    mistakes.push_back(
        {"the last, ragged tile along k is left out", matmul(in_a, in_b, 0, k / kTile * kTile)});
  }
  mistakes.push_back({"this is A B: A was read as if it were stored as [m, k]",
                      matmul([=](int l, int i) { return i * k + l; }, in_b, 0, k)});
  mistakes.push_back({"this is the matmul with B transposed: B is stored as [k, n]",
                      matmul(
                          in_a, [=](int l, int j) { return j * k + l; }, 0, k)});
  mistakes.push_back({"a row of A has m elements, not n",
                      matmul([=](int l, int i) { return l * n + i; }, in_b, 0, k)});
  const auto right = matmul(in_a, in_b, 0, k);
  if (unexplained(c.seen, {"c", c.out, n}, right, 4e-6 * k, mistakes)) {
    explain_matmul(
        [=](const std::vector<float>& of_a, const std::vector<float>& of_b) {
          return call<Launched>("matmul", of_a, of_b, m, n, k).out;
        },
        m, n, k, StoredA::kByColumns);
  }
  check_result(
      c.seen,
      {{"barrier",
        "only some threads come to a barrier: threads outside of C must load and wait, too"},
       {"out of bounds",
        "it reads or writes beside a matrix: both loads and the store need a guard"},
       {"unwritten",
        "a tile is read where nothing was stored: store 0 where an element does not exist, and put "
        "a barrier before the multiplication"},
       own_elements(),
       {"race",
        "a tile is overwritten while other threads still multiply with it, or is read before it is "
        "there: two barriers for each step"}},
      {"c", c.out, n}, right, 4e-6 * k, mistakes, fmt::format("m {}, n {}, k {}", m, n, k));
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
    const Case c = run(size, 33, 40);
    require_no_races(c.seen);
  }
}

FA_STAGE(traffic) {
  constexpr int size = 64;
  const Case c = run(size, size, size);
  needs_watching(c.seen);
  // Each of 16 blocks loads 4 tiles of A and of B; C is written once.
  const std::int64_t least = (16 * 4 * 2 * kTile * kTile + size * size) / 8;
  // Stores of a tile: 8 for each tile. Reads of a warp: one for A, one for B, 8 warps, 16 times.
  const std::int64_t rounds = 16 * 4 * (2 * 8 + 2 * 8 * 16);
  note("sectors of global memory", c.seen.sectors);
  note("wavefronts of shared memory", c.seen.wavefronts);
  require(c.seen.wavefronts > 0, "shared memory was not used");
  budget("sectors of global memory", c.seen.sectors, least,
         "do neighbouring threads load neighbouring elements of A, once for each tile?", least);
  require(c.seen.wavefronts <= rounds + rounds / 4,
          fmt::format("bank conflicts: {} wavefronts of shared memory, and {} would do",
                      c.seen.wavefronts, rounds));
}
#endif
