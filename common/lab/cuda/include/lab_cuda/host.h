/// @file
/// The functions of the CUDA runtime for the host; runtime.cpp and memory.cpp have them.
#pragma once

#include <functional>
#include <lab_cuda/base.h>

// Errors: name, number and description, once.
#define LAB_CUDA_ERRORS(X)                                                                      \
  X(cudaSuccess, 0, "no error")                                                                 \
  X(cudaErrorInvalidValue, 1, "invalid argument")                                               \
  X(cudaErrorMemoryAllocation, 2, "out of memory")                                              \
  X(cudaErrorInitializationError, 3, "initialization error")                                    \
  X(cudaErrorCudartUnloading, 4, "driver shutting down")                                        \
  X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                         \
  X(cudaErrorInvalidPitchValue, 12, "invalid pitch argument")                                   \
  X(cudaErrorInvalidSymbol, 13, "invalid device symbol")                                        \
  X(cudaErrorInvalidHostPointer, 16, "invalid host pointer")                                    \
  X(cudaErrorInvalidDevicePointer, 17, "invalid device pointer")                                \
  X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                   \
  X(cudaErrorInsufficientDriver, 35,                                                            \
    "CUDA driver version is insufficient for CUDA runtime version")                             \
  X(cudaErrorMissingConfiguration, 52, "__global__ function call is not configured")            \
  X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                              \
  X(cudaErrorInvalidKernelImage, 200, "device kernel image is invalid")                         \
  X(cudaErrorNoKernelImageForDevice, 209,                                                       \
    "no kernel image is available for execution on the device")                                 \
  X(cudaErrorUnsupportedLimit, 215, "limit is not supported on this architecture")              \
  X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                               \
  X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                      \
  X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                             \
  X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")       \
  X(cudaErrorSymbolNotFound, 500, "named symbol not found")                                     \
  X(cudaErrorNotReady, 600, "device not ready")                                                 \
  X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                   \
  X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")              \
  X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                     \
  X(cudaErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")                   \
  X(cudaErrorAssert, 710, "device-side assert triggered")                                       \
  X(cudaErrorHostMemoryAlreadyRegistered, 712,                                                  \
    "part or all of the requested memory range is already mapped")                              \
  X(cudaErrorHostMemoryNotRegistered, 713,                                                      \
    "pointer does not correspond to a registered memory region")                                \
  X(cudaErrorMisalignedAddress, 716, "misaligned address")                                      \
  X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                  \
  X(cudaErrorCooperativeLaunchTooLarge, 720, "too many blocks in cooperative launch")           \
  X(cudaErrorNotPermitted, 800, "operation not permitted")                                      \
  X(cudaErrorNotSupported, 801, "operation not supported")                                      \
  X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing") \
  X(cudaErrorStreamCaptureInvalidated, 901,                                                     \
    "operation failed due to a previous error during capture")                                  \
  X(cudaErrorInvalidClusterSize, 912, "cluster misconfiguration")                               \
  X(cudaErrorUnknown, 999, "unknown error")

#define LAB_CUDA_ERROR(name, number, text) name = number,
enum cudaError { LAB_CUDA_ERRORS(LAB_CUDA_ERROR) };
#undef LAB_CUDA_ERROR
typedef enum cudaError cudaError_t;

namespace lab_cuda {
/// What the source pass makes of a call whose result is not used: an error is a finding.
cudaError_t unseen(const char* call, cudaError_t error, LAB_CUDA_WHERE);
/// That of all calls after a failed launch, else success.
cudaError_t pending_error();
template <class T, class Value>
cudaError_t give(T* to, Value value) {
  *to = value;
  return pending_error();
}
}  // namespace lab_cuda
// What has nothing to do here.
#define LAB_CUDA_NOTHING(name, ...) \
  LAB_CUDA_DEFINE(cudaError_t, name, (__VA_ARGS__), ::lab_cuda::pending_error())

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUmemPoolHandle_st* cudaMemPool_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
#define cudaStreamLegacy (reinterpret_cast<cudaStream_t>(1))
#define cudaStreamPerThread (reinterpret_cast<cudaStream_t>(2))

