/// @file
/// What the tests of packed attention share: sequences, each a problem of its own, in packed
/// tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/attention/packed.cuh"
#include "common/attention/tests/placed.cuh"

namespace fa::FA_TARGET {
namespace {  // source files for one test program include this

using Lengths = std::vector<std::int32_t>;

// Lengths of queries and of keys.
struct PackedLengths {
  Lengths q, k;
};

// Sequences that are empty, of one token, with other lengths of keys, around tiles' edges; the last
// one ends with a tile.
inline PackedLengths odd_lengths() {
  return {{70, 0, 1, 129, 3, 0, 128}, {70, 5, 1, 40, 0, 0, 200}};
}

inline Lengths running_sum(const Lengths& lengths) {
  Lengths sums{0};
  for (const std::int32_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

// Tensors [1, heads, length, columns] of all sequences, one behind another: [tokens, heads,
// columns], with NaN between the rows.
struct PackedTensor : Placed<fa::bfloat16> {
  PackedTensor(const Lengths& lengths, std::int64_t heads, std::int64_t columns)
      : Placed({1, heads, std::max(1, running_sum(lengths).back()), columns},
               attention::Layout::kLengthFirst, columns + 8),
        begins(running_sum(lengths)) {}
  // Those without elements become zeros.
  void write(const std::vector<Tensor<float, 4>>& sequences) {
    Tensor<float, 4> all(shape);
    std::fill_n(all.data(), all.count(), 0.0f);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (sequences[i].count() > 0) {
        copy(sequences[i].view(), all.view().narrow(2, begins[i], begins[i + 1]));
      }
    }
    Placed::write(all);
  }
  Tensor<float, 4> sequence(const Tensor<float, 4>& all, std::size_t i) const {
    return converted<float>(all.view().narrow(2, begins[i], begins[i + 1]));
  }
  Lengths begins;
};

// The problem of each sequence; tests skip those without queries or keys.
inline std::vector<attention::Problem> packed_problems(const AttentionShape& shape, bool causal,
                                                       const PackedLengths& lengths) {
  std::vector<attention::Problem> result;
  for (std::size_t i = 0; i < lengths.q.size(); ++i) {
    AttentionShape own = shape;
    own.length_q = lengths.q[i], own.length_k = lengths.k[i];
    result.push_back(attention::problem_of(attention::Type::kBFloat16, own, causal));
  }
  return result;
}
inline bool is_empty(const attention::Problem& problem) {
  return problem.shape.length_q == 0 || problem.shape.length_k == 0;
}

// Whether all elements of a tensor are a value.
template <int rank>
bool all_are(const Tensor<float, rank>& tensor, float value) {
  return std::all_of(tensor.data(), tensor.data() + tensor.count(),
                     [=](float x) { return x == value; });
}

}  // namespace
}  // namespace fa::FA_TARGET
