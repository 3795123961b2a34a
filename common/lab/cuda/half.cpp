// Conversions between float32 and the two formats of 16 bits.
#include <cstdint>
#include <cstring>

#include "common/lab/cuda/include/lab_cuda/base.h"

namespace lab_cuda {
namespace {

std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
float of_bits(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
// `bits` without the lowest `count`, rounded.
std::uint32_t shifted(std::uint32_t bits, int count, Rounding rounding, bool negative) {
  if (count <= 0) return bits;
  if (count > 31) count = 31;
  const std::uint32_t kept = bits >> count, lost = bits & ((1u << count) - 1);
  const std::uint32_t half = 1u << (count - 1);
  switch (rounding) {
    case Rounding::kNearest:
      return kept + (lost > half || (lost == half && (kept & 1u) != 0));
    case Rounding::kUp:
      return kept + (lost != 0 && !negative);
    case Rounding::kDown:
      return kept + (lost != 0 && negative);
    default:
      return kept;
  }
}

}  // namespace

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
  if (exponent == 0x1f) return of_bits(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

std::uint16_t float_to_half(float x, Rounding rounding) {
  const std::uint32_t bits = bits_of(x), magnitude = bits & 0x7fffffff;
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  if (magnitude > 0x7f800000) return 0x7fff;
  const auto exponent = static_cast<int>(magnitude >> 23) - 127;
  std::uint32_t result;
  if (magnitude == 0x7f800000) {
    result = 0x7c00;
  } else if (exponent >= -14) {
    result = shifted(magnitude, 13, rounding, sign != 0) - (112u << 10);
  } else {
    const std::uint32_t significand =
        (magnitude & 0x7fffff) | (magnitude >= 0x800000 ? 0x800000u : 0);
    result = shifted(significand, -1 - exponent, rounding, sign != 0);
    if (-1 - exponent > 31) result = 0;
  }
  if (result > 0x7c00) result = 0x7c00;
  return static_cast<std::uint16_t>(sign | result);
}

std::uint16_t float_to_bfloat16(float x, Rounding rounding) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<std::uint16_t>(shifted(bits, 16, rounding, (bits & 0x80000000u) != 0));
}

}  // namespace lab_cuda
