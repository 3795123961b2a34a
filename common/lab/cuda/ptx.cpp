// Conversions of the two formats of 16 bits, and instructions of PTX that the lanes of a warp execute
// together.
#include "common/lab/cuda/include/lab_cuda/ptx.h"

#include <cstdint>
#include <cstring>

#include "common/lab/engine.hpp"

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

namespace lab_cuda::ptx {

void check_aligned(const void* address, std::size_t size, Where where) {
  if (reinterpret_cast<std::uintptr_t>(address) % size != 0) {
    fa::lab::misaligned(address, size, {where.file, where.line});
  }
}

void cp_async(void* to, const void* from, int size, int kept, Where where) {
  copy_async_zeros(to, from, static_cast<std::size_t>(size), static_cast<std::size_t>(size - kept),
                   where);
}

void ldmatrix(unsigned* to, int count, bool transposed, const void* row, Where where) {
  const int lane = thread().lane, g = lane / 4, t = lane % 4;
  if (lane < 8 * count) note_access(row, 16, false, where);
  const Exchange<const void*> rows(0xffffffffu, row, where);
  for (int m = 0; m < count; ++m) {
    std::uint16_t pair[2];
    for (int i = 0; i < 2; ++i) {
      const int of_row = transposed ? 2 * t + i : g, of_col = transposed ? g : 2 * t + i;
      pair[i] = static_cast<const std::uint16_t*>(rows.of_lane(8 * m + of_row))[of_col];
    }
    std::memcpy(&to[m], pair, sizeof pair);
  }
}

namespace {

struct Own {
  unsigned a[4], b[2];
};

// The numbers in a register.
template <class T>
void unpack(Element element, unsigned bits, T* to) {
  switch (element) {
    case Element::kHalf:
      to[0] = static_cast<T>(half_to_float(static_cast<std::uint16_t>(bits)));
      to[1] = static_cast<T>(half_to_float(static_cast<std::uint16_t>(bits >> 16)));
      break;
    case Element::kBfloat16:
      to[0] = static_cast<T>(__uint_as_float(bits << 16));
      to[1] = static_cast<T>(__uint_as_float(bits & 0xffff0000u));
      break;
    case Element::kTf32:
      to[0] = static_cast<T>(__uint_as_float(bits & 0xffffe000u));
      break;
    case Element::kInt8:
      for (int i = 0; i < 4; ++i) to[i] = static_cast<T>(static_cast<signed char>(bits >> 8 * i));
      break;
  }
}

// A is 16 x k in registers of g and g + 8, then of the second half of k; B is k x 8; k of a
// register is `numbers`. Lane 4 g + t has the sums at (g, 2 t), (g, 2 t + 1), and the same of row g
// + 8.
template <class T>
void multiply(Element element, int k, const unsigned* a, const unsigned* b, const T* c, T* d,
              Where where) {
  const int numbers = element == Element::kTf32 ? 1 : element == Element::kInt8 ? 4 : 2;
  const int halves = k / (4 * numbers);  // registers of a row in a lane
  Own own = {};
  std::memcpy(own.a, a, sizeof(unsigned) * static_cast<std::size_t>(2 * halves));
  std::memcpy(own.b, b, sizeof(unsigned) * static_cast<std::size_t>(halves));
  const Exchange<Own> lanes(0xffffffffu, own, where);
  const int lane = thread().lane, g = lane / 4, t = lane % 4;
  T row[2][32], col[2][32];
  for (int quarter = 0; quarter < 4; ++quarter) {
    const Own of_row = lanes.of_lane(4 * g + quarter);
    for (int half = 0; half < halves; ++half) {
      const int at = (half * 4 + quarter) * numbers;
      unpack(element, of_row.a[2 * half], &row[0][at]);
      unpack(element, of_row.a[2 * half + 1], &row[1][at]);
      for (int i = 0; i < 2; ++i) {
        unpack(element, lanes.of_lane(4 * (2 * t + i) + quarter).b[half], &col[i][at]);
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    T sum = c[i];
    for (int j = 0; j < k; ++j) sum += row[i / 2][j] * col[i % 2][j];
    d[i] = sum;
  }
}

}  // namespace

void mma(Element element, int k, const unsigned* a, const unsigned* b, const float* c, float* d,
         Where where) {
  multiply(element, k, a, b, c, d, where);
}
void mma(Element element, int k, const unsigned* a, const unsigned* b, const int* c, int* d,
         Where where) {
  multiply(element, k, a, b, c, d, where);
}
void mma(Element element, int k, const unsigned* a, const unsigned* b, const unsigned* c,
         unsigned* d, Where where) {
  float sums[4];
  unpack(Element::kHalf, c[0], sums);
  unpack(Element::kHalf, c[1], sums + 2);
  multiply(element, k, a, b, sums, sums, where);
  for (int i = 0; i < 2; ++i) {
    d[i] = static_cast<unsigned>(float_to_half(sums[2 * i])) |
           static_cast<unsigned>(float_to_half(sums[2 * i + 1])) << 16;
  }
}

}  // namespace lab_cuda::ptx
