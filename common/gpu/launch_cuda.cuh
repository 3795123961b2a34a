/// @file
/// The host's functions on a GPU. Include launch.cuh, not this file.
#pragma once

#include <cstdlib>
#include <cuda_runtime.h>
#include <cxxabi.h>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace fa::FA_TARGET {

/// The name of a kernel for messages, without its namespaces and parameters.
/// @param function the host's address of a __global__ function
inline std::string kernel_name(const void* function) {
  const char* mangled = nullptr;
#if CUDART_VERSION >= 12030  // older ones have no names
  if (cudaFuncGetName(&mangled, function) != cudaSuccess) mangled = nullptr;
#else
  (void)function;
#endif
  if (mangled == nullptr) return "a kernel";
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr), std::free);
  std::string name = readable ? readable.get() : mangled;
  for (const char* noise : {"(anonymous namespace)::", "fa::on_gpu::"}) {
    for (std::size_t at; (at = name.find(noise)) != std::string::npos;) {
      name.erase(at, std::string(noise).size());
    }
  }
  if (!name.empty() && name.back() == ')') {  // the parameters
    std::size_t at = name.size();
    int open = 0;
    do {
      --at;
      open += name[at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
    } while (open > 0 && at > 0);
    name.erase(at);
  }
  // The demangler gives the type of what templates return: void, since they are kernels.
  return name.rfind("void ", 0) == 0 ? name.substr(5) : name;
}

/// A kernel that this thread has launched.
struct Launched {
  const void* function;  ///< the host's address
  std::string name;      ///< as kernel_name()
  bool may_run;          ///< launched since this thread last waited for the device
};
/// The kernels that this thread has launched: an error of one is reported by a later call, without
/// the kernel's name. Names are looked up before any error, since CUDA gives none afterwards.
inline std::vector<Launched>& launched_kernels() {
  thread_local std::vector<Launched> kernels;
  return kernels;
}
/// Records a launch for messages.
inline void note_launch(const void* function) {
  std::vector<Launched>& kernels = launched_kernels();
  for (Launched& kernel : kernels) {
    if (kernel.function == function) {
      kernel.may_run = true;
      return;
    }
  }
  kernels.push_back({function, kernel_name(function), true});
}
/// Records that all launches have ended without an error.
inline void note_all_ended() {
  for (Launched& kernel : launched_kernels()) kernel.may_run = false;
}

/// Whether an error can come from a kernel that was launched before the call that reports it.
inline bool is_late(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

/// What CUDA says about an error, in words and by name.
inline std::string cuda_error(cudaError_t error) {
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

/// Throws what a CUDA call reports.
/// @throws std::runtime_error that names the call, the place, and for an error of a kernel the
/// kernels that were launched since this thread last waited
inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return;
  std::string suspects;
  if (is_late(error)) {
    for (const Launched& kernel : launched_kernels()) {
      if (!kernel.may_run) continue;
      suspects += (suspects.empty() ? "; launched before: " : ", ");
      suspects += kernel.name;
    }
  }
  throw std::runtime_error(
      fmt::format("{}:{}: {}: {}{}", file, line, call, cuda_error(error), suspects));
}
/// Makes a CUDA call; throws as check_cuda() when it reports an error.
#define FA_CUDA(call) ::fa::FA_TARGET::check_cuda((call), #call, __FILE__, __LINE__)

/// @cond what differs between architectures
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL)
#define FA_PROBE_THREADS 64
#else
#define FA_PROBE_THREADS 32
#endif
/// @endcond

/// Does nothing. In code for sm_90a or sm_100a its blocks may have more threads than in other code, and the
/// host can ask for that without a launch.
template <int = 0>
__global__ void __launch_bounds__(FA_PROBE_THREADS) code_probe() {}

