/// @file
/// The functions of kernel.cuh, and CUDA's own functions, in the lab. Include kernel.cuh, not this
/// file.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "common/lab/engine.hpp"
#include "common/lab/record.hpp"
#include "common/tensor/dtype.hpp"

// CUDA's qualifiers. A block never leaves its thread of the operating system, so shared memory can
// be thread-local there. "used": otherwise the compiler replaces an array that is never written by
// zeros. alignas: the language does not allow it behind `static`.
#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static thread_local __attribute__((used))
#define alignas(...) __attribute__((aligned(::fa::lab::alignment<__VA_ARGS__>())))
#define threadIdx (::fa::lab::current->index)
#define blockIdx (::fa::lab::current->block_index)
#define blockDim (::fa::lab::current->block_size)
#define gridDim (::fa::lab::current->grid_size)
// Functions that stand for one instruction report their accesses to the observer themselves.
#define FA_UNWATCHED __attribute__((no_sanitize("thread")))

namespace fa::FA_TARGET {

using lab::caller_location;
using SourceLocation = lab::SourceLocation;
using half = ::fa::half;
using bfloat16 = ::fa::bfloat16;
using e4m3 = ::fa::e4m3;
using e5m2 = ::fa::e5m2;

/// CUDA's vector type.
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

// ---------------------------------------------------------------- CUDA's own functions

inline void __syncthreads(SourceLocation location = caller_location())
{ lab::sync_block(location); }
inline void __syncwarp(unsigned mask = 0xffffffffu, SourceLocation location = caller_location())
{ lab::sync_warp(mask, location); }

/// What the lanes of a mask give each other, until the next exchange of the warp.
template <class T>
class Exchange {
 public:
  Exchange(unsigned mask, const T& own, const SourceLocation& location)
      : deposits_(lab::exchange(mask, &own, sizeof own, location)) {
    static_assert(sizeof(T) <= lab::kDepositSize);
  }
  /// The lanes that have given something: of the mask those that exist and have
  /// not returned.
  unsigned lanes() const { return deposits_.lanes; }
  bool has(int lane) const { return (lanes() >> lane & 1u) != 0; }
  /// What a lane has given.
  FA_UNWATCHED T of_lane(int lane) const {
    T result;
    std::memcpy(static_cast<void*>(&result),
                &deposits_.bytes[static_cast<std::size_t>(lane) * lab::kDepositSize], sizeof(T));
    return result;
  }
  /// All of it.
  const lab::Deposits& deposits() const { return deposits_; }