#define cudaStreamDefault 0u
#define cudaStreamNonBlocking 1u
#define cudaEventDefault 0u
#define cudaEventBlockingSync 1u
#define cudaEventDisableTiming 2u
#define cudaEventInterprocess 4u
#define cudaHostAllocDefault 0u
#define cudaHostAllocPortable 1u
#define cudaHostAllocMapped 2u
#define cudaHostAllocWriteCombined 4u
#define cudaHostRegisterDefault 0u
#define cudaHostRegisterPortable 1u
#define cudaHostRegisterMapped 2u
#define cudaMemAttachGlobal 1u
#define cudaMemAttachHost 2u
#define cudaDeviceScheduleAuto 0u
#define cudaDeviceScheduleSpin 1u
#define cudaDeviceScheduleBlockingSync 4u
#define cudaDeviceBlockingSync cudaDeviceScheduleBlockingSync
#define cudaDeviceMapHost 8u
#define cudaCpuDeviceId (-1)
#define cudaOccupancyDefault 0u

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
enum cudaFuncCache {
  cudaFuncCachePreferNone,
  cudaFuncCachePreferShared,
  cudaFuncCachePreferL1,
  cudaFuncCachePreferEqual
};
enum cudaSharedMemConfig {
  cudaSharedMemBankSizeDefault,
  cudaSharedMemBankSizeFourByte,
  cudaSharedMemBankSizeEightByte
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 14
};
enum cudaSharedCarveout {
  cudaSharedmemCarveoutDefault = -1,
  cudaSharedmemCarveoutMaxL1 = 0,
  cudaSharedmemCarveoutMaxShared = 100
};
enum cudaMemoryAdvise {
  cudaMemAdviseSetReadMostly = 1,
  cudaMemAdviseUnsetReadMostly,
  cudaMemAdviseSetPreferredLocation,
  cudaMemAdviseUnsetPreferredLocation,
  cudaMemAdviseSetAccessedBy,
  cudaMemAdviseUnsetAccessedBy
};
enum cudaLimit {
  cudaLimitStackSize,
  cudaLimitPrintfFifoSize,
  cudaLimitMallocHeapSize,
  cudaLimitDevRuntimeSyncDepth,
  cudaLimitDevRuntimePendingLaunchCount,
  cudaLimitMaxL2FetchGranularity,
  cudaLimitPersistingL2CacheSize
};
enum cudaMemoryType {
  cudaMemoryTypeUnregistered,
  cudaMemoryTypeHost,
  cudaMemoryTypeDevice,
  cudaMemoryTypeManaged
};
enum cudaMemPoolAttr {
  cudaMemPoolReuseFollowEventDependencies = 1,
  cudaMemPoolReuseAllowOpportunistic,
  cudaMemPoolReuseAllowInternalDependencies,
  cudaMemPoolAttrReleaseThreshold
};
enum cudaComputeMode {
  cudaComputeModeDefault,
  cudaComputeModeExclusive,
  cudaComputeModeProhibited
};
// Attributes of a device: name, number, and the field of cudaDeviceProp that has it.
#define LAB_CUDA_ATTRIBUTES(X)                                                   \
  X(cudaDevAttrMaxThreadsPerBlock, 1, maxThreadsPerBlock)                        \
  X(cudaDevAttrMaxBlockDimX, 2, maxThreadsDim[0])                                \
  X(cudaDevAttrMaxBlockDimY, 3, maxThreadsDim[1])                                \
  X(cudaDevAttrMaxBlockDimZ, 4, maxThreadsDim[2])                                \
  X(cudaDevAttrMaxGridDimX, 5, maxGridSize[0])                                   \
  X(cudaDevAttrMaxGridDimY, 6, maxGridSize[1])                                   \
  X(cudaDevAttrMaxGridDimZ, 7, maxGridSize[2])                                   \
  X(cudaDevAttrMaxSharedMemoryPerBlock, 8, sharedMemPerBlock)                    \
  X(cudaDevAttrTotalConstantMemory, 9, totalConstMem)                            \
  X(cudaDevAttrWarpSize, 10, warpSize)                                           \
  X(cudaDevAttrMaxRegistersPerBlock, 12, regsPerBlock)                           \
  X(cudaDevAttrClockRate, 13, clockRate)                                         \
  X(cudaDevAttrGpuOverlap, 15, deviceOverlap)                                    \
  X(cudaDevAttrMultiProcessorCount, 16, multiProcessorCount)                     \
  X(cudaDevAttrKernelExecTimeout, 17, kernelExecTimeoutEnabled)                  \
  X(cudaDevAttrIntegrated, 18, integrated)                                       \
  X(cudaDevAttrCanMapHostMemory, 19, canMapHostMemory)                           \
  X(cudaDevAttrComputeMode, 20, computeMode)                                     \
  X(cudaDevAttrConcurrentKernels, 31, concurrentKernels)                         \
  X(cudaDevAttrMemoryClockRate, 36, memoryClockRate)                             \
  X(cudaDevAttrGlobalMemoryBusWidth, 37, memoryBusWidth)                         \
  X(cudaDevAttrL2CacheSize, 38, l2CacheSize)                                     \
  X(cudaDevAttrMaxThreadsPerMultiProcessor, 39, maxThreadsPerMultiProcessor)     \
  X(cudaDevAttrAsyncEngineCount, 40, asyncEngineCount)                           \
  X(cudaDevAttrUnifiedAddressing, 41, unifiedAddressing)                         \
  X(cudaDevAttrComputeCapabilityMajor, 75, major)                                \
  X(cudaDevAttrComputeCapabilityMinor, 76, minor)                                \
  X(cudaDevAttrStreamPrioritiesSupported, 78, streamPrioritiesSupported)         \
  X(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 81, sharedMemPerMultiprocessor) \
  X(cudaDevAttrMaxRegistersPerMultiprocessor, 82, regsPerMultiprocessor)         \
  X(cudaDevAttrManagedMemory, 83, managedMemory)                                 \
  X(cudaDevAttrPageableMemoryAccess, 88, pageableMemoryAccess)                   \
  X(cudaDevAttrConcurrentManagedAccess, 89, concurrentManagedAccess)             \
  X(cudaDevAttrCooperativeLaunch, 95, cooperativeLaunch)                         \
  X(cudaDevAttrMaxSharedMemoryPerBlockOptin, 97, sharedMemPerBlockOptin)         \
  X(cudaDevAttrMaxBlocksPerMultiprocessor, 106, maxBlocksPerMultiProcessor)      \
  X(cudaDevAttrMemoryPoolsSupported, 115, memoryPoolsSupported)
