/// @file
/// CUDA's integer functions: dot products of bytes, averages, shifts of two words, and the
/// operations on two or four numbers in one word.
#pragma once

#include <lab_cuda/base.h>

namespace lab_cuda {

/// A part of a word as a number.
template <int bits, bool is_signed>
LAB_CUDA_FUNCTION int part_of(unsigned word, int index) {
  const unsigned part = word >> bits * index & ((1u << bits) - 1);
  if (!is_signed) return static_cast<int>(part);
  return static_cast<int>(part << (32 - bits)) >> (32 - bits);
}
/// operation(x, y) for each part of two words; `low` and `high` are the limits of a part.
template <int bits, bool is_signed, class Operation>
LAB_CUDA_FUNCTION unsigned each_part(unsigned a, unsigned b, Operation operation) {
  constexpr unsigned mask = (1u << bits) - 1;
  constexpr int low = is_signed ? -(1 << (bits - 1)) : 0, high = low + static_cast<int>(mask);
  unsigned result = 0;
  for (int i = 0; i < 32 / bits; ++i) {
    const int part =
        operation(part_of<bits, is_signed>(a, i), part_of<bits, is_signed>(b, i), low, high);
    result |= (static_cast<unsigned>(part) & mask) << bits * i;
  }
  return result;
}
LAB_CUDA_DEFINE(int, clamped, (int x, int low, int high), x<low ? low : x> high ? high : x)
LAB_CUDA_DEFINE(int, distance, (int x, int y), x < y ? y - x : x - y)
template <int bits, bool is_signed>
LAB_CUDA_FUNCTION unsigned sum_of_distances(unsigned a, unsigned b) {
  unsigned sum = 0;
  for (int i = 0; i < 32 / bits; ++i) {
    sum += static_cast<unsigned>(
        distance(part_of<bits, is_signed>(a, i), part_of<bits, is_signed>(b, i)));
  }
  return sum;
}
/// c + the sum of the products of `count` numbers in a, of `bits_a` bits, with bytes of b.
template <int bits_a, int count, class Sum>
LAB_CUDA_FUNCTION Sum dot(unsigned a, unsigned b, int first_byte, Sum c) {
  constexpr bool is_signed = std::is_signed_v<Sum>;
  for (int i = 0; i < count; ++i) {
    c += static_cast<Sum>(part_of<bits_a, is_signed>(a, i) *
                          part_of<8, is_signed>(b, first_byte + i));
  }
  return c;
}

}  // namespace lab_cuda

#define LAB_CUDA_PARTS(name, is_signed, expression)                                   \
  inline unsigned __v##name##2(unsigned a, unsigned b) {                              \
    return ::lab_cuda::each_part<16, is_signed>(                                      \
        a, b, [](int x, int y, [[maybe_unused]] int low, [[maybe_unused]] int high) { \
          return expression;                                                          \
        });                                                                           \
  }                                                                                   \
  inline unsigned __v##name##4(unsigned a, unsigned b) {                              \
    return ::lab_cuda::each_part<8, is_signed>(                                       \
        a, b, [](int x, int y, [[maybe_unused]] int low, [[maybe_unused]] int high) { \
          return expression;                                                          \
        });                                                                           \
  }
