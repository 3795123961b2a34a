/// @file
/// The storage types of the course, float64, float32, float16, bfloat16 and the two of 8 bits, and
/// their ranges.
#pragma once

#include <cmath>
#include <type_traits>

#include <Eigen/Core>

#include "common/tensor/float8.hpp"

namespace fa {

/// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
using half = Eigen::half;
/// The upper 16 bits of a float32: 1 sign, 8 exponent and 7 fraction bits.
using bfloat16 = Eigen::bfloat16;

/// A binary floating-point format as IEEE 754 has it.
template <int fraction, int exponent>
struct BinaryFormat {
  /// Bits stored after the leading 1.
  static constexpr int fraction_bits = fraction;
  /// Exponent of the largest power of two that is finite.
  static constexpr int max_exponent = exponent;
  /// Exponent of the smallest power of two that is normal.
  static constexpr int min_exponent = 1 - exponent;
};

/// The format of a floating-point type, and the name that NumPy uses; specialised for the types of
/// the course.
template <class T>
struct FloatTraits;

/// float64.
template <>
struct FloatTraits<double> : BinaryFormat<52, 1023> {
  static constexpr const char* name = "float64";
};
/// float32.
template <>
struct FloatTraits<float> : BinaryFormat<23, 127> {
  static constexpr const char* name = "float32";
};
/// float16.
template <>
struct FloatTraits<half> : BinaryFormat<10, 15> {
  static constexpr const char* name = "float16";
};
/// bfloat16.
template <>
struct FloatTraits<bfloat16> : BinaryFormat<7, 127> {
  static constexpr const char* name = "bfloat16";
};
/// e4m3. The exponent that IEEE 754 keeps for infinity and NaN has values but for the last fraction.
template <>
struct FloatTraits<e4m3> : BinaryFormat<3, 7> {
  static constexpr const char* name = "float8_e4m3fn";
  static constexpr int max_exponent = 8;
};
/// e5m2.
template <>
struct FloatTraits<e5m2> : BinaryFormat<2, 15> {
  static constexpr const char* name = "float8_e5m2";
};

/// The distance from 1 to the next larger value of type T. The relative error of rounding to
/// nearest is at most half of it for normal values.
template <class T>
double epsilon() {
  return std::ldexp(1.0, -FloatTraits<T>::fraction_bits);
}

/// The largest finite value of type T.
template <class T>
double largest() {
  return std::ldexp(2.0 - epsilon<T>(), FloatTraits<T>::max_exponent);
}
/// That of e4m3 is one step less: the last code is NaN.
template <>
inline double largest<e4m3>() {
  return std::ldexp(2.0 - 2 * epsilon<e4m3>(), FloatTraits<e4m3>::max_exponent);
}

/// The smallest positive normal value of type T; subnormal values below it lose digits.
template <class T>
double smallest_normal() {
  return std::ldexp(1.0, FloatTraits<T>::min_exponent);
}

/// The type in which sums over elements of type T are accumulated: never narrower than float32.
template <class T>
using accumulator_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace fa
