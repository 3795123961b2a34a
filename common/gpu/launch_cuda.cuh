/// @file
/// The host's functions on a GPU. Include launch.cuh, not this file.
#pragma once

#include <cuda_runtime.h>

namespace fa::FA_TARGET {

/// Throws what a CUDA call reports.
/// @throws std::runtime_error that names the call and the place
inline void check_cuda(cudaError_t error, const char* call, const char* file,
                       int line) {
  if (error != cudaSuccess) {
    throw std::runtime_error(fmt::format("{}:{}: {}: {} ({})", file, line,
                                         call, cudaGetErrorString(error),
                                         cudaGetErrorName(error)));
  }
}
/// Makes a CUDA call; throws as check_cuda() when it reports an error.
#define FA_CUDA(call) \
  ::fa::FA_TARGET::check_cuda((call), #call, __FILE__, __LINE__)

/// What a program asks about the device.
struct DeviceProperties {
  std::string name;            ///< for people
  int compute_capability = 0;  ///< 90 for sm_90
  int multiprocessors = 0;     ///< of the GPU
  std::size_t shared_bytes =
      0;                     ///< dynamic shared memory of a block, at most
  std::size_t l2_bytes = 0;  ///< level 2 cache
};

/// The current GPU.
/// @throws std::runtime_error when there is none
inline DeviceProperties device_properties() {
  static const DeviceProperties properties = [] {
    int device = 0;
    FA_CUDA(cudaGetDevice(&device));
    cudaDeviceProp p;
    FA_CUDA(cudaGetDeviceProperties(&p, device));
    return DeviceProperties{p.name, 10 * p.major + p.minor,
                            p.multiProcessorCount, p.sharedMemPerBlockOptin,
                            static_cast<std::size_t>(p.l2CacheSize)};
  }();
  return properties;
}

/// Whether there is a GPU that can be used.
inline bool device_available() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

/// Direction of a copy.
enum class CopyKind { kToDevice, kToHost };

/// Memory of the device.
/// @throws std::runtime_error when there is not enough
inline void* device_allocate(std::size_t bytes) {
  void* result = nullptr;
  FA_CUDA(cudaMalloc(&result, std::max<std::size_t>(bytes, 1)));
  return result;
}
/// Gives memory of the device back; null is nothing.
inline void device_free(void* memory) {
  cudaFree(memory);  // at the end of a scope, perhaps after an error
}
/// Copies between host and device, after all launches so far.
/// @throws std::runtime_error for an error of one of them
inline void device_copy(void* to, const void* from, std::size_t bytes,
                        CopyKind kind) {
  FA_CUDA(cudaMemcpy(to, from, bytes,
                     kind == CopyKind::kToDevice ? cudaMemcpyHostToDevice
                                                 : cudaMemcpyDeviceToHost));
}
/// Sets memory of the device to 0.
inline void device_zero(void* memory, std::size_t bytes) {
  FA_CUDA(cudaMemset(memory, 0, bytes));
}
/// Sets all bytes to 0xff: NaN, as long as nobody writes.
inline void device_poison(void* memory, std::size_t bytes) {
  FA_CUDA(cudaMemset(memory, 0xff, bytes));
}
/// Waits for all launches.
/// @throws std::runtime_error for an error of one of them
inline void device_synchronize() {
  FA_CUDA(cudaDeviceSynchronize());
}

/// launch() without its checks.
template <class... Parameters>
void launch_unchecked(void (*kernel)(Parameters...), const lab::Launch& sizes,
                      Parameters... arguments) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (sizes.shared_bytes > 48 * 1024) {  // more must be asked for
    FA_CUDA(cudaFuncSetAttribute(function,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(sizes.shared_bytes)));
  }
  void* addresses[] = {&arguments..., nullptr};
  FA_CUDA(cudaLaunchKernel(function,
                           dim3(sizes.grid.x, sizes.grid.y, sizes.grid.z),
                           dim3(sizes.block.x, sizes.block.y, sizes.block.z),
                           addresses, sizes.shared_bytes, nullptr));
}

/// The median time of some work on the device, in milliseconds, each time with a cold level 2 cache.
/// @param work    launches kernels
/// @param repeats how often it is timed, after three runs that are not
inline std::optional<double> median_milliseconds(
    const std::function<void()>& work, int repeats = 20) {
  const std::size_t flush_bytes = 2 * device_properties().l2_bytes;
  void* const flush = device_allocate(flush_bytes);
  cudaEvent_t start, stop;
  FA_CUDA(cudaEventCreate(&start));
  FA_CUDA(cudaEventCreate(&stop));
  std::vector<float> times;
  for (int i = -3; i < repeats; ++i) {
    device_zero(flush, flush_bytes);
    FA_CUDA(cudaEventRecord(start));
    work();
    FA_CUDA(cudaEventRecord(stop));
    FA_CUDA(cudaEventSynchronize(stop));
    float milliseconds = 0;
    FA_CUDA(cudaEventElapsedTime(&milliseconds, start, stop));
    if (i >= 0) times.push_back(milliseconds);
  }
  FA_CUDA(cudaEventDestroy(start));
  FA_CUDA(cudaEventDestroy(stop));
  device_free(flush);
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

}  // namespace fa::FA_TARGET