LAB_CUDA_PARTS(add, false, x + y)
LAB_CUDA_PARTS(addss, true, ::lab_cuda::clamped(x + y, low, high))
LAB_CUDA_PARTS(addus, false, ::lab_cuda::clamped(x + y, low, high))
LAB_CUDA_PARTS(sub, false, x - y)
LAB_CUDA_PARTS(subss, true, ::lab_cuda::clamped(x - y, low, high))
LAB_CUDA_PARTS(subus, false, ::lab_cuda::clamped(x - y, low, high))
LAB_CUDA_PARTS(avgs, true, (x + y + (x + y >= 0)) >> 1)
LAB_CUDA_PARTS(avgu, false, (x + y + 1) >> 1)
LAB_CUDA_PARTS(haddu, false, (x + y) >> 1)
LAB_CUDA_PARTS(absdiffs, true, ::lab_cuda::distance(x, y))
LAB_CUDA_PARTS(absdiffu, false, ::lab_cuda::distance(x, y))
LAB_CUDA_PARTS(maxs, true, x < y ? y : x)
LAB_CUDA_PARTS(maxu, false, x < y ? y : x)
LAB_CUDA_PARTS(mins, true, y < x ? y : x)
LAB_CUDA_PARTS(minu, false, y < x ? y : x)
// A comparison gives all bits (cmp) or one bit (set) of the part.
#define LAB_CUDA_COMPARE_PARTS(name, is_signed, op)     \
  LAB_CUDA_PARTS(cmp##name, is_signed, x op y ? -1 : 0) \
  LAB_CUDA_PARTS(set##name, is_signed, x op y ? 1 : 0)
LAB_CUDA_COMPARE_PARTS(eq, false, ==)
LAB_CUDA_COMPARE_PARTS(ne, false, !=)
LAB_CUDA_COMPARE_PARTS(ges, true, >=)
LAB_CUDA_COMPARE_PARTS(geu, false, >=)
LAB_CUDA_COMPARE_PARTS(gts, true, >)
LAB_CUDA_COMPARE_PARTS(gtu, false, >)
LAB_CUDA_COMPARE_PARTS(les, true, <=)
LAB_CUDA_COMPARE_PARTS(leu, false, <=)
LAB_CUDA_COMPARE_PARTS(lts, true, <)
LAB_CUDA_COMPARE_PARTS(ltu, false, <)
#undef LAB_CUDA_COMPARE_PARTS
#undef LAB_CUDA_PARTS
#define LAB_CUDA_PARTS_OF_ONE(parts)                                               \
  LAB_CUDA_DEFINE(unsigned, __vneg##parts, (unsigned a), __vsub##parts(0, a))      \
  LAB_CUDA_DEFINE(unsigned, __vnegss##parts, (unsigned a), __vsubss##parts(0, a))  \
  LAB_CUDA_DEFINE(unsigned, __vabs##parts, (unsigned a), __vabsdiffs##parts(a, 0)) \
  LAB_CUDA_DEFINE(unsigned, __vabsss##parts, (unsigned a), __vmaxs##parts(a, __vnegss##parts(a)))
LAB_CUDA_PARTS_OF_ONE(2)
LAB_CUDA_PARTS_OF_ONE(4)
#undef LAB_CUDA_PARTS_OF_ONE
LAB_CUDA_DEFINE(unsigned, __vsads2, (unsigned a, unsigned b),
                ::lab_cuda::sum_of_distances<16, true>(a, b))
LAB_CUDA_DEFINE(unsigned, __vsads4, (unsigned a, unsigned b),
                ::lab_cuda::sum_of_distances<8, true>(a, b))
LAB_CUDA_DEFINE(unsigned, __vsadu2, (unsigned a, unsigned b),
                ::lab_cuda::sum_of_distances<16, false>(a, b))
LAB_CUDA_DEFINE(unsigned, __vsadu4, (unsigned a, unsigned b),
                ::lab_cuda::sum_of_distances<8, false>(a, b))

LAB_CUDA_DEFINE(int, __dp4a, (int a, int b, int c),
                ::lab_cuda::dot<8, 4>(static_cast<unsigned>(a), static_cast<unsigned>(b), 0, c))
LAB_CUDA_DEFINE(unsigned, __dp4a, (unsigned a, unsigned b, unsigned c),
                ::lab_cuda::dot<8, 4>(a, b, 0, c))
LAB_CUDA_DEFINE(int, __dp4a, (char4 a, char4 b, int c),
                c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w)
LAB_CUDA_DEFINE(unsigned, __dp4a, (uchar4 a, uchar4 b, unsigned c),
                c + static_cast<unsigned>(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w))
LAB_CUDA_DEFINE(int, __dp2a_lo, (int a, int b, int c),
                ::lab_cuda::dot<16, 2>(static_cast<unsigned>(a), static_cast<unsigned>(b), 0, c))
LAB_CUDA_DEFINE(unsigned, __dp2a_lo, (unsigned a, unsigned b, unsigned c),
                ::lab_cuda::dot<16, 2>(a, b, 0, c))
LAB_CUDA_DEFINE(int, __dp2a_hi, (int a, int b, int c),
                ::lab_cuda::dot<16, 2>(static_cast<unsigned>(a), static_cast<unsigned>(b), 2, c))
LAB_CUDA_DEFINE(unsigned, __dp2a_hi, (unsigned a, unsigned b, unsigned c),
                ::lab_cuda::dot<16, 2>(a, b, 2, c))

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31));
}
LAB_CUDA_DEFINE(unsigned, __funnelshift_lc, (unsigned low, unsigned high, unsigned shift),
                shift >= 32 ? low : __funnelshift_l(low, high, shift))
LAB_CUDA_DEFINE(unsigned, __funnelshift_rc, (unsigned low, unsigned high, unsigned shift),
                shift >= 32 ? high : __funnelshift_r(low, high, shift))
LAB_CUDA_DEFINE(int, __mul24, (int x, int y), (x << 8 >> 8) * (y << 8 >> 8))
LAB_CUDA_DEFINE(unsigned, __umul24, (unsigned x, unsigned y), (x & 0xffffff) * (y & 0xffffff))
LAB_CUDA_DEFINE(int, __mulhi, (int x, int y), static_cast<int>(static_cast<long long>(x) * y >> 32))
LAB_CUDA_DEFINE(unsigned, __umulhi, (unsigned x, unsigned y),
                static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32))
LAB_CUDA_DEFINE(long long, __mul64hi, (long long x, long long y),
                static_cast<long long>(static_cast<__int128>(x) * y >> 64))
LAB_CUDA_DEFINE(unsigned long long, __umul64hi, (unsigned long long x, unsigned long long y),
                static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64))
LAB_CUDA_DEFINE(unsigned, __sad, (int x, int y, unsigned z),
                z + (x < y ? static_cast<unsigned>(y) - static_cast<unsigned>(x)
                           : static_cast<unsigned>(x) - static_cast<unsigned>(y)))
LAB_CUDA_DEFINE(unsigned, __usad, (unsigned x, unsigned y, unsigned z), z + (x < y ? y - x : x - y))
LAB_CUDA_DEFINE(int, __hadd, (int x, int y), static_cast<int>((static_cast<long long>(x) + y) >> 1))
LAB_CUDA_DEFINE(int, __rhadd, (int x, int y),
                static_cast<int>((static_cast<long long>(x) + y + 1) >> 1))
LAB_CUDA_DEFINE(unsigned, __uhadd, (unsigned x, unsigned y),
                static_cast<unsigned>((static_cast<unsigned long long>(x) + y) >> 1))
LAB_CUDA_DEFINE(unsigned, __urhadd, (unsigned x, unsigned y),
                static_cast<unsigned>((static_cast<unsigned long long>(x) + y + 1) >> 1))
/// The place of the n-th set bit, counted from `base`, upwards where `offset` is positive; ~0u
/// without one.
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
  if (offset == 0) return (mask >> (base & 31) & 1u) != 0 ? base : ~0u;
  const int step = offset > 0 ? 1 : -1;
  int left = offset > 0 ? offset : -offset;
  for (int bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step) {
    if ((mask >> bit & 1u) != 0 && --left == 0) return static_cast<unsigned>(bit);
  }
  return ~0u;
}

// ---------------------------------------------------------------- dynamic programming (DPX)

#define LAB_CUDA_DPX(T, suffix)                                                                   \
  LAB_CUDA_DEFINE(T, __vimax3_##suffix, (T a, T b, T c), a > b ? (a > c ? a : c) : b > c ? b : c) \
  LAB_CUDA_DEFINE(T, __vimin3_##suffix, (T a, T b, T c), a < b ? (a < c ? a : c) : b < c ? b : c) \
  LAB_CUDA_DEFINE(T, __viaddmax_##suffix, (T a, T b, T c), a + b > c ? a + b : c)                 \
  LAB_CUDA_DEFINE(T, __viaddmin_##suffix, (T a, T b, T c), a + b < c ? a + b : c)
LAB_CUDA_DPX(int, s32)
LAB_CUDA_DPX(unsigned, u32)
#undef LAB_CUDA_DPX
