/// @file
/// What every header here needs: CUDA's qualifiers, vector types and built-in variables, and the
/// functions of the lab behind them. A file in CUDA sees CUDA's names and `lab_cuda`, no others.
#pragma once

#include <cassert>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <math.h>
#include <new>
#include <stdlib.h>
#include <type_traits>
#include <utility>

// Calls in a kernel are inlined: compilers hand structures to functions without the calls by which
// the lab sees loads and stores.
#define __global__ __attribute__((flatten))
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)
#define __shared__ static __thread __attribute__((used))
#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_FEAT_SM90_ALL 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 4
#define CUDART_VERSION 12040
#define CUDA_VERSION 12040
#define CUDART_CB
// Guards of CUDA's headers, by which others see what has been included.
#define __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_API_H__
#define __DRIVER_TYPES_H__
#define __VECTOR_TYPES_H__
#define LAB_CUDA_FUNCTION __attribute__((always_inline)) inline
// A function that is one expression.
#define LAB_CUDA_DEFINE(result, name, parameters, ...) \
  LAB_CUDA_FUNCTION result name parameters {           \
    return __VA_ARGS__;                                \
  }
// Functions that stand for one instruction say themselves what they access.
#define LAB_CUDA_UNWATCHED __attribute__((no_sanitize("thread")))
#define LAB_CUDA_WHERE ::lab_cuda::Where lab_where = ::lab_cuda::here()

// ---------------------------------------------------------------- vector types

