/// @file
/// The two formats of 16 bits, __half and __nv_bfloat16, by one description: each is a class, and
/// what CUDA has for one it has, under other names, for the other.
#pragma once

#include <lab_cuda/atomics.h>
#include <lab_cuda/math.h>
#include <lab_cuda/warp.h>

namespace lab_cuda {
LAB_CUDA_DEFINE(float, bfloat16_to_float, (std::uint16_t bits),
                __uint_as_float(static_cast<unsigned>(bits) << 16))
}  // namespace lab_cuda

#define LAB_CUDA_HALF_OPERATOR(H, op)                                  \
  LAB_CUDA_DEFINE(H, operator op, (const H& a, const H& b),            \
                  H(static_cast<float>(a) op static_cast<float>(b)))   \
  LAB_CUDA_DEFINE(H&, operator op##=, (H & a, const H& b), a = a op b) \
  LAB_CUDA_DEFINE(H##2, operator op, (const H##2 & a, const H##2 & b), \
                  H##2(a.x op b.x, a.y op b.y))                        \
  LAB_CUDA_DEFINE(H##2 &, operator op##=, (H##2 & a, const H##2 & b), a = a op b)
#define LAB_CUDA_HALF_COMPARE(H, op)                              \
  LAB_CUDA_DEFINE(bool, operator op, (const H& a, const H& b),    \
                  static_cast<float>(a) op static_cast<float>(b)) \
  LAB_CUDA_DEFINE(bool, operator op, (const H##2 & a, const H##2 & b), (a.x op b.x) && (a.y op b.y))
// H is the class, R its raw form, `to` and `from` convert.
#define LAB_CUDA_HALF(H, R, to, from)                                                        \
  struct R {                                                                                 \
    unsigned short x;                                                                        \
  };                                                                                         \
  struct __align__(2) H {                                                                    \
    unsigned short __x;                                                                      \
    H() = default;                                                                           \
    LAB_CUDA_FUNCTION H(const R& raw) : __x(raw.x) {}                                        \
    LAB_CUDA_FUNCTION H(float v) : __x(from(v)) {}                                           \
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                    \
    LAB_CUDA_FUNCTION H(T v) : __x(from(static_cast<float>(v))) {}                           \
    LAB_CUDA_FUNCTION operator R() const {                                                   \
      return {__x};                                                                          \
    }                                                                                        \
    LAB_CUDA_FUNCTION operator float() const {                                               \
      return to(__x);                                                                        \
    }                                                                                        \
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                    \
    LAB_CUDA_DEFINE(H&, operator=, (T v), *this = H(v))                                      \
    LAB_CUDA_FUNCTION explicit operator int() const {                                        \
      return static_cast<int>(to(__x));                                                      \
    }                                                                                        \
    LAB_CUDA_FUNCTION explicit operator unsigned() const {                                   \
      return static_cast<unsigned>(to(__x));                                                 \
    }                                                                                        \
    LAB_CUDA_FUNCTION explicit operator bool() const {                                       \
      return (__x & 0x7fff) != 0;                                                            \
    }                                                                                        \
  };                                                                                         \
  struct __align__(4) H##2 {                                                                 \
    H x, y;                                                                                  \
    H##2() = default;                                                                        \
    LAB_CUDA_FUNCTION H##2(const H& a, const H& b) : x(a), y(b) {}                           \
  };                                                                                         \
  LAB_CUDA_HALF_OPERATOR(H, +)                                                               \
  LAB_CUDA_HALF_OPERATOR(H, -)                                                               \
  LAB_CUDA_HALF_OPERATOR(H, *)                                                               \
  LAB_CUDA_HALF_OPERATOR(H, /)                                                               \
  LAB_CUDA_HALF_COMPARE(H, ==)                                                               \
  LAB_CUDA_HALF_COMPARE(H, <)                                                                \
  LAB_CUDA_HALF_COMPARE(H, <=)                                                               \
  LAB_CUDA_HALF_COMPARE(H, >)                                                                \
  LAB_CUDA_HALF_COMPARE(H, >=)                                                               \
  LAB_CUDA_DEFINE(bool, operator!=, (const H& a, const H& b), !(a == b))                     \
  LAB_CUDA_FUNCTION H operator-(const H& a) {                                                \
    return H(R{static_cast<unsigned short>(a.__x ^ 0x8000)});                                \
  }                                                                                          \
  LAB_CUDA_DEFINE(H, operator+, (const H& a), a)                                             \
  LAB_CUDA_DEFINE(H##2, operator-, (const H##2 & a), H##2(-a.x, -a.y))                       \
  LAB_CUDA_DEFINE(H&, operator++, (H & a), a = a + H(1.0f))                                  \
  LAB_CUDA_DEFINE(H&, operator--, (H & a), a = a - H(1.0f))                                  \
  LAB_CUDA_DEFINE(H, __hadd, (H a, H b), a + b)                                              \
  LAB_CUDA_DEFINE(H, __hsub, (H a, H b), a - b)                                              \
  LAB_CUDA_DEFINE(H, __hmul, (H a, H b), (a * b))                                            \
  LAB_CUDA_DEFINE(H, __hdiv, (H a, H b), a / b)                                              \
  LAB_CUDA_DEFINE(H, __hadd_rn, (H a, H b), a + b)                                           \
  LAB_CUDA_DEFINE(H, __hmul_rn, (H a, H b), (a * b))                                         \
  LAB_CUDA_DEFINE(H, __hadd_sat, (H a, H b), H(saturate(float(a) + float(b))))               \
  LAB_CUDA_DEFINE(H, __hfma, (H a, H b, H c),                                                \
                  H(static_cast<float>(double(float(a)) * float(b) + float(c))))             \
  LAB_CUDA_FUNCTION H __hfma_relu(H a, H b, H c) {                                           \
    const H r = __hfma(a, b, c);                                                             \
    return r > H(0.0f) ? r : H(0.0f);                                                        \
  }                                                                                          \
  LAB_CUDA_DEFINE(H, __hneg, (H a), -a)                                                      \
  LAB_CUDA_FUNCTION H __habs(H a) {                                                          \
    return H(R{static_cast<unsigned short>(a.__x & 0x7fff)});                                \
  }                                                                                          \
  LAB_CUDA_DEFINE(H, __hmax, (H a, H b), H(max(float(a), float(b))))                         \
  LAB_CUDA_DEFINE(H, __hmin, (H a, H b), H(min(float(a), float(b))))                         \
  LAB_CUDA_DEFINE(bool, __heq, (H a, H b), a == b)                                           \
  LAB_CUDA_DEFINE(bool, __hne, (H a, H b), a != b)                                           \
  LAB_CUDA_DEFINE(bool, __hlt, (H a, H b), a < b)                                            \
  LAB_CUDA_DEFINE(bool, __hle, (H a, H b), a <= b)                                           \
  LAB_CUDA_DEFINE(bool, __hgt, (H a, H b), a > b)                                            \
  LAB_CUDA_DEFINE(bool, __hge, (H a, H b), a >= b)                                           \
  LAB_CUDA_DEFINE(bool, __hisnan, (H a), std::isnan(float(a)))                               \
  LAB_CUDA_DEFINE(int, __hisinf, (H a), std::isinf(float(a)) ? 1 : 0)                        \
  LAB_CUDA_DEFINE(H, hexp, (H a), H(std::exp(float(a))))                                     \
  LAB_CUDA_DEFINE(H, hexp2, (H a), H(std::exp2(float(a))))                                   \
  LAB_CUDA_DEFINE(H, hlog, (H a), H(std::log(float(a))))                                     \
  LAB_CUDA_DEFINE(H, hlog2, (H a), H(std::log2(float(a))))                                   \
  LAB_CUDA_DEFINE(H, hsqrt, (H a), H(std::sqrt(float(a))))                                   \
  LAB_CUDA_DEFINE(H, hrsqrt, (H a), H(1 / std::sqrt(float(a))))                              \
  LAB_CUDA_DEFINE(H, hrcp, (H a), H(1 / float(a)))                                           \
  LAB_CUDA_DEFINE(H, hsin, (H a), H(std::sin(float(a))))                                     \
  LAB_CUDA_DEFINE(H, hcos, (H a), H(std::cos(float(a))))                                     \
  LAB_CUDA_DEFINE(H, htanh, (H a), H(std::tanh(float(a))))                                   \
  LAB_CUDA_DEFINE(H, hfloor, (H a), H(std::floor(float(a))))                                 \
  LAB_CUDA_DEFINE(H, hceil, (H a), H(std::ceil(float(a))))                                   \
  LAB_CUDA_DEFINE(H, htrunc, (H a), H(std::trunc(float(a))))                                 \
  LAB_CUDA_DEFINE(H, hrint, (H a), H(std::nearbyint(float(a))))                              \
  LAB_CUDA_DEFINE(H##2, __hadd2, (H##2 a, H##2 b), a + b)                                    \
  LAB_CUDA_DEFINE(H##2, __hsub2, (H##2 a, H##2 b), a - b)                                    \
  LAB_CUDA_DEFINE(H##2, __hmul2, (H##2 a, H##2 b), (a * b))                                  \
  LAB_CUDA_DEFINE(H##2, __h2div, (H##2 a, H##2 b), a / b)                                    \
  LAB_CUDA_DEFINE(H##2, __hneg2, (H##2 a), -a)                                               \
  LAB_CUDA_DEFINE(H##2, __habs2, (H##2 a), H##2(__habs(a.x), __habs(a.y)))                   \
  LAB_CUDA_DEFINE(H##2, __hfma2, (H##2 a, H##2 b, H##2 c),                                   \
                  H##2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)))                        \
  LAB_CUDA_DEFINE(H##2, __hmax2, (H##2 a, H##2 b), H##2(__hmax(a.x, b.x), __hmax(a.y, b.y))) \
  LAB_CUDA_DEFINE(H##2, __hmin2, (H##2 a, H##2 b), H##2(__hmin(a.x, b.x), __hmin(a.y, b.y))) \
  LAB_CUDA_DEFINE(H##2, h2exp, (H##2 a), H##2(hexp(a.x), hexp(a.y)))                         \
  LAB_CUDA_DEFINE(H##2, h2exp2, (H##2 a), H##2(hexp2(a.x), hexp2(a.y)))                      \
  LAB_CUDA_DEFINE(H##2, h2sqrt, (H##2 a), H##2(hsqrt(a.x), hsqrt(a.y)))                      \
  LAB_CUDA_DEFINE(H##2, h2rcp, (H##2 a), H##2(hrcp(a.x), hrcp(a.y)))                         \
  LAB_CUDA_DEFINE(H##2, h2rsqrt, (H##2 a), H##2(hrsqrt(a.x), hrsqrt(a.y)))                   \
  LAB_CUDA_DEFINE(bool, __hbeq2, (H##2 a, H##2 b), a == b)                                   \
  inline H atomicAdd(H* address, H value, LAB_CUDA_WHERE) {                                  \
    return ::lab_cuda::change(                                                               \
        address, [&](H old) { return old + value; }, lab_where);                             \
  }                                                                                          \
  inline H##2 atomicAdd(H##2 * address, H##2 value, LAB_CUDA_WHERE) {                        \
    return ::lab_cuda::change(                                                               \
        address, [&](H##2 old) { return old + value; }, lab_where);                          \
  }
// Names that differ between the two.
#define LAB_CUDA_HALF_NAMES(H, h)                                            \
  LAB_CUDA_DEFINE(float, __##h##2float, (H a), static_cast<float>(a))        \
  LAB_CUDA_DEFINE(H, __float2##h, (float a), H(a))                           \
  LAB_CUDA_DEFINE(H, __double2##h, (double a), H(a))                         \
  LAB_CUDA_DEFINE(H, __float2##h##_rn, (float a), H(a))                      \
  LAB_CUDA_DEFINE(H, __int2##h##_rn, (int a), H(a))                          \
  LAB_CUDA_DEFINE(H, __uint2##h##_rn, (unsigned a), H(a))                    \
  LAB_CUDA_DEFINE(int, __##h##2int_rn, (H a), __float2int_rn(float(a)))      \
  LAB_CUDA_DEFINE(int, __##h##2int_rz, (H a), __float2int_rz(float(a)))      \
  LAB_CUDA_DEFINE(H##2, __##h##2##h##2, (H a), H##2(a, a))                   \
  LAB_CUDA_DEFINE(H##2, __halves2##h##2, (H a, H b), H##2(a, b))             \
  LAB_CUDA_DEFINE(H##2, make_##h##2, (H a, H b), H##2(a, b))                 \
  LAB_CUDA_DEFINE(unsigned short, __##h##_as_ushort, (H a), a.__x)           \
  LAB_CUDA_DEFINE(short, __##h##_as_short, (H a), static_cast<short>(a.__x)) \
  LAB_CUDA_FUNCTION H __ushort_as_##h(unsigned short a) {                    \
    H result;                                                                \
    result.__x = a;                                                          \
    return result;                                                           \
  }                                                                          \
  LAB_CUDA_DEFINE(H, __short_as_##h, (short a), __ushort_as_##h(static_cast<unsigned short>(a)))
#define LAB_CUDA_HALF2_NAMES(H2, h2, float2_to)                    \
  LAB_CUDA_DEFINE(H2, float2_to, (float2 a), H2(a.x, a.y))         \
  LAB_CUDA_DEFINE(auto, __low2##h2, (H2 a), a.x)                   \
  LAB_CUDA_DEFINE(auto, __high2##h2, (H2 a), a.y)                  \
  LAB_CUDA_DEFINE(H2, __low2##h2##2, (H2 a), H2(a.x, a.x))         \
  LAB_CUDA_DEFINE(H2, __high2##h2##2, (H2 a), H2(a.y, a.y))        \
  LAB_CUDA_DEFINE(H2, __lows2##h2##2, (H2 a, H2 b), H2(a.x, b.x))  \
  LAB_CUDA_DEFINE(H2, __highs2##h2##2, (H2 a, H2 b), H2(a.y, b.y)) \
  LAB_CUDA_DEFINE(H2, __lowhigh2high##h2, (H2 a), H2(a.y, a.x))
#define LAB_CUDA_TO_FLOAT2(H2)                                         \
  LAB_CUDA_DEFINE(float, __low2float, (H2 a), static_cast<float>(a.x)) \
  LAB_CUDA_DEFINE(float, __high2float, (H2 a), static_cast<float>(a.y))
