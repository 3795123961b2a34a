#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
#include "common/classroom/lab.hpp"

using namespace fa::classroom;

namespace {

struct Case : Launched {
  std::vector<double> right, floored;
};

template <bool b_transposed>
Case run(int m, int n, int k) {
  Case result;
  const std::vector<float> a = random_floats(std::int64_t{m} * k, 1),
                           b = random_floats(std::int64_t{n} * k, 2);
  const int whole = k < 32 ? k : k / 32 * 32;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) {
        if (l == whole) result.floored.push_back(sum);
        sum += static_cast<double>(a[i * k + l]) * b[b_transposed ? j * k + l : l * n + j];
      }
      result.right.push_back(sum);
    }
  }
  static_cast<Launched&>(result) = call<Launched>("matmul", a, b, m, n, k, b_transposed);
  return result;
}

template <bool b_transposed>
void grade(int m, int n, int k) {
  const Case c = run<b_transposed>(m, n, k);
  // float32 sums of k terms of size 1, many times over.
  const double tolerance = 4e-6 * k;
  check_result(
      c.seen,
      {{"barrier", "some threads never come to the barrier: those outside of C must wait, too"},
       {"out of bounds", "it writes beside C: the tail is not masked"},
       {"unwritten", "the first barrier is missing: the tiles are read before they are there"},
       {"race", "two threads use the same element, and nothing orders them"}},
      {"c", c.out, n}, c.right, tolerance,
      {{"the last, ragged tile of the sum is left out", c.floored}},
      fmt::format("m {}, n {}, k {}{}", m, n, k, b_transposed ? ", B transposed" : ""));
}

}  // namespace

FA_STAGE(found) {
  require(names_both(evidence("the numbers of two lines that race"), {"element_of_"}, {"acc += "}),
          "not found. One of the two lines stores an element that the other one loads. Their "
          "numbers are those of the file as it was at the start");
}

FA_STAGE(easy) {
  grade<false>(31, 31, 31);
  grade<false>(32, 64, 32);
}

FA_STAGE(odd) {
  grade<false>(32, 32, 64);
  grade<false>(31, 33, 65);
  grade<true>(33, 31, 70);
  grade<true>(1, 5, 3);
}

FA_STAGE(races) {
  const Case c = run<true>(33, 40, 64);
  require_no_races(c.seen);
}

FA_STAGE(traffic) {
  const Case c = run<true>(64, 64, 64);
  needs_watching(c.seen);
  // Reading A's tile is one word for a warp, B's a row: one wavefront each, and one for each store.
  const std::int64_t budget = 2 * 64 * 64 * 64 / 32 + 4 * 64 * 64 * 2 / 32;
  note("wavefronts of shared memory", c.seen.wavefronts);
  require(c.seen.wavefronts <= budget,
          fmt::format("bank conflicts: {} wavefronts, and {} would do", c.seen.wavefronts, budget));
}
#endif
