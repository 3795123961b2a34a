// The functions that code compiled with -fsanitize=thread and -fsanitize-coverage=trace-pc calls:
// names and arguments are those of GCC and Clang, what they do is ours.
#include "common/lab/instrumentation.hpp"

#include <cstdint>
#include <cstring>

#define FA_ON(address, size, write, atomic, natural) \
  fa::lab::on_access(address, size, write, atomic, __builtin_return_address(0), natural)
#define FA_READ(name, size, natural)       \
  void __tsan_##name(void* p) {            \
    FA_ON(p, size, false, false, natural); \
  }
#define FA_WRITE(name, size, natural)     \
  void __tsan_##name(void* p) {           \
    FA_ON(p, size, true, false, natural); \
  }
#define FA_ACCESS(size)                        \
  FA_READ(read##size, size, true)              \
  FA_WRITE(write##size, size, true)            \
  FA_READ(unaligned_read##size, size, false)   \
  FA_WRITE(unaligned_write##size, size, false) \
  FA_READ(volatile_read##size, size, true)     \
  FA_WRITE(volatile_write##size, size, true)

#define FA_ATOMIC_CHANGE(bits, T, name, operation)          \
  T __tsan_atomic##bits##_##name(volatile T* p, T v, int) { \
    FA_ON(const_cast<T*>(p), sizeof(T), true, true, true);  \
    return operation(p, v, __ATOMIC_SEQ_CST);               \
  }
#define FA_ATOMIC_COMPARE(bits, T, name, weak)                                               \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile T* p, T* old, T v, int, int) {  \
    FA_ON(const_cast<T*>(p), sizeof(T), true, true, true);                                   \
    return __atomic_compare_exchange_n(p, old, v, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define FA_ATOMIC(bits, T)                                                              \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                              \
    FA_ON(const_cast<const T*>(p), sizeof(T), false, true, true);                       \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                        \
  }                                                                                     \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) {                           \
    FA_ON(const_cast<T*>(p), sizeof(T), true, true, true);                              \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                     \
  FA_ATOMIC_CHANGE(bits, T, exchange, __atomic_exchange_n)                              \
  FA_ATOMIC_CHANGE(bits, T, fetch_add, __atomic_fetch_add)                              \
  FA_ATOMIC_CHANGE(bits, T, fetch_sub, __atomic_fetch_sub)                              \
  FA_ATOMIC_CHANGE(bits, T, fetch_and, __atomic_fetch_and)                              \
  FA_ATOMIC_CHANGE(bits, T, fetch_or, __atomic_fetch_or)                                \
  FA_ATOMIC_CHANGE(bits, T, fetch_xor, __atomic_fetch_xor)                              \
  FA_ATOMIC_COMPARE(bits, T, strong, false)                                             \
  FA_ATOMIC_COMPARE(bits, T, weak, true)                                                \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T old, T v, int, int) {   \
    FA_ON(const_cast<T*>(p), sizeof(T), true, true, true);                              \
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return old;                                                                         \
  }

extern "C" {
void __sanitizer_cov_trace_pc() {
  fa::lab::on_block(__builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}
FA_ACCESS(1)
FA_ACCESS(2)
FA_ACCESS(4)
FA_ACCESS(8)
FA_ACCESS(16)
void __tsan_read_range(void* p, std::size_t size) {
  FA_ON(p, size, false, false, false);
}
void __tsan_write_range(void* p, std::size_t size) {
  FA_ON(p, size, true, false, false);
}
void* __tsan_memcpy(void* to, const void* from, std::size_t size) {
  FA_ON(from, size, false, false, false);
  FA_ON(to, size, true, false, false);
  return std::memcpy(to, from, size);
}
void* __tsan_memset(void* to, int byte, std::size_t size) {
  FA_ON(to, size, true, false, false);
  return std::memset(to, byte, size);
}
void* __tsan_memmove(void* to, const void* from, std::size_t size) {
  FA_ON(from, size, false, false, false);
  FA_ON(to, size, true, false, false);
  return std::memmove(to, from, size);
}
FA_ATOMIC(8, std::uint8_t)
FA_ATOMIC(16, std::uint16_t)
FA_ATOMIC(32, std::uint32_t)
FA_ATOMIC(64, std::uint64_t)
}
