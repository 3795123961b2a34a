/// @file
/// The host's side of a step in one file: CUDA's own calls, and a message for each error. It
/// replaces what common/gpu has for the same names.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#include "common/gpu/launch_sizes.hpp"
#include "common/gpu/parts.hpp"

namespace fa::FA_TARGET {

/// Ends the program when a CUDA call failed.
inline void check_cuda(cudaError_t error, const char* call, int line) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(error));
  std::exit(2);
}
/// Makes a CUDA call.
#define FA_CUDA(call) check_cuda((call), #call, __LINE__)

/// A stream; the default one.
struct Stream {
  cudaStream_t native = nullptr;
};

/// What kernels' launches ask of a GPU.
struct DeviceProperties {
  int compute_capability = 0;  ///< 90 for sm_90
  int sm_count = 0;
  std::size_t shared_bytes = 0;  ///< of a block, at most
  std::size_t l2_bytes = 0;
  double clock_hz = 0;
  double memory_bandwidth = 0;  ///< bytes per second by clock and width
};

/// The current GPU.
inline const DeviceProperties& device_properties() {
  static const DeviceProperties properties = [] {
    cudaDeviceProp p;
    int clock_khz, memory_khz, memory_bits;
    FA_CUDA(cudaGetDeviceProperties(&p, 0));
    FA_CUDA(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
    FA_CUDA(cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, 0));
    FA_CUDA(cudaDeviceGetAttribute(&memory_bits, cudaDevAttrGlobalMemoryBusWidth, 0));
    return DeviceProperties{10 * p.major + p.minor,   p.multiProcessorCount,
                            p.sharedMemPerBlockOptin, static_cast<std::size_t>(p.l2CacheSize),
                            1e3 * clock_khz,          2e3 * memory_khz * memory_bits / 8};
  }();
  return properties;
}

/// What a kernel needs of a GPU: here its shared memory only.
struct Needs {
  std::size_t shared_bytes = 0;  ///< of a block
  constexpr Needs with_shared(std::size_t bytes) const { return {bytes}; }
};
constexpr Needs kNeedsCpAsync{}, kNeedsMma{}, kNeedsHopper{}, kNeedsBlackwell{};
/// Whether a GPU has so much.
inline bool can_run(const DeviceProperties& device, const Needs& needs) {
  return needs.shared_bytes <= device.shared_bytes;
}

/// Launches a kernel on a stream: kernel<<<grid, block, shared_bytes, stream>>>(arguments...), as
/// a call that also takes clusters and programmatic dependent launch.
template <class... Parameters, class... Arguments>
void launch(const Stream& stream, void (*kernel)(Parameters...), const Launch& sizes,
            const Arguments&... arguments) {
  if (sizes.shared_bytes > 48 * 1024) {  // more must be asked for
    FA_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(sizes.shared_bytes)));
  }
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(sizes.grid.x, sizes.grid.y, sizes.grid.z);
  config.blockDim = dim3(sizes.block.x, sizes.block.y, sizes.block.z);
  config.dynamicSmemBytes = sizes.shared_bytes;
  config.stream = stream.native;
  config.attrs = attributes;
  if (sizes.with_pdl) {
    cudaLaunchAttribute& pdl = attributes[config.numAttrs++];
    pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    pdl.val.programmaticStreamSerializationAllowed = 1;
  }
  if (sizes.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(sizes.cluster), 1, 1};
  }
  FA_CUDA(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}
/// The same on the default stream.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& sizes, const Arguments&... arguments) {
  launch(Stream{}, kernel, sizes, arguments...);
}

/// Memory of the GPU, all bytes 0xff: NaN until it is written. The program's end frees it.
template <class T>
T* device_array(std::size_t count) {
  void* memory = nullptr;
  FA_CUDA(cudaMalloc(&memory, count * sizeof(T)));
  FA_CUDA(cudaMemset(memory, 0xff, count * sizeof(T)));
  return static_cast<T*>(memory);
}
/// The same, all bytes 0.
template <class T>
T* device_zeros(std::size_t count) {
  T* const memory = device_array<T>(count);
  FA_CUDA(cudaMemset(memory, 0, count * sizeof(T)));
  return memory;
}
/// Elements on the GPU, converted from float.
template <class T>
T* to_device(const std::vector<float>& values) {
  const std::vector<T> converted(values.begin(), values.end());
  T* const memory = device_array<T>(values.size());
  FA_CUDA(cudaMemcpy(memory, converted.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return memory;
}
/// Elements of the GPU, converted to float, after all launches have ended.
template <class T>
std::vector<float> from_device(const T* memory, std::size_t count) {
  std::vector<T> values(count);
  FA_CUDA(cudaMemcpy(values.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
  return std::vector<float>(values.begin(), values.end());
}

/// The median of the times of some calls in milliseconds, after calls that warm up. Each call works
/// on more than the L2 holds, so that none finds its inputs there.
//! [milliseconds]
template <class Run>
float milliseconds(Run run) {
  constexpr int warm_up = 5, count = 25;
  cudaEvent_t begin, end;
  FA_CUDA(cudaEventCreate(&begin));
  FA_CUDA(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < warm_up + count; ++i) {
    FA_CUDA(cudaEventRecord(begin));
    run();
    FA_CUDA(cudaEventRecord(end));
    FA_CUDA(cudaEventSynchronize(end));
    float time;
    FA_CUDA(cudaEventElapsedTime(&time, begin, end));
    if (i >= warm_up) times.push_back(time);
  }
  std::sort(times.begin(), times.end());
  return times[count / 2];
}
//! [milliseconds]

/// Random elements from -1 to 1 that an element of 16 bits holds exactly: multiples of 1/64.
inline std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = 1664525 * seed + 1013904223;
    value = static_cast<float>(static_cast<int>(seed >> 25) - 64) / 64;
  }
  return values;
}

/// Compares with a reference, prints a line, and returns whether no element is further away than
/// the tolerance.
inline bool compare(const char* name, const std::vector<float>& result,
                    const std::vector<double>& reference, double tolerance) {
  double largest = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result[i] == reference[i]) continue;  // -infinity, too
    const double error = std::abs(result[i] - reference[i]);
    largest = std::isnan(error) ? INFINITY : std::max(largest, error);
  }
  const bool passed = largest <= tolerance;
  std::printf("%s  %-4s largest error %.3g, allowed %.3g\n", passed ? "PASS" : "FAIL", name,
              largest, tolerance);
  return passed;
}

}  // namespace fa::FA_TARGET
