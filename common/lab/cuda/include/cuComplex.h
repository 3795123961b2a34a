/// @file
/// Complex numbers as CUDA's C has them.
#pragma once

#include <cuda_runtime.h>

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define LAB_CUDA_COMPLEX(C, T, f, make)                                                     \
  LAB_CUDA_DEFINE(C, make, (T x, T y), {x, y})                                              \
  LAB_CUDA_DEFINE(T, cuCreal##f, (C z), z.x)                                                \
  LAB_CUDA_DEFINE(T, cuCimag##f, (C z), z.y)                                                \
  LAB_CUDA_DEFINE(C, cuConj##f, (C z), {z.x, -z.y})                                         \
  LAB_CUDA_DEFINE(C, cuCadd##f, (C a, C b), {a.x + b.x, a.y + b.y})                         \
  LAB_CUDA_DEFINE(C, cuCsub##f, (C a, C b), {a.x - b.x, a.y - b.y})                         \
  LAB_CUDA_DEFINE(C, cuCmul##f, (C a, C b), {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}) \
  LAB_CUDA_FUNCTION C cuCdiv##f(C a, C b) {                                                 \
    const T square = b.x * b.x + b.y * b.y;                                                 \
    return {(a.x * b.x + a.y * b.y) / square, (a.y * b.x - a.x * b.y) / square};            \
  }                                                                                         \
  LAB_CUDA_DEFINE(C, cuCfma##f, (C a, C b, C c), cuCadd##f(cuCmul##f(a, b), c))             \
  LAB_CUDA_DEFINE(T, cuCabs##f, (C z), std::hypot(z.x, z.y))
LAB_CUDA_COMPLEX(cuFloatComplex, float, f, make_cuFloatComplex)
LAB_CUDA_COMPLEX(cuDoubleComplex, double, , make_cuDoubleComplex)
#undef LAB_CUDA_COMPLEX
LAB_CUDA_DEFINE(cuComplex, make_cuComplex, (float x, float y), {x, y})
LAB_CUDA_DEFINE(cuDoubleComplex, cuComplexFloatToDouble, (cuFloatComplex z), {z.x, z.y})
LAB_CUDA_DEFINE(cuFloatComplex, cuComplexDoubleToFloat, (cuDoubleComplex z),
                {static_cast<float>(z.x), static_cast<float>(z.y)})
