// The groups: inputs, references, counts.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "02_safe_softmax/softmax.hpp"
#include "04_tiled_matmul/src/backend.hpp"
#include "common/tensor/matrix.hpp"
#include "common/tensor/random.hpp"

namespace fa::tiled {
namespace {

template <class T>
Matrix<T> matrix_of(const Tensor<float, 2>& tensor) {
  return as_matrix(tensor.view()).template cast<T>();
}

template <class T>
Tensor<T, 2> tensor_of(const Matrix<T>& matrix) {
  Tensor<T, 2> result({matrix.rows(), matrix.cols()});
  as_matrix(result.view()) = matrix;
  return result;
}

template <class T>
Matrix<T> matmul(const Inputs& in, bool b_transposed) {
  const Matrix<T> a = matrix_of<T>(in[0]), b = matrix_of<T>(in[1]);
  if (b_transposed) return a * b.transpose();
  return a * b;
}

template <class T>
Tensor<T, 2> softmax(const Inputs& in) {
  const auto x = converted<T>(in[0]);
  Tensor<T, 2> y(x.shape());
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    safe::safe_softmax<T>(x.view().at(i), y.view().at(i));
  }
  return y;
}

template <class T>
Tensor<T, 2> back_to_back_matmul(const Inputs& in) {
  const Matrix<T> q = matrix_of<T>(in[0]), k = matrix_of<T>(in[1]), v = matrix_of<T>(in[2]);
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(q.cols())));
  const Matrix<T> s = scale * (q * k.transpose());
  return tensor_of<T>(s * v);
}

Tensor<float, 2> random_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  return normal_tensor<float, 2>({rows, cols}, seed);
}

// Values that bfloat16 represents, so that host and device start from the same.
Tensor<float, 2> random_bfloat16_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  return converted<float>(normal_tensor<bfloat16, 2>({rows, cols}, seed));
}

// A matmul in float32, or with operands in bfloat16.
Group matmul_group(const std::string& name, const std::string& title, bool b_transposed,
                   bool sixteen_bits = false) {
  const double size = sixteen_bits ? 2 : 4;
  return {name,
          title,
          [=](std::int64_t m, std::int64_t n, std::int64_t k) {
            const auto random = sixteen_bits ? random_bfloat16_matrix : random_matrix;
            return Inputs{random(m, k, 1), b_transposed ? random(n, k, 2) : random(k, n, 2)};
          },
          [=](const Inputs& in) { return tensor_of<double>(matmul<double>(in, b_transposed)); },
          [=](const Inputs& in) { return tensor_of<float>(matmul<float>(in, b_transposed)); },
          [=](double m, double n, double k) { return size * (m * k + k * n) + 4 * m * n; },
          [](double m, double n, double k) { return 2 * m * n * k; },
          sixteen_bits ? Arithmetic::kTensorCores16 : Arithmetic::kFloat32};
}

template <class T>
Tensor<T, 2> sum(const Inputs& in) {
  return tensor_of<T>(matrix_of<T>(in[0]) + matrix_of<T>(in[1]));
}

template <class T>
Tensor<T, 2> transposed(const Inputs& in) {
  return tensor_of<T>(matrix_of<T>(in[0]).transpose());
}

}  // namespace

const Group& group_of(const Backend& backend, const std::string& name) {
  const auto found = std::find_if(backend.groups.begin(), backend.groups.end(),
                                  [&](const Group& group) { return group.name == name; });
  if (found == backend.groups.end()) throw std::logic_error("there is no group " + name);
  return *found;
}

double magnitude_of(const Group& group, Inputs inputs) {
  if (group.flops(1, 1, 1) == 0) return 0;
  for (auto& matrix : inputs) as_matrix(matrix.view()) = as_matrix(matrix.view()).cwiseAbs().eval();
  const auto sums = group.reference(inputs);
  return *std::max_element(sums.data(), sums.data() + sums.count());
}

std::vector<Group> groups_without_kernels() {
  using Size = std::int64_t;
  return {
      {"add", "c = a + b",
       [](Size m, Size n, Size) {
         return Inputs{random_matrix(m, n, 1), random_matrix(m, n, 2)};
       },
       sum<double>, sum<float>, [](double m, double n, double) { return 12 * m * n; }},
      {"transpose", "Transpose of a matrix",
       [](Size m, Size n, Size) { return Inputs{random_matrix(n, m, 1)}; }, transposed<double>,
       transposed<float>, [](double m, double n, double) { return 8 * m * n; }},
      {"softmax", "Softmax of each row",
       [](Size m, Size n, Size) {
         return Inputs{normal_tensor<float, 2>({m, n}, 1, 5.0)};
       },
       softmax<double>, softmax<float>, [](double m, double n, double) { return 8 * m * n; }},
      matmul_group("matmul", "C = A B, float32", false),
      matmul_group("matmul_bt", "C = A B^T, float32", true),
      matmul_group("mma", "C = A B, bfloat16", false, true),
      matmul_group("mma_bt", "C = A B^T, bfloat16", true, true),
      {"block", "O = (Q K^T) V, tile by tile, head_dim 64",
       [](Size m, Size n, Size) {
         return Inputs{random_matrix(m, 64, 1), random_matrix(n, 64, 2), random_matrix(n, 64, 3)};
       },
       back_to_back_matmul<double>, back_to_back_matmul<float>,
       [](double m, double n, double) { return 4 * 64 * (2 * m + 2 * n); },
       [](double m, double n, double) { return 4 * m * n * 64; }}};
}

}  // namespace fa::tiled