#define LAB_CUDA_ATTRIBUTE(name, number, field) name = number,
enum cudaDeviceAttr { LAB_CUDA_ATTRIBUTES(LAB_CUDA_ATTRIBUTE) };
#undef LAB_CUDA_ATTRIBUTE

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  std::size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
  std::size_t totalConstMem;
  int major, minor;
  std::size_t textureAlignment;
  int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory,
      computeMode, concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver,
      asyncEngineCount, unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize,
      persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported;
  std::size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, pageableMemoryAccess,
      concurrentManagedAccess, cooperativeLaunch, cooperativeMultiDeviceLaunch;
  std::size_t sharedMemPerBlockOptin;
  int maxBlocksPerMultiProcessor, globalL1CacheSupported, localL1CacheSupported;
  std::size_t reservedSharedMemPerBlock;
  int hostNativeAtomicSupported, memoryPoolsSupported;
};
struct cudaFuncAttributes {
  std::size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA,
      maxDynamicSharedSizeBytes, preferredShmemCarveout;
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
};
struct cudaExtent {
  std::size_t width, height, depth;
};
typedef void (*cudaHostFn_t)(void*);
typedef void (*cudaStreamCallback_t)(cudaStream_t, cudaError_t, void*);

// ---------------------------------------------------------------- errors and devices

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
LAB_CUDA_DEFINE(cudaError_t, cudaGetDeviceCount, (int* to), ::lab_cuda::give(to, 1))
LAB_CUDA_DEFINE(cudaError_t, cudaGetDevice, (int* to), ::lab_cuda::give(to, 0))
cudaError_t cudaSetDevice(int device);
LAB_CUDA_DEFINE(cudaError_t, cudaChooseDevice, (int* to, const cudaDeviceProp*),
                ::lab_cuda::give(to, 0))
