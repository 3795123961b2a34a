// The functions that code compiled with -fsanitize=thread and -fsanitize-coverage=trace-pc calls:
// names and arguments are those of GCC and Clang, what they do is ours.
#include "common/lab/instrumentation.hpp"

#include <cstdint>
#include <cstring>

namespace fa::lab {
namespace {

constexpr CodeAccess plain(bool write, bool natural) {
  CodeAccess result;
  result.write = write;
  result.natural = natural;
  return result;
}
constexpr CodeAccess of_volatile(bool write) {
  CodeAccess result = plain(write, true);
  result.is_volatile = true;
  result.use = {!write, write, false, false};
  return result;
}
// `order` is a memory order of C++, as the compiler numbers them.
CodeAccess atomic(bool reads, bool writes, int order) {
  const bool acquires = order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
  const bool releases = order >= __ATOMIC_RELEASE;
  CodeAccess result;
  result.write = writes;
  result.atomic = result.natural = true;
  result.use = {reads, writes, reads && acquires, writes && releases};
  return result;
}

CodeAccess exchange_of(int order) {
  CodeAccess result = atomic(true, true, order);
  result.needs_value = false;
  return result;
}

}  // namespace
}  // namespace fa::lab

#define FA_ON(address, size, ...) \
  fa::lab::on_access(address, size, __VA_ARGS__, __builtin_return_address(0))
// A constant: to make it in each call takes longer than all else that is done for a register.
#define FA_FUNCTION(name, size, ...)                        \
  void __tsan_##name##size(void* p) {                       \
    static constexpr fa::lab::CodeAccess how = __VA_ARGS__; \
    FA_ON(p, size, how);                                    \
  }
#define FA_ACCESS(size)                                                   \
  FA_FUNCTION(read, size, fa::lab::plain(false, true))                    \
  FA_FUNCTION(write, size, fa::lab::plain(true, true))                    \
  FA_FUNCTION(unaligned_read, size, fa::lab::plain(false, false))         \
  FA_FUNCTION(unaligned_write, size, fa::lab::plain(true, false))         \
  FA_FUNCTION(volatile_read, size, fa::lab::of_volatile(false))           \
  FA_FUNCTION(volatile_write, size, fa::lab::of_volatile(true))           \
  FA_FUNCTION(unaligned_volatile_read, size, fa::lab::of_volatile(false)) \
  FA_FUNCTION(unaligned_volatile_write, size, fa::lab::of_volatile(true))
#define FA_RANGE(address, size, write) \
  fa::lab::on_range(address, size, write, __builtin_return_address(0))

#define FA_ATOMIC_CHANGE(bits, T, name, operation, ...)           \
  T __tsan_atomic##bits##_##name(volatile T* p, T v, int order) { \
    FA_ON(const_cast<T*>(p), sizeof(T), fa::lab::__VA_ARGS__);    \
    return operation(p, v, __ATOMIC_SEQ_CST);                     \
  }
#define FA_ATOMIC_COMPARE(bits, T, name, weak)                                                    \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile T* p, T* old, T v, int order, int) { \
    FA_ON(const_cast<T*>(p), sizeof(T), fa::lab::atomic(true, true, order));                      \
    return __atomic_compare_exchange_n(p, old, v, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
  }
#define FA_ATOMIC(bits, T)                                                                  \
  T __tsan_atomic##bits##_load(const volatile T* p, int order) {                            \
    FA_ON(const_cast<const T*>(p), sizeof(T), fa::lab::atomic(true, false, order));         \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                            \
  }                                                                                         \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int order) {                         \
    FA_ON(const_cast<T*>(p), sizeof(T), fa::lab::atomic(false, true, order));               \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                               \
  }                                                                                         \
  FA_ATOMIC_CHANGE(bits, T, exchange, __atomic_exchange_n, exchange_of(order))              \
  FA_ATOMIC_CHANGE(bits, T, fetch_add, __atomic_fetch_add, atomic(true, true, order))       \
  FA_ATOMIC_CHANGE(bits, T, fetch_sub, __atomic_fetch_sub, atomic(true, true, order))       \
  FA_ATOMIC_CHANGE(bits, T, fetch_and, __atomic_fetch_and, atomic(true, true, order))       \
  FA_ATOMIC_CHANGE(bits, T, fetch_or, __atomic_fetch_or, atomic(true, true, order))         \
  FA_ATOMIC_CHANGE(bits, T, fetch_xor, __atomic_fetch_xor, atomic(true, true, order))       \
  FA_ATOMIC_COMPARE(bits, T, strong, false)                                                 \
  FA_ATOMIC_COMPARE(bits, T, weak, true)                                                    \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T old, T v, int order, int) { \
    FA_ON(const_cast<T*>(p), sizeof(T), fa::lab::atomic(true, true, order));                \
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
    return old;                                                                             \
  }

extern "C" {
void __sanitizer_cov_trace_pc() {
  fa::lab::on_block(__builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** p, void* table) {
  static constexpr fa::lab::CodeAccess how = fa::lab::plain(true, true);
  if (*p != table) FA_ON(p, sizeof *p, how);  // a destructor often leaves it as it is
}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}
FA_ACCESS(1)
FA_ACCESS(2)
FA_ACCESS(4)
FA_ACCESS(8)
FA_ACCESS(16)
void __tsan_read_range(void* p, std::size_t size) {
  FA_RANGE(p, size, false);
}
void __tsan_write_range(void* p, std::size_t size) {
  FA_RANGE(p, size, true);
}
// Clang calls the former; common/gpu/kernel_watched.hpp lets kernels call the latter.
#define FA_COPY(name, function)                              \
  void* name(void* to, const void* from, std::size_t size) { \
    FA_RANGE(from, size, false);                             \
    FA_RANGE(to, size, true);                                \
    return function(to, from, size);                         \
  }
#define FA_SET(name)                                 \
  void* name(void* to, int byte, std::size_t size) { \
    FA_RANGE(to, size, true);                        \
    return std::memset(to, byte, size);              \
  }
FA_COPY(__tsan_memcpy, std::memcpy)
FA_COPY(__tsan_memmove, std::memmove)
FA_SET(__tsan_memset)
FA_COPY(fa_watched_memcpy, std::memcpy)
FA_COPY(fa_watched_memmove, std::memmove)
FA_SET(fa_watched_memset)
FA_ATOMIC(8, std::uint8_t)
FA_ATOMIC(16, std::uint16_t)
FA_ATOMIC(32, std::uint32_t)
FA_ATOMIC(64, std::uint64_t)
}
