/// @file
/// Random numbers that depend on a seed and a position alone: both are enough to make them again,
/// in any order, on a GPU or on the CPU.
///
/// Source: Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011:
/// Philox4x32 with ten rounds.
#pragma once

#include <algorithm>

#include "common/gpu/kernel.cuh"

namespace fa::FA_TARGET {

/// Four words of 32 bits.
struct Words4 {
  std::uint32_t x, y, z, w;  ///< the words
};

/// Four random words of 32 bits for a counter and a key: Philox4x32-10.
// clang-format off
//! [philox]
__host__ __device__ inline Words4 philox(Words4 counter, std::uint64_t key) {
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xd2511f53u} * counter.x;
    const std::uint64_t p1 = std::uint64_t{0xcd9e8d57u} * counter.z;
    const auto high0 = static_cast<std::uint32_t>(p0 >> 32);
    const auto high1 = static_cast<std::uint32_t>(p1 >> 32);
    counter = {high1 ^ counter.y ^ key0, static_cast<std::uint32_t>(p1),
               high0 ^ counter.w ^ key1, static_cast<std::uint32_t>(p0)};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return counter;
}
//! [philox]
// clang-format on

/// Which attention probabilities are dropped. Each has its own random word; four neighbours of a
/// row share one call of philox().
struct Dropout {
  /// A probability is dropped when its word is below; 0: none is.
  std::uint32_t threshold = 0;
  float factor = 1;        ///< of those that are kept
  std::uint64_t seed = 0;  ///< of all words

  /// The words of keys 4 quad .. 4 quad + 3 of a query; `head` is batch * heads + head.
  __host__ __device__ Words4 words(int head, int query, int quad) const {
    return philox({static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(query),
                   static_cast<std::uint32_t>(head), 0u},
                  seed);
  }
  /// What P of a query and a key is multiplied by: 0, or the factor of those that are kept.
  //! [of_weight]
  __host__ __device__ float of_weight(int head, int query, int key) const {
    if (threshold == 0) return 1;
    const Words4 four = words(head, query, key / 4);
    const std::uint32_t word = key % 4 == 0   ? four.x
                               : key % 4 == 1 ? four.y
                               : key % 4 == 2 ? four.z
                                              : four.w;
    return word < threshold ? 0.0f : factor;
  }
  //! [of_weight]
};

/// Dropout with a probability; none, with threshold 0, for probability 0.
/// @param probability 0 to below 1; rounded to a multiple of 2^-32
inline Dropout make_dropout(double probability, std::uint64_t seed) {
  Dropout result;
  // Close to 1 the threshold would be 2^32, which does not fit a word.
  result.threshold =
      static_cast<std::uint32_t>(std::min(probability * 4294967296.0 + 0.5, 4294967295.0));
  result.factor = static_cast<float>(1 / (1 - probability));
  result.seed = seed;
  return result;
}

}  // namespace fa::FA_TARGET