LAB_CUDA_NOTHING(cudaSetDeviceFlags, unsigned)
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
LAB_CUDA_DEFINE(cudaError_t, cudaThreadSynchronize, (), cudaDeviceSynchronize())
LAB_CUDA_NOTHING(cudaDeviceReset)
LAB_CUDA_NOTHING(cudaThreadExit)
LAB_CUDA_NOTHING(cudaDeviceSetCacheConfig, cudaFuncCache)
LAB_CUDA_NOTHING(cudaDeviceSetSharedMemConfig, cudaSharedMemConfig)
cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value);
cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
LAB_CUDA_DEFINE(cudaError_t, cudaDeviceCanAccessPeer, (int* to, int, int), ::lab_cuda::give(to, 0))
LAB_CUDA_DEFINE(cudaError_t, cudaDriverGetVersion, (int* to), ::lab_cuda::give(to, CUDART_VERSION))
LAB_CUDA_DEFINE(cudaError_t, cudaRuntimeGetVersion, (int* to), ::lab_cuda::give(to, CUDART_VERSION))
LAB_CUDA_NOTHING(cudaProfilerStart)
LAB_CUDA_NOTHING(cudaProfilerStop)

namespace lab_cuda {
/// What is done on a stream.
using Work = std::function<cudaError_t(cudaStream_t)>;
/// Keeps it for the graph that is captured.
cudaError_t keep(cudaStream_t stream, const Work& work);
/// Whether a graph is made of what is launched and copied on a stream.
bool is_captured(cudaStream_t stream);
/// Does it, or keeps it for that graph.
template <class T>
cudaError_t on(cudaStream_t stream, const T& work) {
  return is_captured(stream) ? keep(stream, work) : work(stream);
}
}  // namespace lab_cuda

// ---------------------------------------------------------------- memory

cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes,
                              unsigned flags = cudaMemAttachGlobal);
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes, unsigned flags = 0);
LAB_CUDA_DEFINE(cudaError_t, cudaHostAlloc, (void** pointer, std::size_t bytes, unsigned),
                cudaMallocHost(pointer, bytes))
cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                            std::size_t height);
LAB_CUDA_DEFINE(cudaError_t, cudaMallocAsync, (void** pointer, std::size_t bytes, cudaStream_t),
                cudaMalloc(pointer, bytes))
// Attributes of the pool say when memory goes back to the system, which no program sees here.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
LAB_CUDA_NOTHING(cudaMemPoolSetAttribute, cudaMemPool_t, cudaMemPoolAttr, void*)
LAB_CUDA_NOTHING(cudaMemPoolTrimTo, cudaMemPool_t, std::size_t)
// With a pointer to any type.
#define LAB_CUDA_TYPED(name)                                                      \
  template <class T, class... Rest, class = std::enable_if_t<!std::is_void_v<T>>> \
  cudaError_t name(T** pointer, Rest... rest) {                                   \
    return name(reinterpret_cast<void**>(pointer), rest...);                      \
  }
LAB_CUDA_TYPED(cudaMalloc)
LAB_CUDA_TYPED(cudaMallocManaged)
LAB_CUDA_TYPED(cudaMallocHost)
LAB_CUDA_TYPED(cudaHostAlloc)
LAB_CUDA_TYPED(cudaMallocPitch)
template <class T, class = std::enable_if_t<!std::is_void_v<T>>>
cudaError_t cudaMallocAsync(T** pointer, std::size_t bytes, cudaStream_t stream) {  // may be 0
  return cudaMallocAsync(reinterpret_cast<void**>(pointer), bytes, stream);
}
cudaError_t cudaFree(void* pointer);
LAB_CUDA_DEFINE(cudaError_t, cudaFreeAsync, (void* pointer, cudaStream_t), cudaFree(pointer))
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void* pointer);
LAB_CUDA_DEFINE(cudaError_t, cudaHostGetDevicePointer, (void** device, void* host, unsigned),
                ::lab_cuda::give(device, host))
