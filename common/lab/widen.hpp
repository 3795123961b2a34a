/// @file
/// Operands of tensor cores as float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/tensor/dtype.hpp"

namespace fa::lab {

/// Converts n numbers of type T, half or bfloat16, of which the compiler computes several at once.
template <class T, std::size_t n>
void widen(const void* from, float (&to)[n]) {
  std::uint16_t numbers[n];
  std::memcpy(numbers, from, sizeof numbers);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t x = numbers[i];
    std::uint32_t bits = x << 16;
    if constexpr (std::is_same_v<T, half>) {
      // Moved to its place in a float32, the exponent is too small by the difference of the biases.
      const std::uint32_t moved = (x & 0x7fff) << 13;
      float value;
      std::memcpy(&value, &moved, sizeof value);
      value *= 0x1p112f;
      std::memcpy(&bits, &value, sizeof bits);
      bits |= (x & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;  // infinity and NaN
      bits |= (x & 0x8000) << 16;
    }
    std::memcpy(to + i, &bits, sizeof bits);
  }
}

}  // namespace fa::lab
