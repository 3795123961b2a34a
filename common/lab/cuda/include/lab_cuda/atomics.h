/// @file
/// Atomic operations. Templates, so that functions of the user with the same names are preferred,
/// such as an atomicAdd() of doubles for old GPUs.
#pragma once

#include <lab_cuda/base.h>

namespace lab_cuda {

template <class T>
struct Same {
  using type = T;
};
template <class T>
using Value = typename Same<T>::type;  ///< a parameter that deduces nothing

template <std::size_t bytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  using type = std::uint8_t;
};
template <>
struct BitsOf<2> {
  using type = std::uint16_t;
};
template <>
struct BitsOf<4> {
  using type = std::uint32_t;
};
template <>
struct BitsOf<8> {
  using type = std::uint64_t;
};

/// Stores without being seen: the access was seen before.
void store_unwatched(void* address, const void* bytes, std::size_t size);

/// A load and a store of a flag, with an order of C++; `of_block`: as next_atomic_of_block() says.
template <int order, bool of_block = false, class T>
LAB_CUDA_FUNCTION std::remove_cv_t<T> load_flag(T* from, Where where) {
  using Plain = std::remove_cv_t<T>;
  typedef typename BitsOf<sizeof(T)>::type Bits __attribute__((may_alias));
  poll(const_cast<const Plain*>(from), where);
  if constexpr (of_block) next_atomic_of_block();
  const Bits bits =
      __atomic_load_n(reinterpret_cast<const Bits*>(const_cast<const Plain*>(from)), order);
  Plain value;
  __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}
template <int order, bool of_block = false, class T>
LAB_CUDA_FUNCTION void store_flag(T* to, Value<std::remove_cv_t<T>> value) {
  typedef typename BitsOf<sizeof(T)>::type Bits __attribute__((may_alias));
  Bits bits;
  __builtin_memcpy(&bits, static_cast<const void*>(&value), sizeof bits);
  if constexpr (of_block) next_atomic_of_block();
  __atomic_store_n(reinterpret_cast<Bits*>(const_cast<std::remove_cv_t<T>*>(to)), bits, order);
}

/// What a thread reads before it tries to swap it by atomicCAS(), which finds a change.
template <class T>
LAB_CUDA_FUNCTION auto before_swap(T* address) {
  using Plain = std::remove_cv_t<T>;
  typedef typename BitsOf<sizeof(T)>::type Bits __attribute__((may_alias));
  const Bits bits = __atomic_load_n(
      reinterpret_cast<const Bits*>(const_cast<const Plain*>(address)), __ATOMIC_RELAXED);
  Plain value;
  __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}

/// Changes memory to operation(old) in one step: threads of a kernel take turns, and none comes
/// between. What changes nothing is a look at a flag.
/// `order` is one of C++.
template <int order = __ATOMIC_RELAXED, class T, class Operation>
LAB_CUDA_FUNCTION T change(T* address, Operation operation, Where where) {
  using Plain = std::remove_volatile_t<T>;
  typedef typename BitsOf<sizeof(T)>::type Bits __attribute__((may_alias));
  Bits* const bits = reinterpret_cast<Bits*>(const_cast<Plain*>(address));
  Bits nothing = 0;
  __asm__("" : "+r"(nothing));  // clang makes an addition of 0 a load
  const Bits old_bits = __atomic_fetch_add(bits, nothing, order);
  Plain old;
  __builtin_memcpy(static_cast<void*>(&old), &old_bits, sizeof old);
  const Plain changed = operation(old);
  if (__builtin_memcmp(&changed, &old, sizeof old) == 0) {
    poll(address, where);
  } else {
    store_unwatched(bits, &changed, sizeof changed);
  }
  return old;
}

/// The same with a value that does not depend on the old one.
template <int order = __ATOMIC_RELAXED, class T>
LAB_CUDA_FUNCTION auto exchange_value(T* address, Value<std::remove_volatile_t<T>> value,
                                      Where where) {
  using Plain = std::remove_volatile_t<T>;
  typedef typename BitsOf<sizeof(T)>::type Bits __attribute__((may_alias));
  Bits bits;
  __builtin_memcpy(&bits, static_cast<const void*>(&value), sizeof bits);
  const Bits old_bits =
      __atomic_exchange_n(reinterpret_cast<Bits*>(const_cast<Plain*>(address)), bits, order);
  if (old_bits == bits) poll(address, where);
  Plain old;
  __builtin_memcpy(static_cast<void*>(&old), &old_bits, sizeof old);
  return old;
}

}  // namespace lab_cuda

