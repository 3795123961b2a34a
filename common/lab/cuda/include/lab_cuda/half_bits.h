/// @file
/// Conversions between float32 and the two formats of 16 bits.
#pragma once

#include <cstdint>

namespace lab_cuda {

/// How a number that does not fit is rounded.
enum class Rounding { kNearest, kZero, kUp, kDown };
float half_to_float(std::uint16_t half);
std::uint16_t float_to_half(float x, Rounding rounding = Rounding::kNearest);
std::uint16_t float_to_bfloat16(float x, Rounding rounding = Rounding::kNearest);

}  // namespace lab_cuda
