/// @file
/// Properties of a device and of a kernel on it; the same types for a GPU and for the lab.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/gpu/launch_sizes.hpp"

namespace fa {

/// What a program asks about the device.
struct DeviceProperties {
  std::string name;              ///< for people
  int compute_capability = 0;    ///< 90 for sm_90; 0 in the lab
  int sm_count = 0;              ///< of a GPU; for the lab see sm_count()
  std::size_t shared_bytes = 0;  ///< dynamic shared memory of a block, at most
  std::size_t l2_bytes = 0;      ///< level 2 cache; 0 in the lab
  double clock_hz = 0;           ///< the highest of the SMs
  double memory_bandwidth = 0;   ///< bytes per second by clock and width
  std::string toolkit;           ///< version of CUDA, "13.0"
  /// What the code of this program that runs on the GPU was compiled for: 80 for sm_80, also on a
  /// newer GPU; 0 where there is no code for this GPU, and in the lab.
  int code_architecture = 0;
  bool has_specific_code = false;  ///< whether it is for this architecture only: sm_90a, sm_100a
};

/// What a kernel needs of a GPU.
struct Needs {
  int architecture = 0;           ///< 80 for sm_80; 90 for sm_90a; 100 for sm_100a; 0: any
  const char* instructions = "";  ///< that only this architecture has
  std::size_t shared_bytes = 0;   ///< of a block

  /// The same with shared memory.
  constexpr Needs with_shared(std::size_t bytes) const {
    return {architecture, instructions, bytes};
  }
};
/// Kernels with cp_async16() or cp_async4().
inline constexpr Needs kNeedsCpAsync{80, "cp.async"};
/// Kernels with mma_m16n8k16().
inline constexpr Needs kNeedsMma{80, "mma.m16n8k16"};
/// Kernels with the functions of hopper.cuh.
inline constexpr Needs kNeedsHopper{90, "TMA and wgmma"};
/// Kernels with the functions of blackwell.cuh.
inline constexpr Needs kNeedsBlackwell{100, "tcgen05"};

/// Why a device cannot run a kernel, in words that follow "it"; empty where it can. The lab can run
/// all that fits into its shared memory.
std::string missing(const DeviceProperties& device, const Needs& needs);
/// Whether a device can run a kernel.
inline bool can_run(const DeviceProperties& device, const Needs& needs) {
  return missing(device, needs).empty();
}

/// What one kernel takes of an SM (streaming multiprocessor), as it was launched. Registers, spills
/// and what follows from them are the compiler's: known on a GPU, 0 in the lab.
struct KernelResources {
  int registers = 0;              ///< of a thread
  std::size_t shared_bytes = 0;   ///< of a block, static and dynamic; in the lab only dynamic
  std::size_t spilled_bytes = 0;  ///< of a thread: what does not fit registers, in local memory
  int blocks = 0;                 ///< on one SM at the same time
  double occupancy = 0;           ///< warps there, as a share of the most possible
  int threads = 0;                ///< of a block
  int stages = 0;                 ///< of its pipeline of copies; 0: it has none
  /// Registers of a thread that each warp asked for (setmaxnreg), while it ran; empty where none
  /// did. Known in the lab, 0 for a warp that did not ask.
  std::vector<int> asked_registers{};
};

/// Where this thread's launches are recorded; null: nowhere.
std::vector<KernelResources>*& noted_resources();
/// What the kernels that some work launches take, in their order.
/// @throws std::runtime_error when the device reports an error
std::vector<KernelResources> resources_of(const std::function<void()>& work);

/// Checks the sizes of a launch: threads and blocks in each direction, blocks of a cluster, bytes
/// of dynamic shared memory.
/// @throws std::invalid_argument for sizes that no GPU takes, or more shared memory than the
/// device has
void check_launch(const Launch& launch, const DeviceProperties& device);

/// Bytes of all buffers that this thread has allocated, freed ones included: the difference between
/// two calls is what was allocated between them.
std::int64_t& taken_bytes();
/// Bytes of a buffer of so many elements of this size.
/// @throws std::invalid_argument for fewer than none
/// @throws std::runtime_error when no memory is so large
std::size_t buffer_bytes(std::int64_t count, std::size_t size);

/// Bits behind the point of the largest summand that wgmma keeps of products of 8-bit operands, and
/// of what it adds them to. Source: the test of this constant in common/gpu/tests/wgmma_test.cuh, on
/// an H200. DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.3.2 has 14 bits, with the one
/// before the point.
inline constexpr int kFp8FractionBits = 13;

/// What a kernel computes with.
enum class Arithmetic {
  kFloat32,        ///< multiplications and additions of the ordinary cores
  kTensorCores16,  ///< tensor cores, 16-bit operands, dense, sums in float32
  kTensorCores8    ///< the same with 8-bit operands
};

/// Operations per second at the highest clock, a multiplication with an addition counted as two;
/// nothing where the rate of the compute capability is not listed here.
/// Source: CUDA C++ Programming Guide, "Arithmetic Instructions"; NVIDIA's white papers on the A100
/// and the H100.
inline std::optional<double> peak_flops(const DeviceProperties& device, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kTensorCores8) {
    if (device.compute_capability != 90) return std::nullopt;
    return 2 * *peak_flops(device, Arithmetic::kTensorCores16);
  }
  const bool tensor = arithmetic == Arithmetic::kTensorCores16;
  double per_clock = 0;  // of one SM
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
  return per_clock * device.sm_count * device.clock_hz;
}

}  // namespace fa
