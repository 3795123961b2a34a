/// @file
/// Launches: what the source pass makes of kernel<<<...>>>(...), launches by pointer, occupancy,
/// and variables in device memory.
#pragma once

#include <functional>
#include <lab_cuda/host.h>
#include <tuple>

namespace lab_cuda {

/// How a kernel is launched.
struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  Where where{};
  bool cooperative = false;
  dim3 cluster{};
  bool may_begin_early = false;  // a dependent launch
};
/// Runs a kernel, or notes why it cannot run. `context` are `bytes` with its arguments.
cudaError_t run(const Configuration& configuration, const char* name, void (*call)(void*),
                void* context, std::size_t bytes);

/// A kernel with its sizes, to be called with its arguments.
template <class Call>
class Launch {
 public:
  Launch(const Configuration& configuration, const char* name, const Call& call)
      : configuration_(configuration), name_(name), call_(call) {}
  template <class... Arguments>
  cudaError_t operator()(Arguments&&... arguments) const {
    // Each thread gets these values, as they are now.
    std::tuple<std::decay_t<Arguments>...> values(std::forward<Arguments>(arguments)...);
    return on(configuration_.stream, [copy = Launch(*this), values](cudaStream_t stream) {
      Launch launch = copy;
      launch.configuration_.stream = stream;
      return launch.with(values);
    });
  }

 private:
  template <class Values>
  cudaError_t with(const Values& values) const {
    // All that threads read of the host.
    auto each = [call = call_, values] {
      std::apply([&call](auto... copies) { call(copies...); }, values);
    };
    return run(
        configuration_, name_, [](void* context) { (*static_cast<decltype(each)*>(context))(); },
        &each, sizeof each);
  }
  Configuration configuration_;
  const char* name_;
  Call call_;
};

/// The sizes of a launch.
class Configured {
 public:
  explicit Configured(const Configuration& configuration) : configuration_(configuration) {}
  template <class Call>
  Launch<Call> operator()(const char* name, const Call& call) const {
    return {configuration_, name, call};
  }

 private:
  Configuration configuration_;
};
inline Configured configure(dim3 grid, dim3 block, std::size_t shared_bytes = 0,
                            cudaStream_t stream = nullptr, LAB_CUDA_WHERE) {
  return Configured({grid, block, shared_bytes, stream, lab_where});
}

/// Notes a pointer that each block of a kernel sets to its dynamic shared memory.
void note_dynamic_shared(void* pointer);
template <class T>
T* add_dynamic_shared(T** pointer) {
  note_dynamic_shared(pointer);
  return nullptr;
}

/// The static variables of a function in shared memory.
template <class T>
struct Placed {
  static const std::size_t offset;
  __attribute__((noinline)) LAB_CUDA_UNWATCHED static T& here() {
    return *static_cast<T*>(shared_at(offset));
  }
};
template <class T>
const std::size_t Placed<T>::offset = place_shared(sizeof(T), alignof(T));
/// One of these, with its name for findings.
template <class T>
LAB_CUDA_FUNCTION T& named_shared(T& variable, const char* name) {
  name_shared(&variable, sizeof variable, name);
  return variable;
}

/// From now on each launch first asks the kernel for its __cluster_dims__. @return true
bool kernels_have_clusters();
/// Whether a kernel is called only for these, and has given them.
bool gives_cluster(dim3 size);
/// The source pass begins kernels with it.
#define LAB_CUDA_KERNEL(...) \
  if (::lab_cuda::gives_cluster(dim3(__VA_ARGS__))) return;

/// Memory of the device with a copy of an image.
enum class Variable { kDevice, kManaged, kConstant };
void* make_variable(const void* image, std::size_t bytes, const char* name, Variable kind);
template <class T>
T& variable(T& image, const char* name, Variable kind) {
  return *static_cast<T*>(
      make_variable(const_cast<const void*>(static_cast<const volatile void*>(&image)),
                    sizeof image, name, kind));
}

/// Runs a kernel whose arguments are given by pointers to them.
template <class... P, std::size_t... I>
cudaError_t run_by_pointers(void (*kernel)(P...), const Configuration& configuration, void** from,
                            std::index_sequence<I...>) {
  return Configured(configuration)("the kernel", [kernel](auto&... a) { kernel(a...); })(
      *static_cast<std::remove_reference_t<P>*>(from[I])...);
}

int blocks_of_sm(int threads, std::size_t shared_bytes);
cudaError_t allow_dynamic_shared(int bytes);

}  // namespace lab_cuda