#define LAB_CUDA_ATOMIC(name, scope, expression)                                                \
  template <class T>                                                                            \
  LAB_CUDA_FUNCTION std::remove_volatile_t<T> name(                                             \
      T* address, ::lab_cuda::Value<std::remove_volatile_t<T>> value, LAB_CUDA_WHERE) {         \
    scope;                                                                                      \
    return ::lab_cuda::change(                                                                  \
        address,                                                                                \
        [&](std::remove_volatile_t<T> old) -> std::remove_volatile_t<T> { return expression; }, \
        lab_where);                                                                             \
  }
#define LAB_CUDA_ATOMIC_SCOPES(name, expression)                                \
  LAB_CUDA_ATOMIC(name, , expression)                                           \
  LAB_CUDA_ATOMIC(name##_block, ::lab_cuda::next_atomic_of_block(), expression) \
  LAB_CUDA_ATOMIC(name##_system, , expression)
LAB_CUDA_ATOMIC_SCOPES(atomicAdd, old + value)
LAB_CUDA_ATOMIC_SCOPES(atomicSub, old - value)
LAB_CUDA_ATOMIC_SCOPES(atomicMin, value < old ? value : old)
LAB_CUDA_ATOMIC_SCOPES(atomicMax, old < value ? value : old)
LAB_CUDA_ATOMIC_SCOPES(atomicAnd, old& value)
LAB_CUDA_ATOMIC_SCOPES(atomicOr, old | value)
LAB_CUDA_ATOMIC_SCOPES(atomicXor, old ^ value)
LAB_CUDA_ATOMIC_SCOPES(atomicInc, old >= value ? 0 : old + 1)
LAB_CUDA_ATOMIC_SCOPES(atomicDec, old == 0 || old > value ? value : old - 1)
#undef LAB_CUDA_ATOMIC_SCOPES
#undef LAB_CUDA_ATOMIC

#define LAB_CUDA_EXCHANGE(name, scope)                                                  \
  template <class T>                                                                    \
  LAB_CUDA_FUNCTION std::remove_volatile_t<T> name(                                     \
      T* address, ::lab_cuda::Value<std::remove_volatile_t<T>> value, LAB_CUDA_WHERE) { \
    scope;                                                                              \
    return ::lab_cuda::exchange_value(address, value, lab_where);                       \
  }
LAB_CUDA_EXCHANGE(atomicExch, )
LAB_CUDA_EXCHANGE(atomicExch_block, ::lab_cuda::next_atomic_of_block())
LAB_CUDA_EXCHANGE(atomicExch_system, )
#undef LAB_CUDA_EXCHANGE

#define LAB_CUDA_COMPARE(name, scope)                                                          \
  template <class T>                                                                           \
  LAB_CUDA_FUNCTION std::remove_volatile_t<T> name(                                            \
      T* address, ::lab_cuda::Value<std::remove_volatile_t<T>> expected,                       \
      ::lab_cuda::Value<std::remove_volatile_t<T>> value, LAB_CUDA_WHERE) {                    \
    scope;                                                                                     \
    return ::lab_cuda::change(                                                                 \
        address, [&](std::remove_volatile_t<T> old) { return old == expected ? value : old; }, \
        lab_where);                                                                            \
  }
LAB_CUDA_COMPARE(atomicCAS, )
LAB_CUDA_COMPARE(atomicCAS_block, ::lab_cuda::next_atomic_of_block())
LAB_CUDA_COMPARE(atomicCAS_system, )
#undef LAB_CUDA_COMPARE
// Of vectors each component is added on its own.
LAB_CUDA_FUNCTION float2 atomicAdd(float2* address, float2 value, LAB_CUDA_WHERE) {
  return {atomicAdd(&address->x, value.x, lab_where), atomicAdd(&address->y, value.y, lab_where)};
}
LAB_CUDA_FUNCTION float4 atomicAdd(float4* address, float4 value, LAB_CUDA_WHERE) {
  return {atomicAdd(&address->x, value.x, lab_where), atomicAdd(&address->y, value.y, lab_where),
          atomicAdd(&address->z, value.z, lab_where), atomicAdd(&address->w, value.w, lab_where)};
}
