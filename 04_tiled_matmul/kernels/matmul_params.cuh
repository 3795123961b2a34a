/// @file
/// What the matrix products of this lesson are given, and how they read it. Matrices are row-major; the
/// distance of two rows, ld, is a multiple of 16 bytes and what lies between cols and ld is 0, so that
/// vector loads may read it.
#pragma once

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// C = A B, or C = A B^T: the two products that attention needs are Q K^T and P V.
/// @tparam T of A and B; C is float
template <class T>
struct MatmulParams {
  const T* a;  ///< [m, k]
  const T* b;  ///< [k, n], or [n, k] when it is to be transposed
  float* c;    ///< [m, n]
  int m;       ///< rows of C
  int n;       ///< columns of C
  int k;       ///< length of each sum
  int lda;     ///< distance of rows of A
  int ldb;     ///< distance of rows of B
  int ldc;     ///< distance of rows of C
};

/// A[i][l], 0 outside.
template <class T>
__device__ T element_of_a(const MatmulParams<T>& p, int i, int l) {
  return i < p.m && l < p.k ? p.a[std::int64_t{i} * p.lda + l] : T(0.0f);
}

/// Element (l, j) of the second factor, 0 outside.
template <bool b_transposed, class T>
__device__ T element_of_b(const MatmulParams<T>& p, int l, int j) {
  if (l >= p.k || j >= p.n) return T(0.0f);
  return b_transposed ? p.b[std::int64_t{j} * p.ldb + l]
                      : p.b[std::int64_t{l} * p.ldb + j];
}

}  // namespace fa::FA_TARGET
