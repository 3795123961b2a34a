/// @file
/// What can be said about a device and about a kernel on it; the same words for a GPU and for the lab.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace fa {

/// What a program asks about the device.
struct DeviceProperties {
  std::string name;            ///< for people
  int compute_capability = 0;  ///< 90 for sm_90; 0 in the lab
  int multiprocessors = 0;     ///< of a GPU; for the lab see sm_count()
  std::size_t shared_bytes =
      0;                        ///< dynamic shared memory of a block, at most
  std::size_t l2_bytes = 0;     ///< level 2 cache; 0 in the lab
  double clock_hz = 0;          ///< the highest of the multiprocessors
  double memory_bandwidth = 0;  ///< bytes per second by clock and width
  std::string toolkit;          ///< version of CUDA, "13.0"
};

/// What one kernel takes of a multiprocessor, as it was launched. Registers, spills and what follows from them are the
/// compiler's: known on a GPU, 0 in the lab.
struct KernelResources {
  int registers = 0;  ///< of a thread
  std::size_t shared_bytes =
      0;  ///< of a block, static and dynamic; in the lab only dynamic
  std::size_t spilled_bytes =
      0;  ///< of a thread: what does not fit registers, in local memory
  int blocks = 0;        ///< on one multiprocessor at the same time
  double occupancy = 0;  ///< warps there, as a share of the most possible
  int threads = 0;       ///< of a block
  int stages = 0;        ///< of its pipeline of copies; 0: it has none
  /// Registers of a thread that each warp asked for (setmaxnreg), while it ran; empty where none did. Known in the
  /// lab, 0 for a warp that did not ask.
  std::vector<int> asked_registers{};
};

/// What a kernel computes with.
enum class Arithmetic {
  kFloat32,       ///< multiplications and additions of the ordinary cores
  kTensorCores16  ///< tensor cores, 16-bit factors, dense, sums in float32
};

/// Operations per second at the highest clock, a multiplication with an addition counted as two; nothing where the
/// rate of the compute capability is not listed here.
/// Source: CUDA C++ Programming Guide, "Arithmetic Instructions"; NVIDIA's white papers on the A100 and the H100.
inline std::optional<double> peak_flops(const DeviceProperties& device,
                                        Arithmetic arithmetic) {
  const bool tensor = arithmetic == Arithmetic::kTensorCores16;
  double per_clock = 0;  // of one multiprocessor
  switch (device.compute_capability) {
    case 80:
      per_clock = tensor ? 2048 : 128;
      break;
    case 90:
      per_clock = tensor ? 4096 : 256;
      break;
    default:
      return std::nullopt;
  }
  return per_clock * device.multiprocessors * device.clock_hz;
}

}  // namespace fa
