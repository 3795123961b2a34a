/// @file
/// Of cuBLASLt the handle, for files that make one and use cuBLAS.
#pragma once

#include <cublas_v2.h>

typedef cublasHandle_t cublasLtHandle_t;
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return cublasCreate(handle);
}
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return cublasDestroy(handle);
}
