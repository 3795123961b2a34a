/// @file
/// Instructions of PTX: what the source pass (ptx.py) makes of inline assembly.
#pragma once

#include <cuda_runtime.h>

namespace lab_cuda {
namespace ptx {

/// A value of another type: its bits where the sizes agree and a number is not meant, else its
/// lower bits.
template <class To, class From>
LAB_CUDA_FUNCTION To as(const From& from) {
  To to{};
  if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    to = static_cast<To>(from);
  } else {
    __builtin_memcpy(static_cast<void*>(&to), &from,
                     sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
  }
  return to;
}
template <class To, class From>
LAB_CUDA_FUNCTION void set(To&& to, const From& from) {
  to = as<std::remove_reference_t<To>>(from);
}
LAB_CUDA_DEFINE(void*, global, (unsigned long long address), reinterpret_cast<void*>(address))
LAB_CUDA_DEFINE(void*, global, (const void* address), const_cast<void*>(address))

template <class T>
LAB_CUDA_FUNCTION T fma(T a, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) return std::fma(a, b, c);
  return static_cast<T>(a * b + c);
}
LAB_CUDA_DEFINE(unsigned, tf32, (float x), (__float_as_uint(x) + 0x1000u) & 0xffffe000u)
LAB_CUDA_FUNCTION unsigned lop3(unsigned a, unsigned b, unsigned c, unsigned table) {
  unsigned result = 0;
  for (unsigned i = 0; i < 32; ++i) {
    result |= (table >> ((a >> i & 1u) << 2 | (b >> i & 1u) << 1 | (c >> i & 1u)) & 1u) << i;
  }
  return result;
}
template <class Whole, class Part>
LAB_CUDA_FUNCTION void pack(Whole& whole, const Part& low, const Part& high) {
  const Part parts[2] = {low, high};
  static_assert(sizeof whole == sizeof parts);
  __builtin_memcpy(static_cast<void*>(&whole), parts, sizeof whole);
}
template <class Whole, class Part>
LAB_CUDA_FUNCTION void unpack(const Whole& whole, Part& low, Part& high) {
  static_assert(sizeof whole == 2 * sizeof low);
  __builtin_memcpy(static_cast<void*>(&low), &whole, sizeof low);
  __builtin_memcpy(static_cast<void*>(&high), reinterpret_cast<const char*>(&whole) + sizeof low,
                   sizeof high);
}

/// Accesses to several elements by one instruction.
void check_aligned(const void* address, std::size_t size, Where where);
template <class T, class... To>
LAB_CUDA_FUNCTION void load(const void* from, Where where, To&&... to) {
  typedef T All __attribute__((vector_size(sizeof(T) * sizeof...(to)), may_alias));
  check_aligned(from, sizeof(All), where);
  const All value = *static_cast<const All*>(from);
  int i = 0;
  (set(to, value[i++]), ...);
}
template <class T, class... From>
LAB_CUDA_FUNCTION void store(void* to, Where where, const From&... from) {
  typedef T All __attribute__((vector_size(sizeof(T) * sizeof...(from)), may_alias));
  check_aligned(to, sizeof(All), where);
  All value;
  int i = 0;
  ((value[i++] = as<T>(from)), ...);
  *static_cast<All*>(to) = value;
}
void cp_async(void* to, const void* from, int size, int kept, Where where);

/// @{ See common/gpu/kernel_lab.hpp for the layouts of fragments.
void ldmatrix(unsigned* to, int count, bool transposed, const void* row, Where where);
template <class... To>
LAB_CUDA_FUNCTION void ldmatrix(bool transposed, const void* row, Where where, To&... to) {
  unsigned all[sizeof...(to)], *next = all;
  ldmatrix(all, sizeof...(to), transposed, row, where);
  (set(to, *next++), ...);
}
template <class... From>
LAB_CUDA_FUNCTION void stmatrix(bool transposed, void* row, Where where, const From&... from) {
  const unsigned all[] = {as<unsigned>(from)...};
  ::lab_cuda::stmatrix(row, all, sizeof...(from), transposed, where);
}
enum class Element { kHalf, kBfloat16, kTf32, kInt8 };
void mma(Element element, int k, const unsigned* a, const unsigned* b, const float* c, float* d,
         Where where);
void mma(Element element, int k, const unsigned* a, const unsigned* b, const unsigned* c,
         unsigned* d, Where where);
void mma(Element element, int k, const unsigned* a, const unsigned* b, const int* c, int* d,
         Where where);
/// @}

LAB_CUDA_DEFINE(void*, shared, (unsigned long long address), shared_pointer(address))
LAB_CUDA_DEFINE(void*, shared, (const void* address), const_cast<void*>(address))

/// The first of registers that lie side by side, as those of an array; null where they do not.
template <class T, class First, class... Rest>
__attribute__((noinline)) LAB_CUDA_UNWATCHED T* in_a_row(First& first, Rest&... rest) {
  T* const begin = reinterpret_cast<T*>(&first);
  const void* const all[] = {&rest..., nullptr};
  bool beside = sizeof first == sizeof(T);
  for (std::size_t i = 0; i < sizeof...(rest); ++i) beside = beside && all[i] == begin + i + 1;
  return beside ? begin : nullptr;
}
template <class... Sums>
LAB_CUDA_FUNCTION float* accumulators(Where where, Sums&... sums) {
  float* const begin = in_a_row<float>(sums...);
  if (begin == nullptr) scattered_registers(where);
  return begin;
}
template <class A, class B, class C, class D>
LAB_CUDA_FUNCTION const unsigned* fragment(A&& a, B&& b, C&& c, D&& d) {
  constexpr bool names = std::is_lvalue_reference_v<A> && std::is_lvalue_reference_v<B> &&
                         std::is_lvalue_reference_v<C> && std::is_lvalue_reference_v<D>;
  if constexpr (names) {
    if (const unsigned* const begin = in_a_row<const unsigned>(a, b, c, d)) return begin;
  }
  return keep_registers({as<unsigned>(a), as<unsigned>(b), as<unsigned>(c), as<unsigned>(d)});
}

}  // namespace ptx
}  // namespace lab_cuda
