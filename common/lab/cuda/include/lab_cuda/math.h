/// @file
/// CUDA's mathematical functions that C++ does not have, bit operations, and cached loads.
#pragma once

#include <lab_cuda/integers.h>

// ---------------------------------------------------------------- what C does not have either

// What is not a sum or a quotient is computed in double precision.
namespace lab_cuda {

/// The x with erfc(x) = y, for 0 < y < 2, by Newton's method: for the logarithm it comes from the
/// right, and does not overshoot.
inline double inverse_of_erfc(double y) {
  if (!(y > 0 && y < 2)) return y == 0 ? HUGE_VAL : y == 2 ? -HUGE_VAL : NAN;
  if (y > 1) return -inverse_of_erfc(2 - y);
  constexpr double slope = 0.886226925452758;  // sqrt(pi) / 2
  double x = 0;
  for (int i = 0; i < 100; ++i) {
    const double value = std::erfc(x);
    const double step =
        (y > 0.5 ? (value - y) : (std::log(value) - std::log(y)) * value) * slope * std::exp(x * x);
    x = std::fmin(x + step, 26.5);  // beyond it erfc() underflows
    if (std::fabs(step) <= 1e-16 * std::fabs(x)) break;
  }
  return x;
}
inline double inverse_of_erf(double y) {
  if (!(std::fabs(y) < 0.5)) return inverse_of_erfc(1 - y);
  constexpr double slope = 0.886226925452758;
  double x = y * slope;
  for (int i = 0; i < 6; ++i) x -= (std::erf(x) - y) * slope * std::exp(x * x);
  return x;
}
/// exp(x^2) * erfc(x).
inline double scaled_erfc(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  const double q = 1 / (2 * x * x);
  return 0.564189583547756 / x * (1 - q * (1 - 3 * q));  // 1 / sqrt(pi)
}
template <class T>
T norm_of(int count, const T* values) {
  T sum = 0;
  for (int i = 0; i < count; ++i) sum += values[i] * values[i];
  return std::sqrt(sum);
}

}  // namespace lab_cuda

// For float with an f behind the name, and for double.
#define LAB_CUDA_SPECIAL(name, expression) \
  inline float name##f(float f) {          \
    const double x = f;                    \
    return static_cast<float>(expression); \
  }                                        \
  LAB_CUDA_DEFINE(double, name, (double x), expression)
