#include "common/gpu/device.hpp"

#include <limits>
#include <stdexcept>

#include <fmt/format.h>

namespace fa {

std::string missing(const DeviceProperties& device, const Needs& needs) {
  // sm_90a and sm_100a are for one compute capability, all others are for newer ones, too.
  const bool specific = needs.architecture == 90 || needs.architecture == 100;
  const int capability = device.compute_capability;
  if (capability != 0) {
    const std::string what = fmt::format("needs sm_{}{} ({})", needs.architecture,
                                         specific ? "a" : "", needs.instructions);
    if (specific ? capability != needs.architecture : capability < needs.architecture) {
      return fmt::format("{}; {} is sm_{}", what, device.name, capability);
    }
    if (device.code_architecture == 0) {
      return fmt::format("is not compiled for {}, which is sm_{}; configure the build anew",
                         device.name, capability);
    }
    if (specific ? !device.has_specific_code : device.code_architecture < needs.architecture) {
      return fmt::format("{}; this build has code for sm_{} only, see CMAKE_CUDA_ARCHITECTURES",
                         what, device.code_architecture);
    }
  }
  if (needs.shared_bytes > device.shared_bytes) {
    return fmt::format("needs {} bytes of shared memory in a block; {} has {}", needs.shared_bytes,
                       device.name, device.shared_bytes);
  }
  return "";
}

std::vector<KernelResources>*& noted_resources() {
  thread_local std::vector<KernelResources>* noted = nullptr;
  return noted;
}

std::vector<KernelResources> resources_of(const std::function<void()>& work) {
  std::vector<KernelResources> result;
  noted_resources() = &result;
  struct End {
    ~End() { noted_resources() = nullptr; }
  } end;
  work();
  return result;
}

void check_launch(const Launch& launch, const DeviceProperties& device) {
  if (launch.grid.count() < 1 || launch.grid.x > 2147483647u || launch.grid.y > 65535 ||
      launch.grid.z > 65535) {
    throw std::invalid_argument(
        fmt::format("a grid of {} x {} x {} blocks; allowed are 1 to 2147483647, 65535 and 65535",
                    launch.grid.x, launch.grid.y, launch.grid.z));
  }
  if (launch.block.count() < 1 || launch.block.count() > kMaxThreads || launch.block.z > 64) {
    throw std::invalid_argument(
        fmt::format("a block of {} x {} x {} threads; allowed are 1 to {} in all, and 64 in z",
                    launch.block.x, launch.block.y, launch.block.z, kMaxThreads));
  }
  if (launch.cluster < 1 || launch.cluster > kMaxCluster ||
      launch.grid.x % static_cast<unsigned>(launch.cluster) != 0 ||
      (launch.cluster > 1 && launch.block.count() % 32 != 0)) {
    throw std::invalid_argument(
        fmt::format("clusters of {} blocks of {} threads in a grid of {} blocks in x; "
                    "allowed are 1 to {} blocks of whole warps, in a multiple of them",
                    launch.cluster, launch.block.count(), launch.grid.x, kMaxCluster));
  }
  if (launch.shared_bytes > device.shared_bytes) {
    throw std::invalid_argument(
        fmt::format("a block with {} bytes of dynamic shared memory; {} has {}",
                    launch.shared_bytes, device.name, device.shared_bytes));
  }
}

std::int64_t& taken_bytes() {
  thread_local std::int64_t bytes = 0;
  return bytes;
}

std::size_t buffer_bytes(std::int64_t count, std::size_t size) {
  if (count < 0) {
    throw std::invalid_argument(fmt::format("a buffer of {} elements", count));
  }
  const auto each = static_cast<std::int64_t>(size);
  if (count > std::numeric_limits<std::int64_t>::max() / each) {
    throw std::runtime_error(fmt::format("a buffer of {} elements: no memory is so large", count));
  }
  return static_cast<std::size_t>(count * each);
}

}  // namespace fa
