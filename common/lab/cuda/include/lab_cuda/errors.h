/// @file
/// Errors of the CUDA runtime: name, number and description, once.
#pragma once

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
  X(cudaErrorUnknown, 999, "unknown error")

#define LAB_CUDA_ERROR(name, number, text) name = number,
enum cudaError { LAB_CUDA_ERRORS(LAB_CUDA_ERROR) };
#undef LAB_CUDA_ERROR
typedef enum cudaError cudaError_t;
