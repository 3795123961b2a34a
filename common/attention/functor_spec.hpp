/// @file
/// Which of the functors in score_functors.cuh a kernel is given, and with which parameters.
#pragma once

#include <cstdint>

namespace fa {

/// The functors that kernels are compiled for.
enum class FunctorKind {
  kPlain,
  kCausal,
  kWindow,       ///< left, right
  kPrefix,       ///< prefix; every query sees it, and the keys that are not after it
  kDocuments,    ///< documents; left, right
  kAlibi,        ///< slopes; left, right
  kSoftCap,      ///< cap; left, right
  kBias,         ///< bias, d_bias and their strides; left, right
  kSinks,        ///< sinks, d_sinks; left, right
  kBlockSparse,  ///< blocks, block_size
  kBits          ///< bits
};

/// A functor's kind and parameters; the pointers are of the memory where it runs.
struct FunctorSpec {
  FunctorKind kind = FunctorKind::kPlain;
  /// @{ A window: query i sees keys from i + length_k - length_q - left up to
  /// i + length_k - length_q + right; -1: no limit on this side.
  int left = -1, right = -1;
  /// @}
  int prefix = 0;                              ///< keys
  float cap = 1;                               ///< of the soft cap, more than 0
  bool dual = false;                           ///< kSoftCap, backward: see WithDual
  int block_size = 1;                          ///< queries and keys of a block
  std::int64_t bias_batch = 0, bias_head = 0;  ///< strides, 0 to broadcast
  std::int64_t bias_query = 0;                 ///< stride
  /// [batch, length_k, 2]: where the document of each token begins and ends.
  const std::int32_t* documents = nullptr;
  const float* slopes = nullptr;          ///< [heads]
  const float* sinks = nullptr;           ///< [heads]
  float* d_sinks = nullptr;               ///< [heads]
  const float* bias = nullptr;            ///< by its strides; keys are neighbours
  float* d_bias = nullptr;                ///< as bias
  const unsigned char* blocks = nullptr;  ///< [heads, blocks of queries, of keys]
  const std::uint32_t* bits = nullptr;    ///< [batch, length_q, words of 32 keys]
};

}  // namespace fa