 private:
  const lab::Deposits& deposits_;
};

/// The same for an operation in which all lanes of the warp must take part.
template <class T>
class WarpExchange : public Exchange<T> {
 public:
  WarpExchange(const T& own, const SourceLocation& location)
      : Exchange<T>(0xffffffffu, own, location) {
    if (this->lanes() != 0xffffffffu) {
      lab::missing_lanes(this->lanes(), location);
    }
  }
};

/// The value of lane `source(own lane)`; of what a kernel says only 5 bits
/// count. That of a lane which is not in the
/// mask, does not exist or has returned is undefined: here all its bits are 1,
/// which is NaN for a float.
template <class T, class Source>
T shuffle(unsigned mask, T value, Source source, const SourceLocation& location) {
  const Exchange<T> values(mask, value, location);
  const int from = source(lab::current->lane);
  if (values.has(from)) return values.of_lane(from);
  lab::absent_source(mask, from, location);
  T result;
  std::memset(static_cast<void*>(&result), 0xff, sizeof(T));
  return result;
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              SourceLocation location = caller_location()) {
  return shuffle(
      mask, value, [=](int lane) { return lane / width * width + (source & (width - 1)); },
      location);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32,
                  SourceLocation location = caller_location()) {
  return shuffle(
      mask, value,
      [=](int lane) {
        const int from = lane ^ (distance & 31);
        return from / width <= lane / width ? from : lane;
      },
      location);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int distance, int width = 32,
                   SourceLocation location = caller_location()) {
  return shuffle(
      mask, value,
      [=](int lane) {
        const int from = lane + (distance & 31);
        return from / width == lane / width ? from : lane;
      },
      location);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int distance, int width = 32,
                 SourceLocation location = caller_location()) {
  return shuffle(
      mask, value,
      [=](int lane) {
        const int from = lane - (distance & 31);
        return from >= lane / width * width ? from : lane;
      },
      location);
}
/// The lanes of a mask for which a predicate holds, and those that take part.
struct Votes {
  unsigned yes = 0, all = 0;
};
inline Votes votes(unsigned mask, int predicate, const SourceLocation& location) {
  const Exchange<bool> given(mask, predicate != 0, location);
  Votes result;
  result.all = given.lanes();
  for (int lane = 0; lane < lab::kWarpSize; ++lane) {
    if (given.has(lane) && given.of_lane(lane)) result.yes |= 1u << lane;
  }
  return result;
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              SourceLocation location = caller_location()) {
  return votes(mask, predicate, location).yes;
}
inline int __any_sync(unsigned mask, int predicate, SourceLocation location = caller_location()) {
  return votes(mask, predicate, location).yes != 0;
}
inline int __all_sync(unsigned mask, int predicate, SourceLocation location = caller_location()) {
  const Votes given = votes(mask, predicate, location);
  return given.yes == given.all;
}

/// Blocks run on several threads, so atomics must be real ones.
__forceinline__ float atomicAdd(float* address, float value) {
  lab::note_change(lab::Step::Kind::kAdd, sizeof value);
  float old = 0, sum = 0;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  do {
    sum = old + value;
  } while (
      !__atomic_compare_exchange(address, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
__forceinline__ int atomicAdd(int* address, int value,
                              SourceLocation location = caller_location()) {
  if (value == 0) lab::poll(address, location);
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
__forceinline__ unsigned atomicAdd(unsigned* address, unsigned value,
                                   SourceLocation location = caller_location()) {
  if (value == 0) {
    lab::note_look();
    lab::poll(address, location);
  }
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

/// x y, rounded before anything is added to it, as all are here: see -ffp-contract in Course.cmake.
inline float __fmul_rn(float x, float y) {
  return x * y;
}
/// x y + z with one rounding.
inline float __fmaf_rn(float x, float y, float z) {
  return std::fma(x, y, z);
}

/// The place of the lowest bit that is set, from 1; 0 for none.
inline int __ffs(int bits) {
  return __builtin_ffs(bits);
}

/// Zeros above the highest bit that is set; 32 for 0.
inline int __clz(int bits) {
  return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits));
}

/// Byte i of the result is the one, of the eight of x and y, that bits 4 i to 4 i + 2 of `selector`
/// name.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7u) & 0xffu) << 8 * i;
  }
  return result;
}

/// The bits of a float32, and back.
inline std::uint32_t __float_as_uint(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __uint_as_float(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// ---------------------------------------------------------------- the functions of kernel.cuh

template <class T>
__forceinline__ float to_float(T x) {
  return static_cast<float>(x);
}
/// Always inlined, with the result in a register: the observer would not see a store of what a call
/// returns straight to memory.
template <class T>
__forceinline__ T from_float(float x) {
  const T number = static_cast<T>(x);
  using Narrow = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>;
  std::conditional_t<sizeof(T) == 4, std::uint32_t, Narrow> bits;
  static_assert(sizeof bits == sizeof(T));
  std::memcpy(&bits, &number, sizeof bits);
  T result;
  std::memcpy(static_cast<void*>(&result), &bits, sizeof bits);
  return result;
}

template <class T>
std::uint32_t pack2(float low, float high) {
  const T pair[2] = {from_float<T>(low), from_float<T>(high)};
  std::uint32_t result;
  std::memcpy(&result, pair, sizeof result);
  return result;
}

/// Always inlined: the observer would not see loads of the arguments of a call.
template <class T>
__forceinline__ std::uint32_t pack2(T low, T high) {
  static_assert(sizeof(T) == 2);
  const T pair[2] = {low, high};
  std::uint32_t result;
  std::memcpy(&result, pair, sizeof result);
  return result;
}
template <class T>
std::uint32_t pack4(float x, float y, float z, float w) {
  static_assert(sizeof(T) == 1);
  const T four[4] = {from_float<T>(x), from_float<T>(y), from_float<T>(z), from_float<T>(w)};
  std::uint32_t result;
  std::memcpy(&result, four, sizeof result);
  return result;
}
inline void unpack_e4m3(std::uint32_t (&to)[2], std::uint32_t codes) {
  const auto value = [=](int i) {
    return to_float(e4m3::from_code(static_cast<std::uint8_t>(codes >> 8 * i)));
  };
  for (int i = 0; i < 2; ++i) to[i] = pack2<half>(value(2 * i), value(2 * i + 1));
}
/// An access of so many bytes that is one instruction of a GPU needs an address that is a multiple
/// of them.
template <std::size_t bytes>
__forceinline__ void check_aligned(const void* address, SourceLocation location) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
    lab::misaligned(address, bytes, location);
  }
}

/// 4 bytes as one access. aligned(1), also below: a misaligned access is for check_aligned() to
/// report, not for the processor.
typedef std::uint32_t Bytes4 __attribute__((may_alias, aligned(1)));
template <class T>
__forceinline__ std::uint32_t load_pair(const T* address,
                                        SourceLocation location = caller_location()) {
  static_assert(sizeof(T) == 2);
  check_aligned<sizeof(Bytes4)>(address, location);
  return *reinterpret_cast<const Bytes4*>(address);
}
template <class T>
__forceinline__ void store_pair(T* address, std::uint32_t pair,
                                SourceLocation location = caller_location()) {
  static_assert(sizeof(T) == 2);
  check_aligned<sizeof(Bytes4)>(address, location);
  *reinterpret_cast<Bytes4*>(address) = pair;
}

inline float exp2_approx(float x) {
  lab::note_exponential();
  return std::exp2(x);
}
inline float log_approx(float x) {
  return std::log(x);
}
inline float inverse_approx(float x) {
  return 1 / x;
}
template <class R>
R tanh_approx(R x) {
  return std::tanh(x);
}

/// 16 bytes as one access: a vector type of the compiler, so that the watched lab sees one too.
typedef float Bytes16 __attribute__((vector_size(16), may_alias, aligned(1)));

template <class T>
__forceinline__ float4 load4(const T* address, SourceLocation location = caller_location()) {
  check_aligned<sizeof(Bytes16)>(address, location);
  const Bytes16 value = *reinterpret_cast<const Bytes16*>(address);
  return {value[0], value[1], value[2], value[3]};
}
template <class T>
__forceinline__ void store4(T* address, float4 value, SourceLocation location = caller_location()) {
  check_aligned<sizeof(Bytes16)>(address, location);
  *reinterpret_cast<Bytes16*>(address) = Bytes16{value.x, value.y, value.z, value.w};
}

/// 8 bytes as one access.
typedef float Bytes8 __attribute__((vector_size(8), may_alias, aligned(1)));
__forceinline__ void load2(float (&to)[2], const float* address,
                           SourceLocation location = caller_location()) {
  check_aligned<sizeof(Bytes8)>(address, location);
  const Bytes8 value = *reinterpret_cast<const Bytes8*>(address);
  to[0] = value[0];
  to[1] = value[1];
}
__forceinline__ void store2(float* address, float x, float y,
                            SourceLocation location = caller_location()) {
  check_aligned<sizeof(Bytes8)>(address, location);
  lab::note_change(lab::Step::Kind::kWrite, sizeof(Bytes8));
  *reinterpret_cast<Bytes8*>(address) = Bytes8{x, y};
}

inline void __threadfence() {
  lab::fence_memory();
}
inline void __threadfence_block() {
  lab::fence_memory(false);
}
inline void grid_dependency_wait() {
  lab::wait_for_grids();
}
inline void launch_dependents() {}  // launches in the lab never overlap
__forceinline__ void atomic_add_release(unsigned* counter, unsigned value,
                                        SourceLocation location = caller_location()) {
  lab::fence_memory();
  atomicAdd(counter, value, location);
}
__forceinline__ unsigned atomic_add_acquire(unsigned* counter, unsigned value,
                                            SourceLocation location = caller_location()) {
  if (value == 0) {
    lab::note_look();
    lab::poll(counter, location);
  }
  return __atomic_fetch_add(counter, value, __ATOMIC_ACQUIRE);
}
__forceinline__ unsigned load_acquire(const unsigned* counter,
                                      SourceLocation location = caller_location()) {
  lab::note_look();
  lab::poll(counter, location);
  return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}
__forceinline__ void atomic_add4(float* address, float4 value,
                                 SourceLocation location = caller_location()) {
  check_aligned<sizeof(float4)>(address, location);
  atomicAdd(address, value.x);
  atomicAdd(address + 1, value.y);
  atomicAdd(address + 2, value.z);
  atomicAdd(address + 3, value.w);
}

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(lab::dynamic_shared());
}

inline void cp_async16(void* shared, const void* global, bool valid = true,
                       SourceLocation location = caller_location()) {
  lab::copy_async(shared, valid ? global : nullptr, 16, location);
}
inline void cp_async4(void* shared, const void* global, bool valid = true,
                      SourceLocation location = caller_location()) {
  lab::copy_async(shared, valid ? global : nullptr, 4, location);
}
inline void cp_async_commit() {
  lab::commit_copies();
}
template <int pending>
void cp_async_wait() {
  lab::wait_copies(pending);
}

/// Both forms of ldmatrix. To the observer each lane reads the row that it names.
template <bool transposed>
FA_UNWATCHED void load_matrices(std::uint32_t (&r)[4], const void* row,
                                const SourceLocation& location) {
  lab::note_access(row, 16, false, location);
  const WarpExchange<const void*> rows(row, location);
  const int lane = lab::current->lane, g = lane / 4, t = lane % 4;
  for (int m = 0; m < 4; ++m) {
    std::uint16_t pair[2];
    for (int i = 0; i < 2; ++i) {
      const int of_row = transposed ? 2 * t + i : g;
      const int of_col = transposed ? g : 2 * t + i;
      pair[i] = static_cast<const std::uint16_t*>(rows.of_lane(8 * m + of_row))[of_col];
    }
    std::memcpy(&r[m], pair, sizeof r[m]);
  }
}
inline void ldmatrix_x4(std::uint32_t (&r)[4], const void* row,
                        SourceLocation location = caller_location()) {
  load_matrices<false>(r, row, location);
}
inline void ldmatrix_x4_transposed(std::uint32_t (&r)[4], const void* row,
                                   SourceLocation location = caller_location()) {
  load_matrices<true>(r, row, location);
}

template <class T>
void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                  SourceLocation location = caller_location()) {
  std::uint32_t a_bits[4], b_bits[2];
  std::copy(a, a + 4, a_bits);
  std::copy(b, b + 2, b_bits);
  const auto own = lab::fragments_of_pairs(a_bits, b_bits, std::is_same_v<T, half>);
  const WarpExchange<lab::Fragments> fragments(own, location);
  float sums[4];
  std::copy(d, d + 4, sums);
  lab::add_products(fragments.deposits(), sums);
  std::copy(sums, sums + 4, d);
}

inline std::uint32_t tf32_nearest(std::uint32_t x) {
  return (x + 0x1000u) & 0xffffe000u;
}
inline std::uint32_t tf32_truncated(std::uint32_t x) {
  return x & 0xffffe000u;
}

inline void mma_m16n8k8(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                        SourceLocation location = caller_location()) {
  std::uint32_t a_bits[4], b_bits[2];
  std::copy(a, a + 4, a_bits);
  std::copy(b, b + 2, b_bits);
  const auto own = lab::fragments_of_tf32(a_bits, b_bits, location);
  const WarpExchange<lab::Fragments> fragments(own, location);
  float sums[4];
  std::copy(d, d + 4, sums);
  lab::add_tf32_products(fragments.deposits(), sums);
  std::copy(sums, sums + 4, d);
}

}  // namespace fa::FA_TARGET
