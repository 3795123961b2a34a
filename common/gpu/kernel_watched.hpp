/// @file
/// Included before everything else where kernels are compiled for the watched lab (fa_watch() in
/// Course.cmake): copies and fills of memory then call the lab, which the compiler's own
/// instrumentation does not do.
#pragma once

#if !defined(FA_LAB_WATCHED)
#elif defined(__clang__)
// It makes calls of what it has not replaced by loads and stores, also of copies of a struct.
__asm__(
    ".set memcpy, fa_watched_memcpy\n"
    ".set memmove, fa_watched_memmove\n"
    ".set memset, fa_watched_memset\n");
#else
// g++ makes stores of such a call with a known size, unseen. A copy of 1 to 16 bytes becomes one
// load and one store, which are seen.
#include <cstring>

extern "C" {
void* fa_watched_memcpy(void* to, const void* from, std::size_t size);
void* fa_watched_memmove(void* to, const void* from, std::size_t size);
void* fa_watched_memset(void* to, int byte, std::size_t size);

#define FA_SEEN_BY_THE_COMPILER(size)                           \
  (__builtin_constant_p(size) &&                                \
   ((size) == 1 || (size) == 2 || (size) == 4 || (size) == 8 || \
    (size) == 16))
#define FA_INSTEAD \
  extern inline __attribute__((always_inline, gnu_inline, artificial))

FA_INSTEAD void* memcpy(void* to, const void* from,
                        std::size_t size) noexcept {
  return FA_SEEN_BY_THE_COMPILER(size) ? __builtin_memcpy(to, from, size)
                                       : fa_watched_memcpy(to, from, size);
}
FA_INSTEAD void* memmove(void* to, const void* from,
                         std::size_t size) noexcept {
  return FA_SEEN_BY_THE_COMPILER(size) ? __builtin_memmove(to, from, size)
                                       : fa_watched_memmove(to, from, size);
}
FA_INSTEAD void* memset(void* to, int byte, std::size_t size) noexcept {
  return fa_watched_memset(to, byte, size);
}
}
// What std::copy() and others call.
#define __builtin_memcpy memcpy
#define __builtin_memmove memmove
#define __builtin_memset memset
#endif