/// Sets what the code that is loaded on the current GPU was compiled for.
/// @throws std::runtime_error when the device reports an error
inline void note_code(DeviceProperties& properties) {
  cudaFuncAttributes probe;
  const cudaError_t error =
      cudaFuncGetAttributes(&probe, reinterpret_cast<const void*>(code_probe<0>));
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
      error == cudaErrorUnsupportedPtxVersion) {
    (void)cudaGetLastError();  // there is no code for this GPU
    return;
  }
  check_cuda(error, "cudaFuncGetAttributes", __FILE__, __LINE__);
  properties.code_architecture = probe.ptxVersion;
  properties.has_specific_code = probe.maxThreadsPerBlock == 64;
}

/// Asks CUDA about the current GPU, which takes milliseconds.
/// @throws std::runtime_error when there is none of that number
inline DeviceProperties query_device(int device) {
  int clock_khz = 0, memory_khz = 0, memory_bits = 0;
  cudaDeviceProp p;
  FA_CUDA(cudaGetDeviceProperties(&p, device));
  FA_CUDA(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device));
  FA_CUDA(cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, device));
  FA_CUDA(cudaDeviceGetAttribute(&memory_bits, cudaDevAttrGlobalMemoryBusWidth, device));
  DeviceProperties result;
  result.name = p.name;
  result.compute_capability = 10 * p.major + p.minor;
  result.sm_count = p.multiProcessorCount;
  result.shared_bytes = p.sharedMemPerBlockOptin;
  result.l2_bytes = static_cast<std::size_t>(p.l2CacheSize);
  result.clock_hz = 1e3 * clock_khz;
  // two bits for each clock and wire
  result.memory_bandwidth = 2e3 * memory_khz * memory_bits / 8;
  result.toolkit = fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  note_code(result);
  return result;
}

/// The GPU that is current for this thread. Each GPU is asked once; any thread may call.
/// @return lasts as long as the program
/// @throws std::runtime_error when there is none
inline const DeviceProperties& device_properties() {
  static std::mutex mutex;
  static std::map<int, DeviceProperties> known;  // references stay valid
  int device = 0;
  FA_CUDA(cudaGetDevice(&device));
  const std::lock_guard<std::mutex> lock(mutex);
  const auto at = known.find(device);
  if (at != known.end()) return at->second;
  return known.emplace(device, query_device(device)).first->second;
}

/// Where kernels run.
constexpr const char* kRunsOn = "gpu";

/// Whether there is a GPU that can be used.
inline bool device_available() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

/// The GPU whose memory a pointer is to; none for memory of the host.
/// @throws std::runtime_error when CUDA reports an error
inline std::optional<int> gpu_of_memory(const void* pointer) {
  cudaPointerAttributes attributes;
  FA_CUDA(cudaPointerGetAttributes(&attributes, pointer));
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged) {
    return std::nullopt;
  }
  return attributes.device;
}

/// Makes a GPU the current one for as long as this lives.
class CurrentGpu {
 public:
  /// @throws std::runtime_error when CUDA reports an error
  explicit CurrentGpu(int gpu) {
    FA_CUDA(cudaGetDevice(&before_));
    if (gpu != before_) FA_CUDA(cudaSetDevice(gpu));
    changed_ = gpu != before_;
  }
  ~CurrentGpu() {
    if (changed_) cudaSetDevice(before_);
  }
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// Direction of a copy.
enum class CopyKind { kToDevice, kToHost };

/// Memory of the device.
/// @throws std::runtime_error when there is not enough
inline void* device_allocate(std::size_t bytes) {
  void* result = nullptr;
  const cudaError_t error = cudaMalloc(&result, std::max<std::size_t>(bytes, 1));
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // the device is intact: clear the error
    std::size_t free = 0, total = 0;
    FA_CUDA(cudaMemGetInfo(&free, &total));
    throw std::runtime_error(
        fmt::format("{} bytes of memory were asked for; {} has {} free, of {} in all", bytes,
                    device_properties().name, free, total));
  }
  check_cuda(error, "cudaMalloc", __FILE__, __LINE__);
  return result;
}
/// Frees memory of the device; null is allowed.
inline void device_free(void* memory) {
  cudaFree(memory);  // at the end of a scope, perhaps after an error
}
/// Copies between host and device, after all launches so far.
/// @throws std::runtime_error for an error of one of them
inline void device_copy(void* to, const void* from, std::size_t bytes, CopyKind kind) {
  FA_CUDA(
      cudaMemcpy(to, from, bytes,
                 kind == CopyKind::kToDevice ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost));
  if (bytes > 0 && kind == CopyKind::kToHost) note_all_ended();
}
/// Sets bytes of memory of the device to 0.
/// @throws std::runtime_error when the device reports an error
inline void device_zero(void* memory, std::size_t bytes) {
  FA_CUDA(cudaMemset(memory, 0, bytes));
}
/// Sets all bytes to 0xff: NaN until it is written.
/// @throws std::runtime_error when the device reports an error
inline void device_poison(void* memory, std::size_t bytes) {
  FA_CUDA(cudaMemset(memory, 0xff, bytes));
}
/// Waits for all launches.
/// @throws std::runtime_error for an error of one of them
inline void device_synchronize() {
  FA_CUDA(cudaDeviceSynchronize());
  note_all_ended();
}

