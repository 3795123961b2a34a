/// @file
/// A step of this lesson on one problem, for ./learn flatten, which says FA_STEP: its row, read as a
/// program that compares with plain loops, or times a matmul.
#include <cmath>
#include <cstdio>
#include <vector>

#include "04_tiled_matmul/kernels/matmul_params.cuh"
#include "common/flatten/host.cuh"

namespace fa::FA_TARGET {

/// A matrix of random elements, in rows.
struct HostMatrix {
  HostMatrix(int the_rows, int the_cols, unsigned seed)
      : rows(the_rows),
        cols(the_cols),
        data(random_values(std::size_t{1} * the_rows * the_cols, seed)) {}
  double operator()(int i, int j) const { return data[std::size_t{1} * i * cols + j]; }
  int rows, cols;
  std::vector<float> data;
};

/// The elements f(i, j) of a matrix of so many rows and columns.
template <class F>
std::vector<double> matrix_of(int rows, int cols, F f) {
  std::vector<double> result;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) result.push_back(f(i, j));
  }
  return result;
}

/// Row i of x times row, or column, j of y.
inline double dot(const HostMatrix& x, int i, const HostMatrix& y, int j, bool column) {
  double sum = 0;
  for (int kk = 0; kk < x.cols; ++kk) sum += x(i, kk) * (column ? y(kk, j) : y(j, kk));
  return sum;
}

/// A row; of what it says only the launches matter here.
class OneRow {
 public:
  bool timed = false;
  bool passed = true;

  // clang-format off
  OneRow operator()(const char*, const char*) const { return *this; }
  OneRow variant(const char*, const char*) const { return *this; }
  template <class... All> OneRow needs(const All&...) const { return *this; }
  template <class... All> OneRow shared_bytes(const All&...) const { return *this; }
  template <class... All> OneRow tile(const All&...) const { return *this; }
  template <class... All> OneRow persistent(const All&...) const { return *this; }
  // clang-format on

  /// z = x + y.
  template <class Launch>
  OneRow add(Launch launch_step) const {
    const HostMatrix x(1, 1000, 1), y(1, 1000, 2);
    float* const z = device_array<float>(1000);
    launch_step(to_device<float>(x.data), to_device<float>(y.data), z, 1000);
    return with(compare("sum", from_device(z, 1000),
                        matrix_of(1, 1000, [&](int i, int j) { return x(i, j) + y(i, j); }), 0));
  }
  /// The transpose of a matrix.
  template <class Launch>
  OneRow transpose(Launch launch_step) const {
    const HostMatrix x(70, 133, 1);
    float* const out = device_array<float>(x.data.size());
    launch_step(to_device<float>(x.data), out, x.rows, x.cols);
    return with(compare("x^T", from_device(out, x.data.size()),
                        matrix_of(x.cols, x.rows, [&](int i, int j) { return x(j, i); }), 0));
  }
  /// The softmax of each row of a matrix.
  template <class Launch>
  OneRow softmax(Launch launch_step) const {
    const HostMatrix x(70, 1133, 1);
    float* const out = device_array<float>(x.data.size());
    launch_step(to_device<float>(x.data), out, x.rows, x.cols);
    std::vector<double> sums(x.rows);
    for (int i = 0; i < x.rows; ++i) {
      for (int j = 0; j < x.cols; ++j) sums[i] += std::exp(x(i, j));
    }
    const auto element = [&](int i, int j) { return std::exp(x(i, j)) / sums[i]; };
    return with(compare("softmax", from_device(out, x.data.size()),
                        matrix_of(x.rows, x.cols, element), 1e-7));
  }
  /// O = S V with S = Q K^T / 8, the scale for 64 columns.
  template <class Launch>
  OneRow two_matmuls(Launch launch_step) const {
    const HostMatrix q(70, 64, 1), k(133, 64, 2), v(133, 64, 3);
    float* const out = device_array<float>(q.data.size());
    launch_step(to_device<float>(q.data), to_device<float>(k.data), to_device<float>(v.data), out,
                q.rows, k.rows);
    const auto element = [&](int i, int e) {
      double sum = 0;
      for (int j = 0; j < k.rows; ++j) sum += dot(q, i, k, j, false) / 8 * v(j, e);
      return sum;
    };
    return with(
        compare("O", from_device(out, q.data.size()), matrix_of(q.rows, 64, element), 1e-4));
  }
  /// C = A B for elements of type T, with sizes that are multiples of a vector but not of a tile.
  template <class T, class Launch>
  OneRow matmul(T, Launch launch_step) const {
    const int m = timed ? 4096 : 200, n = timed ? 4096 : 328, k = timed ? 4096 : 104;
    const HostMatrix a(m, k, 1), b(k, n, 2);
    const std::size_t count = std::size_t{1} * m * n;
    const MatmulParams<T> p{
        to_device<T>(a.data), to_device<T>(b.data), device_array<float>(count), m, n, k, k, n, n};
    const auto run = [&] { launch_step(std::false_type{}, p); };
    if (timed) {
      std::printf("4096 x 4096 x 4096: %.4f ms\n", milliseconds(run));
      return *this;
    }
    run();
    const auto element = [&](int i, int j) { return dot(a, i, b, j, true); };
    return with(compare("C", from_device(p.c, count), matrix_of(m, n, element), 1e-4));
  }

 private:
  OneRow with(bool right) const { return {timed, passed && right}; }
};

}  // namespace fa::FA_TARGET

/// With an argument a matmul is timed.
int main(int count, char**) {
  using namespace fa::FA_TARGET;
  return tiled_step(std::integral_constant<int, FA_STEP>{}, OneRow{count > 1}).passed ? 0 : 1;
}
