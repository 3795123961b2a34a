// What the pieces of the museum share: memory, and the test of a result.
#pragma once

#include <cstdio>
#include <cuda_runtime.h>

// n elements that kernels and the host may use: first, first + step, ...
template <class T>
T* numbers(int n, T first = 0, T step = 0) {
  T* x = nullptr;
  cudaMallocManaged(&x, n * sizeof(T));
  for (int i = 0; i < n; ++i) x[i] = first + static_cast<T>(i) * step;
  return x;
}

// Says whether a program computed what it should; its exit status.
inline int result(bool right) {
  const bool fine = right && cudaGetLastError() == cudaSuccess;
  std::puts(fine ? "the result is right" : "the result is WRONG");
  return fine ? 0 : 1;
}
// The same where all of n elements should be equal to wanted(i).
template <class T, class Wanted>
int result(const T* x, int n, const Wanted& wanted) {
  bool right = cudaDeviceSynchronize() == cudaSuccess;
  for (int i = 0; right && i < n; ++i) right = x[i] == wanted(i);
  return result(right);
}

// A launch that may begin before the previous one on the stream has ended.
template <class... P, class... A>
void launch_early(void (*kernel)(P...), int blocks, int threads,
                  A... arguments) {
  cudaLaunchAttribute early[1] = {};
  early[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early[0].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.attrs = early;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...);
}