/// Launches on one stream run one after the other; those on different streams may run at the same
/// time. What is launched on none waits for all streams, and they for it; so do the copies of
/// buffers.
class Stream {
 public:
  /// @throws std::runtime_error when the device reports an error
  Stream() : owned_(true) { FA_CUDA(cudaStreamCreate(&stream_)); }
  ~Stream() {
    if (owned_) cudaStreamDestroy(stream_);  // what was launched still runs
  }
  /// A stream of another owner, a cudaStream_t, which must outlive this one. Null is CUDA's default
  /// stream.
  static Stream of(void* native) { return Stream(static_cast<cudaStream_t>(native)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Waits for all launches on this stream.
  /// @throws std::runtime_error for an error of one of them
  void synchronize() const { FA_CUDA(cudaStreamSynchronize(stream_)); }
  /// For CUDA's own functions.
  cudaStream_t native() const { return stream_; }

 private:
  explicit Stream(cudaStream_t native) : stream_(native) {}
  cudaStream_t stream_ = nullptr;
  bool owned_ = false;
};

/// A point in the order of what the device does, with its time.
class Event {
 public:
  /// @throws std::runtime_error when the device reports an error
  Event() { FA_CUDA(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Records the event after everything launched so far.
  /// @throws std::runtime_error when the device reports an error
  void record() { FA_CUDA(cudaEventRecord(event_)); }
  /// Waits until the device has reached this event.
  /// @throws std::runtime_error for an error of a launch before it
  void synchronize() const { FA_CUDA(cudaEventSynchronize(event_)); }
  /// Milliseconds from another event to this one; the device has reached both.
  /// @throws std::runtime_error when the device reports an error
  float milliseconds_since(const Event& start) const {
    float result = 0;
    FA_CUDA(cudaEventElapsedTime(&result, start.event_, event_));
    return result;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Throws why a kernel could not be launched.
/// @throws std::runtime_error with what was asked for and what the kernel needs by itself
[[noreturn]] inline void refuse_launch(const void* function, const Launch& sizes,
                                       cudaError_t error) {
  (void)cudaGetLastError();  // the next launch may be a good one
  std::string needs;
  cudaFuncAttributes kernel;
  if (cudaFuncGetAttributes(&kernel, function) == cudaSuccess) {
    needs = fmt::format(
        ", which takes {} registers a thread, {} bytes of static shared "
        "memory and at most {} threads a block",
        kernel.numRegs, kernel.sharedSizeBytes, kernel.maxThreadsPerBlock);
  }
  throw std::runtime_error(
      fmt::format("launch of {}{}, in {} blocks of {} threads with {} bytes of dynamic "
                  "shared memory: {}",
                  kernel_name(function), needs, sizes.grid.count(), sizes.block.count(),
                  sizes.shared_bytes, cuda_error(error)));
}

/// What a kernel takes of an SM when it is launched so.
/// @throws std::runtime_error when the device reports an error
inline KernelResources kernel_resources(const void* function, const Launch& sizes) {
  cudaFuncAttributes kernel;
  FA_CUDA(cudaFuncGetAttributes(&kernel, function));
  KernelResources result;
  result.threads = static_cast<int>(sizes.block.count());
  result.stages = sizes.stages;
  result.registers = kernel.numRegs;
  result.shared_bytes = kernel.sharedSizeBytes + sizes.shared_bytes;
  result.spilled_bytes = kernel.localSizeBytes;
  const int threads = result.threads, warps = (threads + 31) / 32;
  FA_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&result.blocks, function, threads,
                                                        sizes.shared_bytes));
  int device = 0, most = 0;
  FA_CUDA(cudaGetDevice(&device));
  FA_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxThreadsPerMultiProcessor, device));
  result.occupancy = 32.0 * result.blocks * warps / most;
  return result;
}

/// launch() without its checks; on no stream if that is null.
template <class... Parameters>
void launch_unchecked(void (*kernel)(Parameters...), const Launch& sizes, const Stream* stream,
                      Parameters... arguments) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  cudaError_t error = cudaSuccess;
  if (sizes.shared_bytes > 48 * 1024) {  // more must be asked for
    error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(sizes.shared_bytes));
  }
  if (error == cudaSuccess) {
    void* addresses[] = {&arguments..., nullptr};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(sizes.grid.x, sizes.grid.y, sizes.grid.z);
    config.blockDim = dim3(sizes.block.x, sizes.block.y, sizes.block.z);
    config.dynamicSmemBytes = sizes.shared_bytes;
    config.stream = stream == nullptr ? nullptr : stream->native();
    cudaLaunchAttribute attributes[2] = {};
    config.attrs = attributes;
    if (sizes.with_pdl && device_properties().compute_capability >= 90) {
      cudaLaunchAttribute& pdl = attributes[config.numAttrs++];
      pdl.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      pdl.val.programmaticStreamSerializationAllowed = 1;
    }
    if (sizes.cluster > 1) {
      cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
      cluster.id = cudaLaunchAttributeClusterDimension;
      cluster.val.clusterDim = {static_cast<unsigned>(sizes.cluster), 1, 1};
    }
    error = cudaLaunchKernelExC(&config, function, addresses);
  }
  if (is_late(error)) {  // of an earlier launch
    check_cuda(error, "cudaLaunchKernelExC", __FILE__, __LINE__);
  }
  if (error != cudaSuccess) refuse_launch(function, sizes, error);
  note_launch(function);
  if (noted_resources() != nullptr) {
    noted_resources()->push_back(kernel_resources(function, sizes));
  }
}

/// The median time of some work on the device, in milliseconds, each time with a cold level 2
/// cache.
/// @param work    launches kernels, on streams or on none
/// @param repeats how often it is timed, after three runs that are not
/// @throws std::invalid_argument for no repeat
/// @throws std::runtime_error when the device reports an error
inline std::optional<double> median_milliseconds(const std::function<void()>& work,
                                                 int repeats = 20) {
  if (repeats < 1) {
    throw std::invalid_argument(fmt::format("{} repeats to time; at least 1 is needed", repeats));
  }
  const std::size_t flush_bytes = 2 * device_properties().l2_bytes;
  const std::unique_ptr<void, void (*)(void*)> flush(device_allocate(flush_bytes), device_free);
  Event start, stop;
  std::vector<float> times;
  for (int i = -3; i < repeats; ++i) {
    device_zero(flush.get(), flush_bytes);
    start.record();
    work();
    stop.record();
    stop.synchronize();
    if (i >= 0) times.push_back(stop.milliseconds_since(start));
  }
  note_all_ended();
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

}  // namespace fa::FA_TARGET
