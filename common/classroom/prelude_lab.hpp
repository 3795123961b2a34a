/// @file
/// What entries of kernels include, and graders that launch kernels of the lessons, precompiled.
/// Nothing of a grader is in it. At its end stand CUDA's own words that no lesson uses and a
/// student's kernel may; nvcc knows them without a header.
#pragma once

// clang-format off
#include "common/gpu/kernel_watched.hpp"  // first
// clang-format on

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "common/classroom/entry.hpp"
#include "common/classroom/launches.hpp"
#include "common/classroom/wire.hpp"
#include "common/gpu/kernel.cuh"

/// A macro, so that findings name the student's line.
#define __ldg(address) (*(address))

namespace fa::FA_TARGET {

/// Lanes of a warp.
constexpr int warpSize = 32;

/// Two floats that one instruction loads.
struct alignas(8) float2 {
  float x;  ///< the first
  float y;  ///< the second
};
/// Both of them.
__forceinline__ float2 make_float2(float x, float y) {
  return {x, y};
}

/// The smaller one, of numbers of any types; the other one where one is NaN.
template <class A, class B>
__forceinline__ std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return std::fmin(T(a), T(b));
  return T(a) < T(b) ? T(a) : T(b);
}
/// The larger one, likewise.
template <class A, class B>
__forceinline__ std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return std::fmax(T(a), T(b));
  return T(a) < T(b) ? T(b) : T(a);
}

/// e^x; on a GPU less exact than here, as are the next two.
__forceinline__ float __expf(float x) {
  return std::exp(x);
}
/// ln x.
__forceinline__ float __logf(float x) {
  return std::log(x);
}
/// x / y.
__forceinline__ float __fdividef(float x, float y) {
  return x / y;
}
/// 1 / sqrt(x).
__forceinline__ float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}

}  // namespace fa::FA_TARGET
