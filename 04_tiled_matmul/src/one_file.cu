/// @file
/// A kernel on small random inputs, compared with plain loops.
#include <cmath>
#include <cstdio>
#include <vector>

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

/// x + y.
template <class Run>
bool check_add(Run run) {
  const HostMatrix x(1, 1000, 1), y(1, 1000, 2);
  float* const out = device_array<float>(1000);
  run(to_device<float>(x.data), to_device<float>(y.data), out, 1000);
  return compare("sum", from_device(out, 1000),
                 matrix_of(1, 1000, [&](int i, int j) { return x(i, j) + y(i, j); }), 0);
}

/// The transpose of a matrix.
template <class Run>
bool check_transpose(Run run) {
  const HostMatrix x(70, 133, 1);
  float* const out = device_array<float>(x.data.size());
  run(to_device<float>(x.data), out, x.rows, x.cols);
  return compare("x^T", from_device(out, x.data.size()),
                 matrix_of(x.cols, x.rows, [&](int i, int j) { return x(j, i); }), 0);
}

/// The softmax of each row of a matrix.
template <class Run>
bool check_softmax(Run run) {
  const HostMatrix x(70, 1133, 1);
  float* const out = device_array<float>(x.data.size());
  run(to_device<float>(x.data), out, x.rows, x.cols);
  std::vector<double> sums(x.rows);
  for (int i = 0; i < x.rows; ++i) {
    for (int j = 0; j < x.cols; ++j) sums[i] += std::exp(x(i, j));
  }
  return compare(
      "softmax", from_device(out, x.data.size()),
      matrix_of(x.rows, x.cols, [&](int i, int j) { return std::exp(x(i, j)) / sums[i]; }), 1e-7);
}

/// Row i of x times row, or column, j of y.
inline double dot(const HostMatrix& x, int i, const HostMatrix& y, int j, bool column) {
  double sum = 0;
  for (int kk = 0; kk < x.cols; ++kk) {
    sum += x(i, kk) * (column ? y(kk, j) : y(j, kk));
  }
  return sum;
}

/// O = S V with S = Q K^T / 8, the scale for 64 columns.
template <class Run>
bool check_two_matmuls(Run run) {
  const HostMatrix q(70, 64, 1), k(133, 64, 2), v(133, 64, 3);
  float* const out = device_array<float>(q.data.size());
  run(to_device<float>(q.data), to_device<float>(k.data), to_device<float>(v.data), out, q.rows,
      k.rows);
  const auto element = [&](int i, int e) {
    double sum = 0;
    for (int j = 0; j < k.rows; ++j) sum += dot(q, i, k, j, false) / 8 * v(j, e);
    return sum;
  };
  return compare("O", from_device(out, q.data.size()), matrix_of(q.rows, 64, element), 1e-4);
}

/// C = A B, with sizes that are multiples of a vector but not of a tile.
/// @tparam T of A and B
/// @param run called as run(MatmulParams)
template <class T, class Run>
bool check_matmul(Run run) {
  const HostMatrix a(200, 104, 1), b(104, 328, 2);
  const std::size_t count = std::size_t{1} * a.rows * b.cols;
  float* const c = device_array<float>(count);
  run(MatmulParams<T>{to_device<T>(a.data), to_device<T>(b.data), c, a.rows, b.cols, a.cols, a.cols,
                      b.cols, b.cols});
  const auto element = [&](int i, int j) { return dot(a, i, b, j, true); };
  return compare("C", from_device(c, count), matrix_of(a.rows, b.cols, element), 1e-4);
}

/// Checks a step, then prints the milliseconds of C = A B with square matrices of two sizes.
template <class T, class Run>
bool check_and_time(Run run) {
  if (!check_matmul<T>(run)) return false;
  for (const int size : {4096, 8192}) {
    const std::size_t count = std::size_t{1} * size * size;
    const MatmulParams<T> p{device_values<T>(count, 1),
                            device_values<T>(count, 2),
                            device_array<float>(count),
                            size,
                            size,
                            size,
                            size,
                            size,
                            size};
    std::printf("%d: %.4f ms\n", size, milliseconds([&] { run(p); }));
  }
  return true;
}

