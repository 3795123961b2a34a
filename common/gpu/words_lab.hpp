/// @file
/// CUDA's own words that no lesson uses and a student's kernel may, in the lab; nvcc knows them
/// without a header.
#pragma once

#include "common/gpu/kernel.cuh"

/// @{ Macros, so that findings name the student's line.
#define __ldg(address) (*(address))
#define __ldca(address) (*(address))
#define __ldcg(address) (*(address))
#define __stcg(address, value) (*(address) = (value))
/// @}

namespace fa::FA_TARGET {

/// Lanes of a warp.
constexpr int warpSize = 32;

/// Two floats that one instruction loads.
struct alignas(8) float2 {
  float x, y;  ///< in this order
};
/// The bits from right to left.
inline unsigned __brev(unsigned bits) {
  return bits == 0 ? 0 : (bits & 1u) << 31 | __brev(bits >> 1) >> 1;
}
/// Changes a number by a rule; returns the old one.
template <class Rule>
__forceinline__ unsigned atomic_change(unsigned* address, Rule rule) {
  unsigned old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(address, &old, rule(old), true, 0, 0)) {
  }
  return old;
}
/// The threads of a block that say yes.
FA_UNWATCHED inline int __syncthreads_count(int predicate, SourceLocation at = caller_location()) {
  __shared__ int yes;
  __syncthreads(at);  // all have read the votes before
  yes = 0;
  __syncthreads(at);
  yes += predicate != 0;
  __syncthreads(at);
  return yes;
}
/// @cond
#define FA_CUDA_WORD(result, name, parameters, ...) \
  __forceinline__ result name parameters {          \
    return __VA_ARGS__;                             \
  }
/// @endcond
/// Both of them.
FA_CUDA_WORD(float2, make_float2, (float x, float y), {x, y})
/// The number of bits that are set.
FA_CUDA_WORD(int, __popc, (unsigned bits), __builtin_popcount(bits))
/// @{ Of numbers of any types; the other one where one is NaN.
template <class A, class B, class T = std::common_type_t<A, B>>
FA_CUDA_WORD(T, min, (A a, B b), std::isnan(double(a)) || T(b) < T(a) ? T(b) : T(a))
template <class A, class B, class T = std::common_type_t<A, B>>
FA_CUDA_WORD(T, max, (A a, B b), std::isnan(double(a)) || T(a) < T(b) ? T(b) : T(a))
/// @}
/// @{ On a GPU they are less exact than here.
FA_CUDA_WORD(float, __expf, (float x), std::exp(x))
    FA_CUDA_WORD(float, __logf, (float x), std::log(x))
        FA_CUDA_WORD(float, __fdividef, (float x, float y), x / y)
            FA_CUDA_WORD(float, rsqrtf, (float x), 1 / std::sqrt(x))
    /// @}
    /// @{ Counts around in 0 to n.
    FA_CUDA_WORD(unsigned, atomicInc, (unsigned* address, unsigned n),
                 atomic_change(address, [n](unsigned x) { return x >= n ? 0 : x + 1; }))
        FA_CUDA_WORD(unsigned, atomicDec, (unsigned* address, unsigned n),
                     atomic_change(address,
                                   [n](unsigned x) { return x == 0 || x > n ? n : x - 1; }))
    /// @}
    /// @{ Whether one does, and whether all do.
    FA_CUDA_WORD(int, __syncthreads_or, (int predicate, SourceLocation at = caller_location()),
                 __syncthreads_count(predicate, at) != 0)
        FA_CUDA_WORD(int, __syncthreads_and, (int predicate, SourceLocation at = caller_location()),
                     __syncthreads_count(predicate == 0, at) == 0)
/// @}

}  // namespace fa::FA_TARGET
