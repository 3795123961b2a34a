/// @file
/// The decode kernels as the program and the tests see them: from host tensors to host tensors, on
/// each backend that this build has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
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
  /// Queries of each sequence, the first ones of its rows, packed for the kernel; empty: all rows. The
  /// results of other rows are those of rows that see no key.
  std::vector<std::int32_t> lengths_q;
  int page_size = 16;  ///< of kernels with a paged cache; 0: no pages
  int parts = 0;       ///< of the keys, for a kernel that takes their number; 0: it chooses
};

/// The rows of all sequences one behind another, [1, heads, tokens, columns].
inline Tensor<float, 4> packed_rows(const Tensor<float, 4>& rows,
                                    const std::vector<std::int32_t>& lengths) {
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  Tensor<float, 4> result({1, rows.size(1), tokens, rows.size(3)});
  std::int64_t token = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const auto at = static_cast<std::int64_t>(b);
    copy(rows.view().narrow(0, at, at + 1).narrow(2, 0, lengths[b]),
         result.view().narrow(2, token, token + lengths[b]));
    token += lengths[b];
  }
  return result;
}
/// Outputs of packed rows as those of a batch, with `length` rows of each sequence.
inline Outputs unpacked(const Outputs& packed, const std::vector<std::int32_t>& lengths,
                        std::int64_t length) {
  const auto batch = static_cast<std::int64_t>(lengths.size());
  const std::int64_t heads = packed.o.size(1), columns = packed.o.size(3);
  Outputs result{Tensor<float, 4>({batch, heads, length, columns}),
                 Tensor<float, 3>({batch, heads, length})};
  std::fill_n(result.lse.data(), result.lse.count(), -std::numeric_limits<float>::infinity());
  std::int64_t token = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t own = lengths[static_cast<std::size_t>(b)];
    const auto move = [&](const auto& from, auto& to) {
      copy(from.view().narrow(2, token, token + own),
           to.view().narrow(0, b, b + 1).narrow(2, 0, own));
    };
    move(packed.o, result.o), move(packed.lse, result.lse);
    token += own;
  }
  return result;
}

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
          const bool same = inputs.lengths_k.empty() && inputs.lengths_q.empty();
          for (std::int64_t b = 0; b < (same ? 0 : s.batch); ++b) {  // each sequence by itself
            const auto own = [b](auto x) { return x.narrow(0, b, b + 1); };
            const auto length_of = [b](const auto& lengths, std::int64_t most) {
              return lengths.empty()
                         ? most
                         : std::clamp<std::int64_t>(lengths[static_cast<std::size_t>(b)], 0, most);
            };
            const std::int64_t length_q = length_of(inputs.lengths_q, s.length_q);
            const std::int64_t length_k = length_of(inputs.lengths_k, s.length_k);
            const auto o = own(result.o.view());
            const auto lse = own(result.lse.view());
            for_each_index(o.shape(), [&](const Shape<4>& at) { o[at] = T(0); });
            for_each_index(lse.shape(), [&](const Shape<3>& at) {
              lse[at] = -std::numeric_limits<accumulator_t<T>>::infinity();
            });
            if (length_q == 0 || length_k == 0) continue;
            const auto one =
                naive::forward(own(q).narrow(2, 0, length_q), own(k).narrow(2, 0, length_k),
                               own(v).narrow(2, 0, length_k), options);
            copy(one.o.view(), o.narrow(2, 0, length_q));
            copy(one.lse.view(), lse.narrow(2, 0, length_q));
          }
          return result;
        }) {}
};

}  // namespace fa::flash::decode
