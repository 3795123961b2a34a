#include "common/classroom/prelude_lab.hpp"
#include "student/tile_shape.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

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
