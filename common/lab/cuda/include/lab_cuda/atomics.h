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

/// An integer of the size of T. Programs are compiled without strict aliasing.
template <class T, std::size_t bytes = sizeof(T)>
using BitsOf = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t,
                       std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;
template <class T>
LAB_CUDA_DEFINE(auto*, bits_at, (T * address),
                reinterpret_cast<BitsOf<T>*>(const_cast<std::remove_cv_t<T>*>(address)))

/// Stores without being seen: the access was seen before.
void store_unwatched(void* address, const void* bytes, std::size_t size);

/// A load and a store of a flag, with an order of C++; `of_block`: as next_atomic_of_block() says.
template <int order, bool of_block = false, class T>
LAB_CUDA_FUNCTION std::remove_cv_t<T> load_flag(T* from, Where where) {
  poll(const_cast<const std::remove_cv_t<T>*>(from), where);
  if constexpr (of_block) next_atomic_of_block();
  return bits_as<std::remove_cv_t<T>>(__atomic_load_n(bits_at(from), order));
}
template <int order, bool of_block = false, class T>
LAB_CUDA_FUNCTION void store_flag(T* to, Value<std::remove_cv_t<T>> value) {
  const auto bits = bits_as<BitsOf<T>>(value);
  if constexpr (of_block) next_atomic_of_block();
  __atomic_store_n(bits_at(to), bits, order);
}

/// What a thread reads before it tries to swap it by atomicCAS(), which finds a change.
template <class T>
LAB_CUDA_DEFINE(auto, before_swap, (T * address),
                bits_as<std::remove_cv_t<T>>(__atomic_load_n(bits_at(address), __ATOMIC_RELAXED)))

/// Changes memory to operation(old) in one step: threads of a kernel take turns, and none comes
/// between. What changes nothing is a look at a flag.
/// `order` is one of C++.
template <int order = __ATOMIC_RELAXED, class T, class Operation>
LAB_CUDA_FUNCTION T change(T* address, Operation operation, Where where) {
  using Plain = std::remove_volatile_t<T>;
  BitsOf<T> nothing = 0;
  __asm__("" : "+r"(nothing));  // clang makes an addition of 0 a load
  const Plain old = bits_as<Plain>(__atomic_fetch_add(bits_at(address), nothing, order));
  const Plain changed = operation(old);
  if (__builtin_memcmp(&changed, &old, sizeof old) == 0) {
    poll(address, where);
  } else {
    store_unwatched(bits_at(address), &changed, sizeof changed);
  }
  return old;
}

/// The same with a value that does not depend on the old one.
template <int order = __ATOMIC_RELAXED, class T>
LAB_CUDA_FUNCTION auto exchange_value(T* address, Value<std::remove_volatile_t<T>> value,
                                      Where where) {
  const auto bits = bits_as<BitsOf<T>>(value);
  const auto old = __atomic_exchange_n(bits_at(address), bits, order);
  if (old == bits) poll(address, where);
  return bits_as<std::remove_volatile_t<T>>(old);
}

}  // namespace lab_cuda

#define LAB_CUDA_VALUE(name) ::lab_cuda::Value<std::remove_volatile_t<T>> name
#define LAB_CUDA_ATOMIC(name, scope, result, ...)                                             \
  template <class T>                                                                          \
  LAB_CUDA_FUNCTION std::remove_volatile_t<T> name(T* address, __VA_ARGS__, LAB_CUDA_WHERE) { \
    scope;                                                                                    \
    return result;                                                                            \
  }
#define LAB_CUDA_SCOPES(name, result, ...)                                               \
  LAB_CUDA_ATOMIC(name, , result, __VA_ARGS__)                                           \
  LAB_CUDA_ATOMIC(name##_block, ::lab_cuda::next_atomic_of_block(), result, __VA_ARGS__) \
  LAB_CUDA_ATOMIC(name##_system, , result, __VA_ARGS__)
#define LAB_CUDA_CHANGE(name, expression, ...)                                                    \
  LAB_CUDA_SCOPES(                                                                                \
      name,                                                                                       \
      ::lab_cuda::change(                                                                         \
          address,                                                                                \
          [&](std::remove_volatile_t<T> old) -> std::remove_volatile_t<T> { return expression; }, \
          lab_where),                                                                             \
      __VA_ARGS__)
LAB_CUDA_CHANGE(atomicAdd, old + value, LAB_CUDA_VALUE(value))
LAB_CUDA_CHANGE(atomicSub, old - value, LAB_CUDA_VALUE(value))
LAB_CUDA_CHANGE(atomicMin, value < old ? value : old, LAB_CUDA_VALUE(value))
LAB_CUDA_CHANGE(atomicMax, old < value ? value : old, LAB_CUDA_VALUE(value))
LAB_CUDA_CHANGE(atomicAnd, (old & value), LAB_CUDA_VALUE(value))
LAB_CUDA_CHANGE(atomicOr, old | value, LAB_CUDA_VALUE(value))
LAB_CUDA_CHANGE(atomicXor, old ^ value, LAB_CUDA_VALUE(value))
LAB_CUDA_CHANGE(atomicInc, old >= value ? 0 : old + 1, LAB_CUDA_VALUE(value))
LAB_CUDA_CHANGE(atomicDec, old == 0 || old > value ? value : old - 1, LAB_CUDA_VALUE(value))
LAB_CUDA_CHANGE(atomicCAS, old == expected ? value : old, LAB_CUDA_VALUE(expected),
                LAB_CUDA_VALUE(value))
LAB_CUDA_SCOPES(atomicExch, ::lab_cuda::exchange_value(address, value, lab_where),
                LAB_CUDA_VALUE(value))
#undef LAB_CUDA_CHANGE
#undef LAB_CUDA_SCOPES
#undef LAB_CUDA_ATOMIC
#undef LAB_CUDA_VALUE
// Of vectors each component is added on its own.
LAB_CUDA_FUNCTION float2 atomicAdd(float2* address, float2 value, LAB_CUDA_WHERE) {
  return {atomicAdd(&address->x, value.x, lab_where), atomicAdd(&address->y, value.y, lab_where)};
}
LAB_CUDA_FUNCTION float4 atomicAdd(float4* address, float4 value, LAB_CUDA_WHERE) {
  return {atomicAdd(&address->x, value.x, lab_where), atomicAdd(&address->y, value.y, lab_where),
          atomicAdd(&address->z, value.z, lab_where), atomicAdd(&address->w, value.w, lab_where)};
}