#define LAB_CUDA_VECTORS(T, name, align2, align4)                                \
  struct name##1 {                                                               \
    T x;                                                                         \
  };                                                                             \
  struct __align__(align2) name##2 {                                             \
    T x, y;                                                                      \
  };                                                                             \
  struct name##3 {                                                               \
    T x, y, z;                                                                   \
  };                                                                             \
  struct __align__(align4) name##4 {                                             \
    T x, y, z, w;                                                                \
  };                                                                             \
  LAB_CUDA_DEFINE(constexpr name##1, make_##name##1, (T x), {x})                 \
  LAB_CUDA_DEFINE(constexpr name##2, make_##name##2, (T x, T y), {x, y})         \
  LAB_CUDA_DEFINE(constexpr name##3, make_##name##3, (T x, T y, T z), {x, y, z}) \
  LAB_CUDA_DEFINE(constexpr name##4, make_##name##4, (T x, T y, T z, T w), {x, y, z, w})
LAB_CUDA_VECTORS(signed char, char, 2, 4)
LAB_CUDA_VECTORS(unsigned char, uchar, 2, 4)
LAB_CUDA_VECTORS(short, short, 4, 8)
LAB_CUDA_VECTORS(unsigned short, ushort, 4, 8)
LAB_CUDA_VECTORS(int, int, 8, 16)
LAB_CUDA_VECTORS(unsigned, uint, 8, 16)
LAB_CUDA_VECTORS(long, long, 16, 16)
LAB_CUDA_VECTORS(unsigned long, ulong, 16, 16)
LAB_CUDA_VECTORS(long long, longlong, 16, 16)
LAB_CUDA_VECTORS(unsigned long long, ulonglong, 16, 16)
LAB_CUDA_VECTORS(float, float, 8, 16)
LAB_CUDA_VECTORS(double, double, 16, 16)
#undef LAB_CUDA_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned size_x = 1, unsigned size_y = 1, unsigned size_z = 1)
      : x(size_x), y(size_y), z(size_z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

// ---------------------------------------------------------------- the lab

namespace lab_cuda {

/// A line of the source.
struct Where {
  const char* file;
  int line;
};
/// That of the call which has it as a default argument.
__attribute__((always_inline)) constexpr Where here(const char* file = __builtin_FILE(),
                                                    int line = __builtin_LINE()) {
  return {file, line};
}

/// What a kernel can ask about its thread: laid out as fa::lab::Thread.
struct Thread {
  uint3 index, block_index;
  dim3 block_size, grid_size;
  int number, lane, rank, place;
};
/// The running one: the same through all of a kernel.
__attribute__((const)) const Thread& thread();
/// Whether a kernel runs.
bool in_kernel();

/// What is passed on to the engine as it is: see common/lab/engine.hpp and async.hpp.
#define LAB_CUDA_PASSED_ON(X)                                                      \
  X(sync_block, (Where where), sync_block(location(where)))                        \
  X(sync_warp, (unsigned mask, Where where), sync_warp(mask, location(where)))     \
  X(absent_source, (unsigned mask, int source, Where where),                       \
    absent_source(mask, source, location(where)))                                  \
  X(wait_for_previous_grids, (), wait_for_grids())                                 \
  X(fence, (bool for_all_blocks), fence_memory(for_all_blocks))                    \
  X(poll, (const void* flag, Where where), poll(flag, location(where)))            \
  X(note_access, (const void* address, std::size_t size, bool write, Where where), \
    note_access(address, size, write, location(where)))                            \
  X(copy_async, (void* to, const void* from, std::size_t size, Where where),       \
    copy_async(to, from, size, location(where)))                                   \
  X(commit_copies, (), commit_copies())                                            \
  X(wait_copies, (int pending), wait_copies(pending))                              \
  X(init_barrier, (void* barrier, int arrivals, Where where),                      \
    init_barrier(barrier, arrivals, location(where)))                              \
  X(invalidate_barrier, (void* barrier), invalidate_barrier(barrier))              \
  X(expect_at_barrier, (void* barrier, long long bytes, Where where),              \
    expect_at_barrier(barrier, bytes, location(where)))                            \
  X(wait_at_barrier, (void* barrier, int parity, Where where),                     \
    wait_at_barrier(barrier, parity, location(where)))                             \
  X(fence_barriers, (), fence_barriers())                                          \
  X(commit_stores, (), commit_stores())                                            \
  X(wait_stores, (int pending, bool arrived), wait_stores(pending, arrived))       \
  X(wgmma_fence, (), fence_registers(nullptr))                                     \
  X(wgmma_commit, (), commit_wgmma())                                              \
  X(cluster_arrive, (Where where), arrive_at_cluster(location(where)))             \
  X(cluster_wait, (Where where), wait_at_cluster(location(where)))                 \
  X(set_registers, (int registers, Where where), set_registers(registers, location(where)))
#define LAB_CUDA_DECLARE(name, parameters, call) void name parameters;
LAB_CUDA_PASSED_ON(LAB_CUDA_DECLARE)
#undef LAB_CUDA_DECLARE
LAB_CUDA_DEFINE(void, fence, (), fence(true))
/// @{ What kernel.cpp and runtime.cpp add.
/// All lanes of the warp meet; nothing else is ordered by it.
void sync_lanes(Where where);
/// What lanes have brought to an exchange, 32 bytes of each.
struct Deposits {
  const unsigned char* bytes;
  unsigned lanes;  ///< that have: of the mask those that exist
};
Deposits exchange(unsigned mask, const void* bytes, std::size_t size, Where where);
unsigned active_lanes();
/// A load through the cache for what no thread writes during the launch.
void reads_constant(const void* address, std::size_t size, Where where);
/// The next atomic access of this thread is atomic to threads of its block only.
void next_atomic_of_block();
/// The last `zeros` bytes are zeros.
void copy_async_zeros(void* to, const void* from, std::size_t size, std::size_t zeros, Where where);
/// The part of one thread of a group in a copy by all of them.
void copy_by_group(void* to, const void* from, std::size_t bytes, unsigned long long rank,
                   unsigned long long threads, Where where);
void named_barrier(int id, int threads, bool waits, Where where);
void* dynamic_shared();
std::size_t dynamic_shared_bytes();
/// Room for a static variable in the shared memory of each block, for programs with clusters and
/// copies of tensors; where it begins.
std::size_t place_shared(std::size_t bytes, std::size_t alignment);
void* shared_at(std::size_t offset);
void name_shared(const volatile void* variable, std::size_t bytes, const char* name);
unsigned shared_address(const void* pointer);
void* shared_pointer(unsigned long long address);
bool is_shared(const void* pointer);
bool is_global(const void* pointer);
void sync_grid(Where where);
/// Whether the launch that runs may have a barrier of its grid.
bool is_cooperative();
/// @}

/// @{ malloc(), free() and new of kernels; on the host those of the system.
void* heap_malloc(std::size_t bytes);
void heap_free(void* memory);
enum Heap { heap_of_kernels };
/// @}

/// Ends the launch with a message. @throws always
[[noreturn]] void stop_kernel(const char* kind, const char* message, Where where);
/// A kernel calls a function of the host.
void calls_of_host(const char* name, Where where);
/// assert() that does not hold, in a kernel or on the host.
[[noreturn]] void assert_failed(const char* condition, const char* function, Where where);

/// @{ Conversions between float32 and the two formats of 16 bits; Rounding is that of a number that
/// does not fit.
enum class Rounding { kNearest, kZero, kUp, kDown };
float half_to_float(std::uint16_t half);
std::uint16_t float_to_half(float x, Rounding rounding = Rounding::kNearest);
std::uint16_t float_to_bfloat16(float x, Rounding rounding = Rounding::kNearest);
/// @}

/// The same bytes as another type.
template <class To, class From>
LAB_CUDA_FUNCTION To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof to);
  return to;
}

/// What the source pass writes into functions that no kernel may call.
#define LAB_CUDA_OF_HOST(name) \
  if (::lab_cuda::in_kernel()) ::lab_cuda::calls_of_host(name, ::lab_cuda::here());

/// Bytes that a lane can bring to exchange().
inline constexpr std::size_t kDeposit = 48;

}  // namespace lab_cuda

inline void* operator new(std::size_t bytes, ::lab_cuda::Heap) noexcept {
  return ::lab_cuda::heap_malloc(bytes);
}
inline void* operator new[](std::size_t bytes, ::lab_cuda::Heap) noexcept {
  return ::lab_cuda::heap_malloc(bytes);
}

#define threadIdx (::lab_cuda::thread().index)
#define blockIdx (::lab_cuda::thread().block_index)
#define blockDim (::lab_cuda::thread().block_size)
#define gridDim (::lab_cuda::thread().grid_size)
/// Lanes of a warp.
constexpr int warpSize = 32;