template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes = 0, cudaStream_t stream = nullptr,
                             LAB_CUDA_WHERE) {
  return ::lab_cuda::run_by_pointers(kernel, {grid, block, shared_bytes, stream, lab_where},
                                     arguments, std::index_sequence_for<P...>());
}
template <class... P>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid, dim3 block,
                                        void** arguments, std::size_t shared_bytes = 0,
                                        cudaStream_t stream = nullptr, LAB_CUDA_WHERE) {
  return ::lab_cuda::run_by_pointers(kernel, {grid, block, shared_bytes, stream, lab_where, true},
                                     arguments, std::index_sequence_for<P...>());
}

// What a launch may ask for. Those that are not named here only make a GPU faster.
enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeAccessPolicyWindow = 1,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
  cudaLaunchAttributePriority = 8
};
union cudaLaunchAttributeValue {
  int cooperative, programmaticStreamSerializationAllowed, priority;
  struct {
    unsigned x, y, z;
  } clusterDim;
  char room[64];
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 lab_gridDim, lab_blockDim;  // as the source pass names them
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
namespace lab_cuda {
/// A configuration and where it is used.
struct ConfigurationAt {
  ConfigurationAt(const cudaLaunchConfig_t* config, LAB_CUDA_WHERE)
      : value{config->lab_gridDim, config->lab_blockDim, config->dynamicSmemBytes, config->stream,
              lab_where} {
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const cudaLaunchAttribute& attribute = config->attrs[i];
      if (attribute.id == cudaLaunchAttributeCooperative) {
        value.cooperative = attribute.val.cooperative != 0;
      } else if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
        value.may_begin_early = attribute.val.programmaticStreamSerializationAllowed != 0;
      } else if (attribute.id == cudaLaunchAttributeClusterDimension) {
        const auto& size = attribute.val.clusterDim;
        value.cluster = dim3(size.x, size.y, size.z);
      }
    }
  }
  Configuration value;
};
}  // namespace lab_cuda
template <class... P, class... Arguments>
cudaError_t cudaLaunchKernelEx(const ::lab_cuda::ConfigurationAt& configuration,
                               void (*kernel)(P...), Arguments&&... arguments) {
  return ::lab_cuda::Configured(configuration.value)("the kernel", [kernel](auto&... a) {
    kernel(a...);
  })(static_cast<P>(std::forward<Arguments>(arguments))...);
}

template <class... P>
cudaError_t cudaLaunchKernelExC(const ::lab_cuda::ConfigurationAt& configuration,
                                void (*kernel)(P...), void** arguments) {
  return ::lab_cuda::run_by_pointers(kernel, configuration.value, arguments,
                                     std::index_sequence_for<P...>());
}

// Of a dependent launch, which may begin when that before it allows it.
inline void cudaGridDependencySynchronize() {
  ::lab_cuda::wait_for_previous_grids();
}
inline void cudaTriggerProgrammaticLaunchCompletion() {}

// Of a kernel by its name or by a const void*: all kernels have the same limits here.
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  return ::lab_cuda::allow_dynamic_shared(value);
}
template <class Kernel>
LAB_CUDA_DEFINE(cudaError_t, cudaFuncSetCacheConfig, (Kernel, cudaFuncCache), cudaSuccess)
template <class Kernel>
LAB_CUDA_DEFINE(cudaError_t, cudaFuncSetSharedMemConfig, (Kernel, cudaSharedMemConfig), cudaSuccess)
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel) {
  *attributes = {0, 0, 0, 1024, 32, 90, 90, 1, 48 * 1024, -1};
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel, int threads,
                                                          std::size_t shared_bytes) {
  *blocks = ::lab_cuda::blocks_of_sm(threads, shared_bytes);
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, Kernel,
                                           const ::lab_cuda::ConfigurationAt& configuration) {
  const ::lab_cuda::Configuration& c = configuration.value;
  int sms = 0;
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  const int threads = static_cast<int>(c.block.x * c.block.y * c.block.z);
  *clusters = sms * ::lab_cuda::blocks_of_sm(threads, c.shared_bytes) /
              static_cast<int>(c.cluster.x * c.cluster.y * c.cluster.z);
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, Kernel kernel,
                                               std::size_t shared_bytes = 0, int limit = 0) {
  *block = limit > 0 && limit < 1024 ? limit : 1024;
  int of_sm = 0, sms = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, kernel, *block, shared_bytes);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  *grid = of_sm * sms;
  return cudaSuccess;
}
