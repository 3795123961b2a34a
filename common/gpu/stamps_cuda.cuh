/// @file
/// FA_STAMP(), the mark that makes a stamp; see stamps.hpp. This is the only place that asks for
/// FA_STAMPS, beside target.hpp.
#pragma once

#include "common/gpu/stamps.hpp"
#include "common/gpu/target.hpp"

namespace fa::FA_TARGET {

/// Warps that can have stamps.
constexpr int kStampedWarps = 16;
/// Stamps of a warp: one for every kStampCycles cycles of 2^18.
constexpr int kStampSlots = 1 << 16;
/// See kStampSlots.
constexpr int kStampCycles = 4;

}  // namespace fa::FA_TARGET

#if defined(__CUDACC__) && defined(FA_STAMPS)

/// Marks an event for a timeline.
#define FA_STAMP(kind, detail) \
  ::fa::FA_TARGET::stamp(StampKind::kind, static_cast<std::uint32_t>(detail))

namespace fa::FA_TARGET {

/// A stamp's place follows from its time, so a warp needs no counter. An empty place is 0.
static __device__ uint2 stamp_slots[kStampedWarps * kStampSlots];

/// Stores the clock in the place of its time, on SM 0 only. All active lanes store the same.
__device__ inline void stamp(StampKind kind, std::uint32_t detail) {
#if defined(__CUDA_ARCH__)
  std::uint32_t clock, sm;
  asm volatile("mov.u32 %0, %%clock;\n" : "=r"(clock)::"memory");
  asm("mov.u32 %0, %%smid;\n" : "=r"(sm));
  const std::uint32_t slot = threadIdx.x / 32 * kStampSlots + clock / kStampCycles % kStampSlots;
  // No branch: it would part wgmma.fence from the wgmma that follows.
  asm volatile(
      "{\n.reg .pred first;\nsetp.eq.u32 first, %0, 0;\n"
      "@first st.global.v2.u32 [%1], {%2, %3};\n}\n" ::"r"(sm),
      "l"(__cvta_generic_to_global(stamp_slots + slot)), "r"(clock),
      "r"(static_cast<std::uint32_t>(kind) | detail << 8)
      : "memory");
#else  // the host's pass of the compiler
  (void)kind;
  (void)detail;
#endif
}

/// Where the stamps are.
inline void* stamp_memory() {
  void* slots = nullptr;
  cudaGetSymbolAddress(&slots, stamp_slots);
  return slots;
}

}  // namespace fa::FA_TARGET

#else

/// Marks an event for a timeline: nothing in this build.
#define FA_STAMP(kind, detail) static_cast<void>(0)

namespace fa::FA_TARGET {

/// Where the stamps are: nowhere in this build.
inline void* stamp_memory() {
  return nullptr;
}

}  // namespace fa::FA_TARGET

#endif
