/// @file
/// The decode kernels as the program and the tests see them: from host tensors to host tensors, on
/// each backend that this build has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "05_flash_forward/src/checker.hpp"
#include "common/attention/host/step.hpp"

namespace fa::flash::decode {

/// Queries, and a cache of keys and values. The problem's length_k is the most that a sequence can
/// have.
struct DecodeInputs : Inputs {
  /// Keys of each sequence; empty: all have length_k. A kernel takes the nearest length that is
  /// allowed, 0 to length_k.
  std::vector<std::int32_t> lengths_k;
  int page_size = 16;  ///< of kernels with a paged cache
};

/// One step of the ladder of decode kernels.
using LadderStep = attention::LadderStep<DecodeInputs, Outputs>;
/// What runs decode kernels.
using Backend = LadderBackend<LadderStep>;

/// The backends of this build: the lab first.
std::vector<Backend> backends();

/// Random inputs of a problem.
inline DecodeInputs decode_inputs(const Problem& problem, Values values, std::uint64_t seed) {
  DecodeInputs result;
  static_cast<Inputs&>(result) = make_inputs(problem, values, seed);
  return result;
}

/// Checks O and LSE against lesson 01.
struct DecodeChecker : Checker {
  /// Computes lesson 01 in float64, and in the problem's type.
  /// @throws std::invalid_argument as naive::forward()
  DecodeChecker(const Problem& problem, const DecodeInputs& inputs)
      : Checker(problem.type, inputs, [&](auto q, auto k, auto v) {
          const AttentionShape& s = problem.shape;
          AttentionOptions options;
          options.causal = problem.causal;
          auto result = naive::forward(q, k, v, options);  // of sequences with all keys
          using T = std::decay_t<decltype(*result.o.data())>;
          for (std::size_t b = 0; b < inputs.lengths_k.size(); ++b) {  // each sequence by itself
            const auto own = [b](auto x) {
              return x.narrow(0, static_cast<std::int64_t>(b), static_cast<std::int64_t>(b) + 1);
            };
            const auto length = std::clamp<std::int64_t>(inputs.lengths_k[b], 0, s.length_k);
            naive::Forward<T> one{Tensor<T, 4>({1, s.heads, s.length_q, v.size(3)}),
                                  Tensor<accumulator_t<T>, 3>({1, s.heads, s.length_q})};
            std::fill_n(one.lse.data(), one.lse.count(),
                        -std::numeric_limits<accumulator_t<T>>::infinity());
            if (length > 0) {
              one = naive::forward(own(q), own(k).narrow(2, 0, length), own(v).narrow(2, 0, length),
                                   options);
            }
            copy(one.o.view(), own(result.o.view()));
            copy(one.lse.view(), own(result.lse.view()));
          }
          return result;
        }) {}
};

}  // namespace fa::flash::decode
