/// @file
/// The two floating-point formats of 8 bits. kernel.cuh gives kernels types with the same bits.
///
/// Source: Micikevicius et al., FP8 Formats for Deep Learning, arXiv 2209.05433; conversions as
/// CUDA's __nv_fp8_e4m3 and __nv_fp8_e5m2 have them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace fa {

/// A floating-point number of 8 bits: a sign, an exponent, and `fraction` bits after the leading 1.
/// Every value is one of float16 and of float32, too.
/// @tparam fraction 3 for e4m3, 2 for e5m2
template <int fraction>
struct Float8 {
  /// What the exponent of the code is larger by than that of the value.
  static constexpr int exponent_bias = (1 << (6 - fraction)) - 1;
  /// The code of the largest finite value. e4m3 has NaN in the next one, and no infinity; e5m2 has
  /// infinity there and NaN in the three above, as IEEE 754.
  static constexpr std::uint8_t largest_code = fraction == 3 ? 0x7e : 0x7b;

  /// Sign, exponent and fraction, from the highest bit down.
  std::uint8_t code;

  /// Undefined, as other numbers.
  Float8() = default;
  /// Rounds to nearest, ties to even. What is too large, infinity included, becomes the largest
  /// finite value with its sign; NaN stays NaN.
  explicit Float8(float x) : code(encode(x)) {}
  /// The number of a code.
  static Float8 from_code(std::uint8_t code) {
    Float8 result;
    result.code = code;
    return result;
  }

  /// The exact value.
  explicit operator float() const {
    const std::uint32_t size = code & 0x7f;
    float value = static_cast<float>(size) / (1 << (exponent_bias + fraction - 1));  // subnormal
    if (size > largest_code) {
      value = fraction == 2 && size == largest_code + 1 ? INFINITY : NAN;
    } else if (size >> fraction != 0) {
      const std::uint32_t bits = (size << (23 - fraction)) + ((127u - exponent_bias) << 23);
      std::memcpy(&value, &bits, sizeof value);
    }
    return (code & 0x80) != 0 ? -value : value;
  }

 private:
  static std::uint8_t encode(float x) {
    if (std::isnan(x)) return 0x7f;
    const float size = std::min(std::abs(x), static_cast<float>(from_code(largest_code)));
    std::uint32_t bits, rounded;
    std::memcpy(&bits, &size, sizeof bits);
    const int exponent = std::max(static_cast<int>(bits >> 23) - 127, 1 - exponent_bias);
    // The distance from 2^exponent to the next number is the last place of `shift`: adding it
    // rounds, as every addition, to nearest, ties to even.
    const std::uint32_t shift_bits = static_cast<std::uint32_t>(exponent - fraction + 23 + 127)
                                     << 23;
    float shift;
    std::memcpy(&shift, &shift_bits, sizeof shift);
    shift += size;
    std::memcpy(&rounded, &shift, sizeof rounded);
    const std::uint32_t magnitude =
        rounded - shift_bits +
        (static_cast<std::uint32_t>(exponent + exponent_bias - 1) << fraction);
    return static_cast<std::uint8_t>(magnitude | (std::signbit(x) ? 0x80 : 0));
  }
};

/// 1 sign, 4 exponent and 3 fraction bits: up to 448, no infinity.
using e4m3 = Float8<3>;
/// 1 sign, 5 exponent and 2 fraction bits, the upper half of a float16: up to 57344, and infinity.
using e5m2 = Float8<2>;

}  // namespace fa
