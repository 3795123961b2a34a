/// @file
/// The matmuls of this lesson: their parameters, and single elements of their operands. Matrices
/// are row-major. Their leading dimension ld, the distance of two rows, is a multiple of 16 bytes;
/// the elements between cols and ld are 0, so that vector loads may read them.
#pragma once

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// C = A B, or C = A B^T: the two matmuls of attention are Q K^T and P V.
/// @tparam T of A and B; C is float
template <class T>
struct MatmulParams {
  const T* a;  ///< [m, k]
  const T* b;  ///< [k, n], or [n, k] when it is to be transposed
  float* c;    ///< [m, n]
  int m, n, k;
  int lda, ldb, ldc;  ///< leading dimensions, in elements
};

/// A[i][kk], 0 outside.
template <class T>
__device__ T element_of_a(const MatmulParams<T>& p, int i, int kk) {
  return i < p.m && kk < p.k ? p.a[std::int64_t{i} * p.lda + kk] : T(0.0f);
}

/// Element (kk, j) of the right operand, 0 outside.
template <bool b_transposed, class T>
__device__ T element_of_b(const MatmulParams<T>& p, int kk, int j) {
  if (kk >= p.k || j >= p.n) return T(0.0f);
  return b_transposed ? p.b[std::int64_t{j} * p.ldb + kk]
                      : p.b[std::int64_t{kk} * p.ldb + j];
}

}  // namespace fa::FA_TARGET
