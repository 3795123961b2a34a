/// @file
/// CUDA's half precision: IEEE 754 binary16.
#pragma once

#include <lab_cuda/half.h>

LAB_CUDA_HALF(__half, __half_raw, ::lab_cuda::half_to_float, ::lab_cuda::float_to_half)
LAB_CUDA_HALF_NAMES(__half, half)
LAB_CUDA_HALF2_NAMES(__half2, half, __float22half2_rn)
LAB_CUDA_TO_FLOAT2(__half2)
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

LAB_CUDA_DEFINE(float2, __half22float2, (__half2 a), {float(a.x), float(a.y)})
LAB_CUDA_DEFINE(__half2, __float2half2_rn, (float a), __half2(a, a))
LAB_CUDA_DEFINE(__half2, __floats2half2_rn, (float a, float b), __half2(a, b))
LAB_CUDA_DEFINE(__half, __float2half_rz, (float a),
                __ushort_as_half(::lab_cuda::float_to_half(a, ::lab_cuda::Rounding::kZero)))
LAB_CUDA_DEFINE(__half, __float2half_ru, (float a),
                __ushort_as_half(::lab_cuda::float_to_half(a, ::lab_cuda::Rounding::kUp)))
LAB_CUDA_DEFINE(__half, __float2half_rd, (float a),
                __ushort_as_half(::lab_cuda::float_to_half(a, ::lab_cuda::Rounding::kDown)))
#define CUDART_INF_FP16 __ushort_as_half(0x7c00u)
#define CUDART_NAN_FP16 __ushort_as_half(0x7fffu)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7bffu)
#define CUDART_ZERO_FP16 __ushort_as_half(0x0000u)
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00u)
