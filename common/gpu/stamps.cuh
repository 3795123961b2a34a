/// @file
/// The stamps of a GPU, for the host. Compiled by nvcc only.
#pragma once

#include <vector>

#include "common/gpu/hopper.cuh"
#include "common/gpu/launch.cuh"

namespace fa::FA_TARGET {

/// Forgets all stamps.
inline void clear_stamps() {
  if (stamp_memory() == nullptr) return;
  FA_CUDA(cudaMemset(stamp_memory(), 0, sizeof(uint2) * kStampedWarps * kStampSlots));
}

/// The stamps since clear_stamps(), each warp's together; none in a build without stamps. Waits for
/// the device.
inline std::vector<Stamp> take_stamps() {
  std::vector<Stamp> stamps;
  if (stamp_memory() == nullptr) return stamps;
  std::vector<uint2> slots(std::size_t{kStampedWarps} * kStampSlots);
  FA_CUDA(
      cudaMemcpy(slots.data(), stamp_memory(), sizeof(uint2) * slots.size(), cudaMemcpyDefault));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].y != 0) {
      stamps.push_back({static_cast<int>(i) / kStampSlots, slots[i].x, slots[i].y});
    }
  }
  return stamps;
}

}  // namespace fa::FA_TARGET