LAB_CUDA_SPECIAL(erfinv, ::lab_cuda::inverse_of_erf(x))
LAB_CUDA_SPECIAL(erfcinv, ::lab_cuda::inverse_of_erfc(x))
LAB_CUDA_SPECIAL(erfcx, ::lab_cuda::scaled_erfc(x))
LAB_CUDA_SPECIAL(normcdf, 0.5 * std::erfc(-x * M_SQRT1_2))
LAB_CUDA_SPECIAL(normcdfinv, -M_SQRT2* ::lab_cuda::inverse_of_erfc(2 * x))
LAB_CUDA_SPECIAL(sinpi, std::sin(M_PI* std::remainder(x, 2)))
LAB_CUDA_SPECIAL(cospi, std::cos(M_PI* std::remainder(x, 2)))
LAB_CUDA_SPECIAL(rcbrt, 1 / std::cbrt(x))
#undef LAB_CUDA_SPECIAL
#define LAB_CUDA_NORMS(T, f)                                                                      \
  LAB_CUDA_DEFINE(T, norm3d##f, (T x, T y, T z), std::sqrt((x * x) + y * y + z * z))              \
  LAB_CUDA_DEFINE(T, rnorm3d##f, (T x, T y, T z), 1 / norm3d##f(x, y, z))                         \
  LAB_CUDA_DEFINE(T, norm4d##f, (T x, T y, T z, T w), std::sqrt((x * x) + y * y + z * z + w * w)) \
  LAB_CUDA_DEFINE(T, rnorm4d##f, (T x, T y, T z, T w), 1 / norm4d##f(x, y, z, w))                 \
  LAB_CUDA_DEFINE(T, norm##f, (int count, const T* values), ::lab_cuda::norm_of(count, values))   \
  LAB_CUDA_DEFINE(T, rnorm##f, (int count, const T* values),                                      \
                  1 / ::lab_cuda::norm_of(count, values))                                         \
  LAB_CUDA_DEFINE(T, rhypot##f, (T x, T y), 1 / std::hypot(x, y))                                 \
  inline void sincospi##f(T x, T* sine, T* cosine) {                                              \
    *sine = sinpi##f(x);                                                                          \
    *cosine = cospi##f(x);                                                                        \
  }
LAB_CUDA_NORMS(float, f)
LAB_CUDA_NORMS(double, )
#undef LAB_CUDA_NORMS
#ifdef __cpp_lib_math_special_functions
LAB_CUDA_DEFINE(float, cyl_bessel_i0f, (float x), std::cyl_bessel_if(0, std::fabs(x)))
LAB_CUDA_DEFINE(double, cyl_bessel_i0, (double x), std::cyl_bessel_i(0, std::fabs(x)))
LAB_CUDA_DEFINE(float, cyl_bessel_i1f, (float x),
                std::copysign(std::cyl_bessel_if(1, std::fabs(x)), x))
LAB_CUDA_DEFINE(double, cyl_bessel_i1, (double x),
                std::copysign(std::cyl_bessel_i(1, std::fabs(x)), x))
#endif

// ---------------------------------------------------------------- the smaller and the larger

#define LAB_CUDA_MIN_MAX(result, A, B)                                               \
  LAB_CUDA_FUNCTION constexpr result min(A a, B b) {                                 \
    return static_cast<result>(b) < static_cast<result>(a) ? static_cast<result>(b)  \
                                                           : static_cast<result>(a); \
  }                                                                                  \
  LAB_CUDA_FUNCTION constexpr result max(A a, B b) {                                 \
    return static_cast<result>(a) < static_cast<result>(b) ? static_cast<result>(b)  \
                                                           : static_cast<result>(a); \
  }
LAB_CUDA_MIN_MAX(int, int, int)
LAB_CUDA_MIN_MAX(unsigned, unsigned, unsigned)
LAB_CUDA_MIN_MAX(unsigned, int, unsigned)
LAB_CUDA_MIN_MAX(unsigned, unsigned, int)
LAB_CUDA_MIN_MAX(long, long, long)
LAB_CUDA_MIN_MAX(unsigned long, unsigned long, unsigned long)
LAB_CUDA_MIN_MAX(unsigned long, long, unsigned long)
LAB_CUDA_MIN_MAX(unsigned long, unsigned long, long)
LAB_CUDA_MIN_MAX(long long, long long, long long)
LAB_CUDA_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
LAB_CUDA_MIN_MAX(unsigned long long, long long, unsigned long long)
LAB_CUDA_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef LAB_CUDA_MIN_MAX
// A NaN gives way to a number.
LAB_CUDA_DEFINE(float, min, (float a, float b), __builtin_fminf(a, b))
LAB_CUDA_DEFINE(float, max, (float a, float b), __builtin_fmaxf(a, b))
LAB_CUDA_DEFINE(double, min, (double a, double b), __builtin_fmin(a, b))
LAB_CUDA_DEFINE(double, max, (double a, double b), __builtin_fmax(a, b))
LAB_CUDA_DEFINE(double, min, (float a, double b), __builtin_fmin(a, b))
LAB_CUDA_DEFINE(double, max, (float a, double b), __builtin_fmax(a, b))
LAB_CUDA_DEFINE(double, min, (double a, float b), __builtin_fmin(a, b))
LAB_CUDA_DEFINE(double, max, (double a, float b), __builtin_fmax(a, b))
LAB_CUDA_DEFINE(int, umin, (unsigned a, unsigned b), b < a ? b : a)
LAB_CUDA_DEFINE(int, umax, (unsigned a, unsigned b), a < b ? b : a)

// ---------------------------------------------------------------- functions

LAB_CUDA_DEFINE(float, rsqrtf, (float x), 1 / std::sqrt(x))
LAB_CUDA_DEFINE(double, rsqrt, (double x), 1 / std::sqrt(x))
LAB_CUDA_DEFINE(float, rsqrt, (float x), 1 / std::sqrt(x))
LAB_CUDA_DEFINE(float, fdividef, (float x, float y), x / y)
LAB_CUDA_DEFINE(float, saturate, (float x), x > 0 ? (x < 1 ? x : 1) : 0)
LAB_CUDA_DEFINE(float, __saturatef, (float x), saturate(x))
LAB_CUDA_DEFINE(float, __expf, (float x), std::exp(x))
LAB_CUDA_DEFINE(float, __exp10f, (float x), std::pow(10.0f, x))
LAB_CUDA_DEFINE(float, __logf, (float x), std::log(x))
LAB_CUDA_DEFINE(float, __log2f, (float x), std::log2(x))
LAB_CUDA_DEFINE(float, __log10f, (float x), std::log10(x))
LAB_CUDA_DEFINE(float, __powf, (float x, float y), std::pow(x, y))
LAB_CUDA_DEFINE(float, __sinf, (float x), std::sin(x))
LAB_CUDA_DEFINE(float, __cosf, (float x), std::cos(x))
LAB_CUDA_DEFINE(float, __tanf, (float x), std::tan(x))
LAB_CUDA_DEFINE(float, __tanhf, (float x), std::tanh(x))
inline void __sincosf(float x, float* sine, float* cosine) {
  *sine = std::sin(x);
  *cosine = std::cos(x);
}
LAB_CUDA_DEFINE(float, __fdividef, (float x, float y), x / y)
LAB_CUDA_DEFINE(float, __frsqrt_rn, (float x), 1 / std::sqrt(x))

// One operation, rounded to nearest; the other ways to round differ in the last bit only.
#define LAB_CUDA_ROUNDED(mode)                                                                 \
  LAB_CUDA_DEFINE(float, __fadd_##mode, (float x, float y), x + y)                             \
  LAB_CUDA_DEFINE(float, __fsub_##mode, (float x, float y), x - y)                             \
  LAB_CUDA_DEFINE(float, __fmul_##mode, (float x, float y), (x * y))                           \
  LAB_CUDA_DEFINE(float, __fdiv_##mode, (float x, float y), x / y)                             \
  LAB_CUDA_DEFINE(float, __fmaf_##mode, (float x, float y, float z), std::fma(x, y, z))        \
  LAB_CUDA_DEFINE(double, __dadd_##mode, (double x, double y), x + y)                          \
  LAB_CUDA_DEFINE(double, __dsub_##mode, (double x, double y), x - y)                          \
  LAB_CUDA_DEFINE(double, __dmul_##mode, (double x, double y), (x * y))                        \
  LAB_CUDA_DEFINE(double, __ddiv_##mode, (double x, double y), x / y)                          \
  LAB_CUDA_DEFINE(double, __fma_##mode, (double x, double y, double z), std::fma(x, y, z))     \
  LAB_CUDA_DEFINE(float, __int2float_##mode, (int x), static_cast<float>(x))                   \
  LAB_CUDA_DEFINE(float, __uint2float_##mode, (unsigned x), static_cast<float>(x))             \
  LAB_CUDA_DEFINE(float, __ll2float_##mode, (long long x), static_cast<float>(x))              \
  LAB_CUDA_DEFINE(float, __ull2float_##mode, (unsigned long long x), static_cast<float>(x))    \
  LAB_CUDA_DEFINE(double, __ull2double_##mode, (unsigned long long x), static_cast<double>(x)) \
  LAB_CUDA_DEFINE(float, __frcp_##mode, (float x), 1 / x)                                      \
  LAB_CUDA_DEFINE(double, __drcp_##mode, (double x), 1 / x)                                    \
  LAB_CUDA_DEFINE(float, __fsqrt_##mode, (float x), std::sqrt(x))                              \
  LAB_CUDA_DEFINE(double, __dsqrt_##mode, (double x), std::sqrt(x))                            \
  LAB_CUDA_DEFINE(double, __ll2double_##mode, (long long x), static_cast<double>(x))           \
  LAB_CUDA_DEFINE(float, __double2float_##mode, (double x), static_cast<float>(x))
LAB_CUDA_ROUNDED(rn)
LAB_CUDA_ROUNDED(rz)
LAB_CUDA_ROUNDED(ru)
LAB_CUDA_ROUNDED(rd)
#undef LAB_CUDA_ROUNDED
LAB_CUDA_DEFINE(double, __int2double_rn, (int x), x)
LAB_CUDA_DEFINE(double, __uint2double_rn, (unsigned x), x)
#define LAB_CUDA_TO_INTEGER(mode, function)                                                       \
  LAB_CUDA_DEFINE(int, __float2int_##mode, (float x), static_cast<int>(function(x)))              \
  LAB_CUDA_DEFINE(unsigned, __float2uint_##mode, (float x), static_cast<unsigned>(function(x)))   \
  LAB_CUDA_DEFINE(long long, __float2ll_##mode, (float x), static_cast<long long>(function(x)))   \
  LAB_CUDA_DEFINE(int, __double2int_##mode, (double x), static_cast<int>(function(x)))            \
  LAB_CUDA_DEFINE(long long, __double2ll_##mode, (double x), static_cast<long long>(function(x))) \
  LAB_CUDA_DEFINE(unsigned, __double2uint_##mode, (double x), static_cast<unsigned>(function(x))) \
  LAB_CUDA_DEFINE(unsigned long long, __float2ull_##mode, (float x),                              \
                  static_cast<unsigned long long>(function(x)))                                   \
  LAB_CUDA_DEFINE(unsigned long long, __double2ull_##mode, (double x),                            \
                  static_cast<unsigned long long>(function(x)))
LAB_CUDA_TO_INTEGER(rn, std::nearbyint)
LAB_CUDA_TO_INTEGER(rz, std::trunc)
LAB_CUDA_TO_INTEGER(ru, std::ceil)
LAB_CUDA_TO_INTEGER(rd, std::floor)
#undef LAB_CUDA_TO_INTEGER

// ---------------------------------------------------------------- bits

LAB_CUDA_DEFINE(int, __float_as_int, (float x), ::lab_cuda::bits_as<int>(x))
LAB_CUDA_DEFINE(unsigned, __float_as_uint, (float x), ::lab_cuda::bits_as<unsigned>(x))
LAB_CUDA_DEFINE(float, __int_as_float, (int x), ::lab_cuda::bits_as<float>(x))
LAB_CUDA_DEFINE(float, __uint_as_float, (unsigned x), ::lab_cuda::bits_as<float>(x))
LAB_CUDA_DEFINE(long long, __double_as_longlong, (double x), ::lab_cuda::bits_as<long long>(x))
LAB_CUDA_DEFINE(double, __longlong_as_double, (long long x), ::lab_cuda::bits_as<double>(x))
LAB_CUDA_DEFINE(int, __double2loint, (double x), static_cast<int>(__double_as_longlong(x)))
LAB_CUDA_DEFINE(int, __double2hiint, (double x), static_cast<int>(__double_as_longlong(x) >> 32))
LAB_CUDA_DEFINE(double, __hiloint2double, (int high, int low),
                __longlong_as_double(static_cast<long long>(
                    static_cast<unsigned long long>(high) << 32 | static_cast<unsigned>(low))))

LAB_CUDA_DEFINE(int, __popc, (unsigned x), __builtin_popcount(x))
LAB_CUDA_DEFINE(int, __popcll, (unsigned long long x), __builtin_popcountll(x))
LAB_CUDA_DEFINE(int, __ffs, (int x), __builtin_ffs(x))
LAB_CUDA_DEFINE(int, __ffsll, (long long x), __builtin_ffsll(x))
LAB_CUDA_DEFINE(int, __clz, (int x), x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)))
LAB_CUDA_DEFINE(int, __clzll, (long long x),
                x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)))
inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (x >> i & 1u) << (31 - i);
  return result;
}
LAB_CUDA_DEFINE(unsigned long long, __brevll, (unsigned long long x),
                static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
                    __brev(static_cast<unsigned>(x >> 32)))
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  }
  return result;
}

// ---------------------------------------------------------------- loads and stores with a hint

#define LAB_CUDA_LOAD(name) \
  template <class T>        \
  LAB_CUDA_DEFINE(T, name, (const T* address), *address)
template <class T>
LAB_CUDA_FUNCTION T __ldg(const T* address, LAB_CUDA_WHERE) {
  ::lab_cuda::reads_constant(address, sizeof(T), lab_where);
  return *address;
}
LAB_CUDA_LOAD(__ldca)
LAB_CUDA_LOAD(__ldcg)
LAB_CUDA_LOAD(__ldcs)
LAB_CUDA_LOAD(__ldlu)
LAB_CUDA_LOAD(__ldcv)
#undef LAB_CUDA_LOAD
#define LAB_CUDA_STORE(name) \
  template <class T>         \
  LAB_CUDA_DEFINE(void, name, (T * address, ::lab_cuda::Store<T> value), (void)(*address = value))
namespace lab_cuda {
template <class T>
using Store = std::common_type_t<T>;  // deduces nothing
}
LAB_CUDA_STORE(__stwb)
LAB_CUDA_STORE(__stcg)
LAB_CUDA_STORE(__stcs)
LAB_CUDA_STORE(__stwt)
#undef LAB_CUDA_STORE

// ---------------------------------------------------------------- the rest

namespace lab_cuda {
long long clock_now();
unsigned streaming_multiprocessor();
}  // namespace lab_cuda
LAB_CUDA_DEFINE(long long, clock64, (), ::lab_cuda::clock_now())
LAB_CUDA_DEFINE(unsigned long long, globaltimer, (),
                static_cast<unsigned long long>(::lab_cuda::clock_now()))
LAB_CUDA_DEFINE(void, __nanosleep, (unsigned, LAB_CUDA_WHERE), ::lab_cuda::poll(nullptr, lab_where))
[[noreturn]] inline void __trap(LAB_CUDA_WHERE) {
  ::lab_cuda::stop_kernel("trap", "__trap() was called", lab_where);
}
inline void __brkpt() {}
inline void __prof_trigger(int) {}
LAB_CUDA_DEFINE(std::size_t, __cvta_generic_to_shared, (const void* pointer),
                ::lab_cuda::shared_address(pointer))
LAB_CUDA_DEFINE(void*, __cvta_shared_to_generic, (std::size_t address),
                ::lab_cuda::shared_pointer(address))
LAB_CUDA_DEFINE(std::size_t, __cvta_generic_to_global, (const void* pointer),
                reinterpret_cast<std::size_t>(pointer))
LAB_CUDA_DEFINE(unsigned, __isShared, (const void* pointer), ::lab_cuda::is_shared(pointer))
LAB_CUDA_DEFINE(unsigned, __isGlobal, (const void* pointer), ::lab_cuda::is_global(pointer))
#define __builtin_assume(condition) ((void)0)
#define __launch_dependents() ((void)0)
