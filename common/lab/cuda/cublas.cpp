// The matmuls of cuBLAS.
#include <cstring>

#include <fmt/format.h>

#include "common/lab/cuda/include/cublas_v2.h"
#include "common/lab/cuda/state.hpp"
#include "common/lab/observer.hpp"

namespace lab_cuda {
namespace {

std::size_t size_of(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : 2;
}
float load(const std::byte* at, cudaDataType_t type) {
  if (type == CUDA_R_32F) {
    float x;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return type == CUDA_R_16F ? half_to_float(bits) : bfloat16_to_float(bits);
}
void store(std::byte* at, cudaDataType_t type, float x) {
  if (type == CUDA_R_32F) {
    std::memcpy(at, &x, sizeof x);
    return;
  }
  const std::uint16_t bits = type == CUDA_R_16F ? float_to_half(x) : float_to_bfloat16(x);
  std::memcpy(at, &bits, sizeof bits);
}

// A matrix of a batch, as it lies in memory.
struct Stored {
  Stored(const Matrix& matrix, int number, int rows, int columns)
      : of(matrix),
        data(static_cast<const std::byte*>(matrix.data) +
             number * matrix.stride * static_cast<long long>(size_of(matrix.type))),
        lines(matrix.transposed ? rows : columns),
        length(matrix.transposed ? columns : rows) {}
  const Matrix& of;
  const std::byte* data;
  int lines, length;  // columns in memory, and elements of each

  const std::byte* at(int row, int column) const {
    if (of.transposed) std::swap(row, column);
    return data +
           (std::int64_t{column} * of.leading + row) * static_cast<std::int64_t>(size_of(of.type));
  }
  // For the observer: each column is read or written as a whole.
  void use(bool write, Where where) const {
    std::vector<const void*> columns;
    for (int i = 0; i < lines; ++i) columns.push_back(of.transposed ? at(i, 0) : at(0, i));
    fa::lab::observer->moves(columns, static_cast<std::size_t>(length) * size_of(of.type), write,
                             false, {where.file, where.line});
  }
};

// What block `number` of the launch does.
void compute(const Matmul& matmul, int number, Where where) {
  const auto [m, n, k, batch, alpha, beta, of_a, of_b, of_c] = matmul;
  const Stored a(of_a, number, m, k), b(of_b, number, k, n), c(of_c, number, m, n);
  a.use(false, where);
  b.use(false, where);
  if (beta != 0) c.use(false, where);
  c.use(true, where);
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      float sum = 0;
      for (int l = 0; l < k; ++l) sum += load(a.at(i, l), of_a.type) * load(b.at(l, j), of_b.type);
      auto* const result = const_cast<std::byte*>(c.at(i, j));
      store(result, of_c.type, alpha * sum + (beta == 0 ? 0 : beta * load(result, of_c.type)));
    }
  }
}

}  // namespace

cublasStatus_t matmul(cublasHandle_t handle, const char* name, const Matmul& matmul, Where where) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto [m, n, k, batch, alpha, beta, a, b, c] = matmul;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || a.leading < std::max(1, a.transposed ? k : m) ||
      b.leading < std::max(1, b.transposed ? n : k) || c.leading < std::max(1, m)) {
    state().add("error", where,
                fmt::format("{} is called with m = {}, n = {}, k = {} and leading dimensions {}, "
                            "{}, {}; each must be as long as a column in memory",
                            name, m, n, k, a.leading, b.leading, c.leading));
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
  for (const Matrix* matrix : {&a, &b, &c}) {
    if (state().find(matrix->data) != nullptr) continue;
    state().add("host memory", where,
                fmt::format("{} gets a pointer to memory that is not the device's: allocate it "
                            "with cudaMalloc(), and copy to it with cudaMemcpy()",
                            name));
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const cudaError_t error = configure(dim3(static_cast<unsigned>(batch)), dim3(1), 0,
                                      handle->stream, where)(name, [where](const Matmul& all) {
    if (!in_kernel()) return;  // it is asked for its cluster
    compute(all, static_cast<int>(thread().block_index.x), where);
  })(matmul);
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace lab_cuda
