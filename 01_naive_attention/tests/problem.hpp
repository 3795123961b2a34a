/// @file
/// For tests of this lesson and of those that build on it: a problem of attention, random.
#pragma once

#include <cstdint>
#include <optional>

#include "01_naive_attention/attention.hpp"
#include "common/tensor/random.hpp"

namespace fa::testing {

/// Inputs of the forward and the backward pass, and their options, which refer to `keep`.
template <class T>
struct Problem {
  Tensor<T, 4> q, k, v, d_o;
  Tensor<std::uint8_t, 4> keep;
  AttentionOptions options;

  /// @param deviation of Q and K
  Problem(const Shape<4>& q_shape, const Shape<4>& k_shape, bool causal = false, double dropout = 0,
          std::optional<double> scale = {}, std::optional<std::int64_t> head_dim_v = {},
          double deviation = 1)
      : q(normal_tensor<T, 4>(q_shape, 1, deviation)),
        k(normal_tensor<T, 4>(k_shape, 2, deviation)) {
    Shape<4> v_shape = k_shape;
    v_shape[3] = head_dim_v.value_or(k_shape[3]);
    v = normal_tensor<T, 4>(v_shape, 3);
    d_o = normal_tensor<T, 4>(shape_of_o(q_shape, v_shape), 4);
    options.causal = causal;
    options.scale = scale;
    if (dropout > 0) {
      keep = random_keep_mask<4>({q_shape[0], q_shape[1], q_shape[2], k_shape[2]}, dropout, 5);
      options.dropout_keep = keep;
      options.dropout_probability = dropout;
    }
  }
};

}  // namespace fa::testing