LAB_CUDA_TYPED(cudaHostGetDevicePointer)
#undef LAB_CUDA_TYPED
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  return ::lab_cuda::on(stream, [=](cudaStream_t) { return cudaMemcpy(to, from, bytes, kind); });
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind);
inline cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                     std::size_t from_pitch, std::size_t width, std::size_t height,
                                     cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  return ::lab_cuda::on(stream, [=](cudaStream_t) {
    return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
  });
}
cudaError_t cudaMemset(void* pointer, int byte, std::size_t bytes);
inline cudaError_t cudaMemsetAsync(void* pointer, int byte, std::size_t bytes,
                                   cudaStream_t stream = nullptr) {
  return ::lab_cuda::on(stream, [=](cudaStream_t) { return cudaMemset(pointer, byte, bytes); });
}
cudaError_t cudaMemset2D(void* pointer, std::size_t pitch, int byte, std::size_t width,
                         std::size_t height);
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total);
cudaError_t cudaMemPrefetchAsync(const void* pointer, std::size_t bytes, int device,
                                 cudaStream_t stream = nullptr);
LAB_CUDA_NOTHING(cudaMemAdvise, const void*, std::size_t, cudaMemoryAdvise, int)
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);
namespace lab_cuda {
cudaError_t copy_symbol(const void* symbol, std::size_t size, void* to, const void* from,
                        std::size_t bytes, std::size_t offset);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, std::size_t bytes,
                               std::size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice) {
  return ::lab_cuda::copy_symbol(&symbol, sizeof symbol, nullptr, from, bytes, offset);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, std::size_t bytes,
                                    std::size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice,
                                    cudaStream_t = nullptr) {
  return ::lab_cuda::copy_symbol(&symbol, sizeof symbol, nullptr, from, bytes, offset);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, std::size_t bytes,
                                 std::size_t offset = 0, cudaMemcpyKind = cudaMemcpyDeviceToHost) {
  return ::lab_cuda::copy_symbol(&symbol, sizeof symbol, to, nullptr, bytes, offset);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, std::size_t bytes,
                                      std::size_t offset = 0,
                                      cudaMemcpyKind = cudaMemcpyDeviceToHost,
                                      cudaStream_t = nullptr) {
  return ::lab_cuda::copy_symbol(&symbol, sizeof symbol, to, nullptr, bytes, offset);
}
template <class P, class T>
cudaError_t cudaGetSymbolAddress(P** pointer, const T& symbol) {
  *pointer = static_cast<P*>(const_cast<void*>(static_cast<const volatile void*>(&symbol)));
  return cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolSize(std::size_t* bytes, const T& symbol) {
  *bytes = sizeof symbol;
  return cudaSuccess;
}

// ---------------------------------------------------------------- streams and events

cudaError_t cudaStreamCreate(cudaStream_t* stream);
LAB_CUDA_DEFINE(cudaError_t, cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned),
                cudaStreamCreate(stream))
LAB_CUDA_DEFINE(cudaError_t, cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned, int),
                cudaStreamCreate(stream))
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
LAB_CUDA_NOTHING(cudaStreamAttachMemAsync, cudaStream_t, void*, std::size_t = 0, unsigned = 4)
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);
cudaError_t cudaEventCreate(cudaEvent_t* event);
LAB_CUDA_DEFINE(cudaError_t, cudaEventCreate, (cudaEvent_t * event, unsigned),
                cudaEventCreate(event))
LAB_CUDA_DEFINE(cudaError_t, cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned),
                cudaEventCreate(event))
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
LAB_CUDA_DEFINE(cudaError_t, cudaEventQuery, (cudaEvent_t event), cudaEventSynchronize(event))
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaEventDestroy(cudaEvent_t event);

// ---------------------------------------------------------------- graphs of captured streams

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags = 0);
LAB_CUDA_DEFINE(cudaError_t, cudaGraphInstantiate,
                (cudaGraphExec_t * executable, cudaGraph_t graph, cudaGraphNode_t*, char*,
                 std::size_t),
                cudaGraphInstantiate(executable, graph))
LAB_CUDA_DEFINE(cudaError_t, cudaGraphInstantiateWithFlags,
                (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long),
                cudaGraphInstantiate(executable, graph))
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count);
LAB_CUDA_NOTHING(cudaGraphUpload, cudaGraphExec_t, cudaStream_t)
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);
