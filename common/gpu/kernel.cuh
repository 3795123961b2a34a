/// @file
/// What kernels are written with: CUDA's own functions, and thin named functions over instructions
/// that have none. Under nvcc they are instructions of the GPU; elsewhere the lab emulates them on
/// the CPU.
///
/// Kernels include common/gpu, common/attention and kernels of their own lesson only, and have
/// their names in `namespace fa::FA_TARGET`.
///
/// Source of the instructions: NVIDIA, PTX ISA; of the fragment layouts: its sections on ldmatrix
/// and mma.m16n8k16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/gpu/stamps_cuda.cuh"
#include "common/gpu/target.hpp"

#if defined(__CUDACC__)
#include "common/gpu/kernel_cuda.cuh"
#else
#include "common/gpu/kernel_lab.hpp"
#endif

namespace fa::FA_TARGET {

/// Threads in a warp.
constexpr int kWarp = 32;
/// The mask of all lanes of a warp.
constexpr unsigned kAllLanes = 0xffffffffu;

/// a / b, rounded up; for sizes and tile counts.
template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

/// 16 bytes as load4() and store4() have them.
__device__ inline float4 as_float4(const std::uint32_t (&words)[4]) {
  float4 result;
  memcpy(&result, words, sizeof result);
  return result;
}

/// The largest value among groups of `width` neighbouring lanes, given to each of them. All lanes
/// take part.
template <int width = kWarp>
__device__ float warp_max(float value) {
#pragma unroll
  for (int distance = width / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

/// The sum over groups of `width` neighbouring lanes, given to each of them. All lanes take part.
template <int width = kWarp>
__device__ float warp_sum(float value) {
#pragma unroll
  for (int distance = width / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// A value that is the same in all lanes of the warp, so that the compiler can see it: it may keep
/// the value in a uniform register, and a branch on it does not diverge. All lanes take part.
__device__ inline int warp_uniform(int value) {
  return __shfl_sync(kAllLanes, value, 0);
}

}  // namespace fa::FA_TARGET
