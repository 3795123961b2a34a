/// @file
/// CUDA's bfloat16: the upper half of a float32.
#pragma once

#include <lab_cuda/half.h>

LAB_CUDA_HALF(__nv_bfloat16, __nv_bfloat16_raw, ::lab_cuda::bfloat16_to_float,
              ::lab_cuda::float_to_bfloat16)
LAB_CUDA_HALF_NAMES(__nv_bfloat16, bfloat16)
LAB_CUDA_HALF2_NAMES(__nv_bfloat162, bfloat16, __float22bfloat162_rn)
LAB_CUDA_TO_FLOAT2(__nv_bfloat162)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

LAB_CUDA_DEFINE(float2, __bfloat1622float2, (__nv_bfloat162 a), {float(a.x), float(a.y)})
LAB_CUDA_DEFINE(__nv_bfloat162, __float2bfloat162_rn, (float a), __nv_bfloat162(a, a))
LAB_CUDA_DEFINE(__nv_bfloat162, __floats2bfloat162_rn, (float a, float b), __nv_bfloat162(a, b))
LAB_CUDA_DEFINE(__nv_bfloat16, __float2bfloat16_rz, (float a),
                __ushort_as_bfloat16(::lab_cuda::float_to_bfloat16(a, ::lab_cuda::Rounding::kZero)))
#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80u)
#define CUDART_NAN_BF16 __ushort_as_bfloat16(0x7fffu)
