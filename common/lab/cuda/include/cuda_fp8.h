/// @file
/// CUDA's two floating-point formats of 8 bits. What does not fit becomes the largest number.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace lab_cuda {
/// Of a format with so many bits behind the point, the bias of its exponent, and its largest code.
template <int kMantissa, int kBias, int kLargest>
struct Fp8 {
  static unsigned char encode(float x, bool saturates = true) {
    const unsigned char sign = std::signbit(x) ? 0x80 : 0;
    if (std::isnan(x)) return 0x7f;
    if (x == 0) return sign;
    int exponent = 0;
    const float size = std::fabs(x);
    std::frexp(size, &exponent);
    exponent = exponent - 1 < 1 - kBias ? 1 - kBias : exponent - 1;
    // Of an infinity, or too large, in units of the last place.
    float code = std::isinf(x) ? 512 : std::nearbyint(std::ldexp(size, kMantissa - exponent));
    code += static_cast<float>((exponent + kBias - 1) << kMantissa);
    if (code <= kLargest) return sign | static_cast<unsigned char>(code);
    return sign | static_cast<unsigned char>(saturates ? kLargest : kLargest + 1);
  }
  static float decode(unsigned char code) {
    const int size = code & 0x7f, exponent = size >> kMantissa;
    const int fraction = size & ((1 << kMantissa) - 1);
    float value = std::ldexp(static_cast<float>(fraction + (exponent > 0) * (1 << kMantissa)),
                             (exponent > 0 ? exponent : 1) - kBias - kMantissa);
    if (size == kLargest + 1 && kMantissa == 2) value = INFINITY;
    if (size > kLargest && (kMantissa == 3 || size > kLargest + 1)) return NAN;
    return code & 0x80 ? -value : value;
  }
};
using E4m3 = Fp8<3, 7, 0x7e>;
using E5m2 = Fp8<2, 15, 0x7b>;
}  // namespace lab_cuda

LAB_CUDA_FUNCTION __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturates,
                                                           __nv_fp8_interpretation_t format) {
  const bool finite = saturates == __NV_SATFINITE;
  return format == __NV_E4M3 ? ::lab_cuda::E4m3::encode(x, finite)
                             : ::lab_cuda::E5m2::encode(x, finite);
}
#define LAB_CUDA_FP8(name, Format)                                                                \
  struct __nv_fp8_##name {                                                                        \
    __nv_fp8_storage_t __x;                                                                       \
    __nv_fp8_##name() = default;                                                                  \
    template <class T, class = std::enable_if_t<std::is_convertible_v<T, float>>>                 \
    LAB_CUDA_FUNCTION explicit __nv_fp8_##name(T v)                                               \
        : __x(::lab_cuda::Format::encode(static_cast<float>(v))) {}                               \
    LAB_CUDA_FUNCTION explicit operator float() const { return ::lab_cuda::Format::decode(__x); } \
    LAB_CUDA_FUNCTION explicit operator double() const { return float(*this); }                   \
    LAB_CUDA_FUNCTION explicit operator __half() const { return __half(float(*this)); }           \
    LAB_CUDA_FUNCTION explicit operator __nv_bfloat16() const {                                   \
      return __nv_bfloat16(float(*this));                                                         \
    }                                                                                             \
  };                                                                                              \
  struct __align__(2) __nv_fp8x2_##name {                                                         \
    __nv_fp8x2_storage_t __x;                                                                     \
    __nv_fp8x2_##name() = default;                                                                \
    LAB_CUDA_FUNCTION explicit __nv_fp8x2_##name(float2 v)                                        \
        : __x(static_cast<__nv_fp8x2_storage_t>(::lab_cuda::Format::encode(v.x) |                 \
                                                ::lab_cuda::Format::encode(v.y) << 8)) {}         \
    LAB_CUDA_FUNCTION explicit operator float2() const {                                          \
      return {::lab_cuda::Format::decode(static_cast<unsigned char>(__x)),                        \
              ::lab_cuda::Format::decode(static_cast<unsigned char>(__x >> 8))};                  \
    }                                                                                             \
  };                                                                                              \
  struct __align__(4) __nv_fp8x4_##name {                                                         \
    unsigned __x;                                                                                 \
    __nv_fp8x4_##name() = default;                                                                \
    LAB_CUDA_FUNCTION explicit __nv_fp8x4_##name(float4 v)                                        \
        : __x(__nv_fp8x2_##name(float2{v.x, v.y}).__x |                                           \
              static_cast<unsigned>(__nv_fp8x2_##name(float2{v.z, v.w}).__x) << 16) {}            \
    LAB_CUDA_FUNCTION explicit operator float4() const {                                          \
      __nv_fp8x2_##name low, high;                                                                \
      low.__x = static_cast<__nv_fp8x2_storage_t>(__x);                                           \
      high.__x = static_cast<__nv_fp8x2_storage_t>(__x >> 16);                                    \
      const float2 a = static_cast<float2>(low), b = static_cast<float2>(high);                   \
      return {a.x, a.y, b.x, b.y};                                                                \
    }                                                                                             \
  };
LAB_CUDA_FP8(e4m3, E4m3)
LAB_CUDA_FP8(e5m2, E5m2)
