/// @file
/// Mathematical functions of CUDA that neither C++ nor the C library has. What is not a sum or a
/// quotient is computed in double precision.
#pragma once

#include <lab_cuda/base.h>

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
