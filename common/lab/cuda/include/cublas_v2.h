/// @file
/// Of cuBLAS the matmuls, computed plainly by cublas.cpp: sums in float, in order of k, whatever the
/// mode. Matrices are stored by columns. A call is a launch on the handle's stream, which reads and
/// writes its matrices at the line of the call.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <lab_cuda/launch.h>

#define CUBLAS_VER_MAJOR 12

enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
typedef cudaDataType_t cudaDataType;
enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
enum cublasComputeType_t {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TENSOR_OP_MATH = 1,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3
};
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 };
struct cublasContext {
  cudaStream_t stream = nullptr;
};
typedef cublasContext* cublasHandle_t;

namespace lab_cuda {
/// One of the matrices of a matmul, or of each in a batch.
struct Matrix {
  const void* data;
  cudaDataType_t type;
  int leading;              ///< elements from column to column
  long long stride;         ///< from matrix to matrix
  bool transposed = false;  ///< A and B
};
/// C = alpha A B + beta C, `batch` times. C is not read where beta is 0.
struct Matmul {
  int m, n, k, batch;
  float alpha, beta;
  Matrix a, b, c;
};
/// Computes them on a handle's stream. `name` is that of the function that the program calls.
cublasStatus_t matmul(cublasHandle_t handle, const char* name, const Matmul& matmul, Where where);
}  // namespace lab_cuda

inline cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void*, std::size_t) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}
inline const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS            ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_NOT_INITIALIZED  ? "CUBLAS_STATUS_NOT_INITIALIZED"
         : status == CUBLAS_STATUS_INVALID_VALUE    ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                                    : "CUBLAS_STATUS_NOT_SUPPORTED";
}

inline cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t of_a,
                                                cublasOperation_t of_b, int m, int n, int k,
                                                const float* alpha, const float* a, int lda,
                                                long long stride_a, const float* b, int ldb,
                                                long long stride_b, const float* beta, float* c,
                                                int ldc, long long stride_c, int batch,
                                                LAB_CUDA_WHERE) {
  const ::lab_cuda::Matrix matrices[] = {{a, CUDA_R_32F, lda, stride_a, of_a != CUBLAS_OP_N},
                                         {b, CUDA_R_32F, ldb, stride_b, of_b != CUBLAS_OP_N},
                                         {c, CUDA_R_32F, ldc, stride_c}};
  return ::lab_cuda::matmul(handle, "cublasSgemmStridedBatched",
                            {m, n, k, batch, *alpha, *beta, matrices[0], matrices[1], matrices[2]},
                            lab_where);
}
inline cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t of_a,
                                  cublasOperation_t of_b, int m, int n, int k, const float* alpha,
                                  const float* a, int lda, const float* b, int ldb,
                                  const float* beta, float* c, int ldc, LAB_CUDA_WHERE) {
  const ::lab_cuda::Matrix matrices[] = {{a, CUDA_R_32F, lda, 0, of_a != CUBLAS_OP_N},
                                         {b, CUDA_R_32F, ldb, 0, of_b != CUBLAS_OP_N},
                                         {c, CUDA_R_32F, ldc, 0}};
  return ::lab_cuda::matmul(handle, "cublasSgemm",
                            {m, n, k, 1, *alpha, *beta, matrices[0], matrices[1], matrices[2]},
                            lab_where);
}
/// The factors are float, or half where it computes in half.
inline cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType_t type_a, int lda, long long stride_a,
    const void* b, cudaDataType_t type_b, int ldb, long long stride_b, const void* beta, void* c,
    cudaDataType_t type_c, int ldc, long long stride_c, int batch, cublasComputeType_t compute,
    cublasGemmAlgo_t, LAB_CUDA_WHERE) {
  const auto factor = [&](const void* at) {
    return compute == CUBLAS_COMPUTE_16F ? static_cast<float>(*static_cast<const __half*>(at))
                                         : *static_cast<const float*>(at);
  };
  const ::lab_cuda::Matrix matrices[] = {{a, type_a, lda, stride_a, of_a != CUBLAS_OP_N},
                                         {b, type_b, ldb, stride_b, of_b != CUBLAS_OP_N},
                                         {c, type_c, ldc, stride_c}};
  return ::lab_cuda::matmul(
      handle, "cublasGemmStridedBatchedEx",
      {m, n, k, batch, factor(alpha), factor(beta), matrices[0], matrices[1], matrices[2]},
      lab_where);
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t of_a,
                                   cublasOperation_t of_b, int m, int n, int k, const void* alpha,
                                   const void* a, cudaDataType_t type_a, int lda, const void* b,
                                   cudaDataType_t type_b, int ldb, const void* beta, void* c,
                                   cudaDataType_t type_c, int ldc, cublasComputeType_t compute,
                                   cublasGemmAlgo_t algorithm, LAB_CUDA_WHERE) {
  return cublasGemmStridedBatchedEx(handle, of_a, of_b, m, n, k, alpha, a, type_a, lda, 0, b,
                                    type_b, ldb, 0, beta, c, type_c, ldc, 0, 1, compute, algorithm,
                                    lab_where);
}
