/// @file
/// Stamps on a GPU, see stamps.hpp. FA_STAMP() is the only place that asks for FA_STAMPS.
#pragma once

#if !defined(FA_STAMPS)

/// Marks an event for a timeline: nothing in this build.
#define FA_STAMP(kind, detail) static_cast<void>(0)

#else

#include <vector>

#include "common/gpu/stamps.hpp"

/// Marks an event for a timeline.
#define FA_STAMP(kind, detail) \
  ::fa::FA_TARGET::stamp(StampKind::kind, static_cast<std::uint32_t>(detail))

namespace fa::FA_TARGET {

/// Warps that can have stamps, and stamps of each: one for every 4 cycles of 2^18.
constexpr int kStampedWarps = 16, kStampSlots = 1 << 16, kStampCycles = 4;
/// A stamp's place follows from its time, so a warp needs no counter. An empty place is 0.
static __device__ uint2 stamp_slots[kStampedWarps * kStampSlots];

/// Stores the clock in the place of its time. Of all SMs only SM 0 does so. The lanes that are
/// active store the same.
__device__ inline void stamp(StampKind kind, std::uint32_t detail) {
#if defined(__CUDA_ARCH__)
  std::uint32_t clock, sm;
  asm volatile("mov.u32 %0, %%clock;\n" : "=r"(clock)::"memory");
  asm("mov.u32 %0, %%smid;\n" : "=r"(sm));
  if (sm == 0) {
    const std::uint32_t slot = threadIdx.x / 32 * kStampSlots +
                               clock / kStampCycles % kStampSlots;
    const uint2 value{clock, static_cast<std::uint32_t>(kind) | detail << 8};
    asm volatile("st.global.v2.u32 [%0], {%1, %2};\n" ::"l"(
                     __cvta_generic_to_global(stamp_slots + slot)),
                 "r"(value.x), "r"(value.y)
                 : "memory");
  }
#else
  (void)kind;
  (void)detail;
#endif
}

/// Forgets all stamps.
inline void clear_stamps() {
  void* slots = nullptr;
  FA_CUDA(cudaGetSymbolAddress(&slots, stamp_slots));
  FA_CUDA(cudaMemset(slots, 0, sizeof stamp_slots));
}
/// The stamps since clear_stamps(), each warp's together. Waits for the device.
inline std::vector<Stamp> take_stamps() {
  std::vector<uint2> slots(std::size_t{kStampedWarps} * kStampSlots);
  FA_CUDA(
      cudaMemcpyFromSymbol(slots.data(), stamp_slots, sizeof stamp_slots));
  std::vector<Stamp> stamps;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].y != 0) {
      stamps.push_back(
          {static_cast<int>(i) / kStampSlots, slots[i].x, slots[i].y});
    }
  }
  return stamps;
}

}  // namespace fa::FA_TARGET

#endif
