#include "common/attention/host/problem.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/gpu/philox.cuh"
#include "common/tensor/random.hpp"

namespace fa::attention {
Tensor<float, 4> rounded(const Tensor<float, 4>& tensor, Type type) {
  return with_type(type,
                   [&](auto zero) { return converted<float>(converted<decltype(zero)>(tensor)); });
}

std::string name_of(Type type) {
  return with_type(type, [](auto zero) { return std::string(FloatTraits<decltype(zero)>::name); });
}

std::string Problem::text() const {
  return fmt::format(
      "{}, batch {}, {} heads, {} KV heads, {} queries, {} keys, head_dim {}{}{}{}{}",
      name_of(type), shape.batch, shape.heads, shape.kv_heads, shape.length_q, shape.length_k,
      shape.head_dim, head_dim_v ? fmt::format(", head_dim_v {}", *head_dim_v) : "",
      causal ? ", causal" : "", dropout > 0 ? fmt::format(", dropout {}", dropout) : "",
      layout == Layout::kLengthFirst ? ", length first" : "");
}

std::string Problem::words() const {
  return fmt::format("{} queries, {} keys, head_dim {}{}", shape.length_q, shape.length_k,
                     shape.head_dim, causal ? ", causal" : "");
}

std::string Problem::group() const {
  return fmt::format("{}, D {}{}", name_of(type), shape.head_dim, causal ? ", causal" : "");
}

Problem problem_of(Type type, const AttentionShape& shape, bool causal, double dropout) {
  Problem problem;
  problem.shape = shape;
  problem.type = type;
  problem.causal = causal;
  problem.dropout = dropout;
  problem.seed = 5;
  return problem;
}

Inputs rounded_inputs(const Problem& problem, const Tensor<float, 4>& q, const Tensor<float, 4>& k,
                      const Tensor<float, 4>& v) {
  return {rounded(q, problem.type), rounded(k, problem.type), rounded(v, problem.type)};
}

Inputs make_inputs(const Problem& problem, Values values, std::uint64_t seed) {
  const Shape<4> of_q = problem.shape_of_q(), of_kv = problem.shape_of_kv();
  auto q = normal_tensor<float, 4>(of_q, 3 * seed);
  auto k = normal_tensor<float, 4>(of_kv, 3 * seed + 1);
  const auto v = normal_tensor<float, 4>(problem.shape_of_v(), 3 * seed + 2);
  if (values == Values::kLarge) {
    // Dot products of normal rows, scaled by 1 / sqrt(head_dim), are about 1.
    for (auto* tensor : {&q, &k}) {
      for (std::int64_t i = 0; i < tensor->count(); ++i) tensor->data()[i] *= 50;
    }
  } else if (values == Values::kRising) {
    // All queries alike; key j has j / 8 in the first column.
    for_each_index(of_q, [&](const Shape<4>& at) {
      q.view()[at] = at[3] == 0 ? 4.0f : 0.125f * q.view()[at];
    });
    for_each_index(of_kv, [&](const Shape<4>& at) {
      if (at[3] == 0) k.view()[at] = 0.125f * static_cast<float>(at[2]);
    });
  }
  return rounded_inputs(problem, q, k, v);
}

Tensor<std::uint8_t, 4> keep_mask(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  Tensor<std::uint8_t, 4> keep({s.batch, s.heads, s.length_q, s.length_k});
  const auto dropout = on_lab::make_dropout(problem.dropout, problem.seed);
  for_each_index(keep.shape(), [&](const Shape<4>& at) {
    const auto head = static_cast<int>(at[0] * s.heads + at[1]);
    keep.view()[at] = dropout.of_weight(head, static_cast<int>(at[2]), static_cast<int>(at[3])) > 0;
  });
  return keep;
}

double error_over_tolerance(const Verdict& verdict) {
  if (verdict.error.invalid > 0) return INFINITY;
  return std::max(verdict.error.max_error / verdict.allowed_max,
                  verdict.error.rms_error / verdict.allowed_rms);
}

}  // namespace fa::attention