/// The step.
inline bool check_step() {
  //! [01_vector_add]
  return check_add([](auto... all) { launch_vector_add(all...); });
  //! [01_vector_add]
  //! [02_transpose_naive]
  return check_transpose([](auto... all) { launch_transpose_naive(all...); });
  //! [02_transpose_naive]
  //! [03_transpose_shared]
  return check_transpose([](auto... all) { launch_transpose_shared<1>(all...); });
  //! [03_transpose_shared]
  //! [04_transpose_swizzled]
  return check_transpose([](auto... all) { launch_transpose_swizzled(all...); });
  //! [04_transpose_swizzled]
  //! [05_softmax_three_passes]
  return check_softmax([](auto... all) { launch_softmax_three_passes(all...); });
  //! [05_softmax_three_passes]
  //! [06_softmax_online]
  return check_softmax([](auto... all) { launch_softmax_online(all...); });
  //! [06_softmax_online]
  //! [07_matmul_naive]
  return check_matmul<float>([](const auto& p) { launch_matmul_naive<false>(p); });
  //! [07_matmul_naive]
  //! [08_matmul_coalesced]
  return check_matmul<float>([](const auto& p) { launch_matmul_coalesced<false>(p); });
  //! [08_matmul_coalesced]
  //! [09_matmul_shared_tiles]
  return check_matmul<float>([](const auto& p) { launch_matmul_shared_tiles<false>(p); });
  //! [09_matmul_shared_tiles]
  //! [10_matmul_1d_thread_tiling]
  return check_matmul<float>([](const auto& p) { launch_matmul_1d_thread_tiling<false>(p); });
  //! [10_matmul_1d_thread_tiling]
  //! [11_matmul_2d_thread_tiling]
  return check_matmul<float>([](const auto& p) { launch_matmul_2d_thread_tiling<false>(p); });
  //! [11_matmul_2d_thread_tiling]
  //! [12_matmul_vector_loads]
  return check_matmul<float>([](const auto& p) { launch_matmul_vector_loads<false>(p); });
  //! [12_matmul_vector_loads]
  //! [13_matmul_double_buffer]
  return check_matmul<float>([](const auto& p) { launch_matmul_double_buffer<false>(p); });
  //! [13_matmul_double_buffer]
  //! [14_matmul_register_prefetch]
  return check_matmul<float>([](const auto& p) { launch_matmul_register_prefetch<false>(p); });
  //! [14_matmul_register_prefetch]
  //! [15_matmul_tensor_cores]
  return check_matmul<bfloat16>([](const auto& p) { launch_matmul_tensor_cores<false>(p); });
  //! [15_matmul_tensor_cores]
  //! [16_matmul_pipelined]
  return check_matmul<bfloat16>([](const auto& p) { launch_matmul_pipelined<false>(p); });
  //! [16_matmul_pipelined]
  //! [17_matmul_fragment_prefetch]
  return check_matmul<bfloat16>([](const auto& p) { launch_matmul_fragment_prefetch<false>(p); });
  //! [17_matmul_fragment_prefetch]
  //! [18_back_to_back_matmul]
  return check_two_matmuls([](auto... all) { launch_back_to_back_matmul(all...); });
  //! [18_back_to_back_matmul]
  //! [19_matmul_wgmma]
  return check_matmul<bfloat16>(
      [](const auto& p) { launch_matmul_wgmma<MatmulWgmmaTile<false, bfloat16>>(p); });
  //! [19_matmul_wgmma]
  //! [20_matmul_stages]
  return check_matmul<bfloat16>(
      [](const auto& p) { launch_matmul_stages<MatmulStagesTile<false, bfloat16>>(p); });
  //! [20_matmul_stages]
  //! [21_matmul_persistent]
  return check_matmul<bfloat16>(
      [](const auto& p) { launch_matmul_persistent<MatmulPersistentTile<false, bfloat16>>(p); });
  //! [21_matmul_persistent]
  //! [22_matmul_cluster]
  return check_matmul<bfloat16>(
      [](const auto& p) { launch_matmul_cluster<MatmulClusterTile<false, bfloat16>>(p); });
  //! [22_matmul_cluster]
}

}  // namespace fa::FA_TARGET

int main() {
  return fa::FA_TARGET::check_step() ? 0 : 1;
}
