#include "05_flash_forward/src/problem.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "common/gpu/philox.cuh"
#include "common/tensor/random.hpp"

namespace fa::flash {
namespace {

// The largest length of a row.
double longest_row(const Tensor<float, 4>& tensor) {
  double longest = 0, sum = 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (i % tensor.size(3) == 0) sum = 0;
    sum += std::pow(static_cast<double>(tensor.data()[i]), 2);
    longest = std::max(longest, sum);
  }
  return std::sqrt(longest);
}

}  // namespace

Tensor<float, 4> rounded(const Tensor<float, 4>& tensor, Type type) {
  return with_type(type, [&](auto zero) {
    return converted<float>(converted<decltype(zero)>(tensor));
  });
}

std::string name_of(Type type) {
  return with_type(type, [](auto zero) {
    return std::string(FloatTraits<decltype(zero)>::name);
  });
}

std::string Problem::text() const {
  return fmt::format(
      "{}, batch {}, {} heads, {} KV heads, {} queries, {} keys, head_dim "
      "{}{}{}{}{}",
      name_of(type), shape.batch, shape.heads, shape.kv_heads, shape.length_q,
      shape.length_k, shape.head_dim,
      head_dim_v ? fmt::format(", head_dim_v {}", *head_dim_v) : "",
      causal ? ", causal" : "",
      dropout > 0 ? fmt::format(", dropout {}", dropout) : "",
      layout == Layout::kLengthFirst ? ", length first" : "");
}

Shape<4> Problem::shape_of_q() const {
  return {shape.batch, shape.heads, shape.length_q, shape.head_dim};
}

Shape<4> Problem::shape_of_kv() const {
  return {shape.batch, shape.kv_heads, shape.length_k, shape.head_dim};
}

Shape<4> Problem::shape_of_v() const {
  return {shape.batch, shape.kv_heads, shape.length_k,
          head_dim_v.value_or(shape.head_dim)};
}

Shape<4> Problem::shape_of_o() const {
  return fa::shape_of_o(shape_of_q(), shape_of_v());
}

Inputs rounded_inputs(const Problem& problem, const Tensor<float, 4>& q,
                      const Tensor<float, 4>& k, const Tensor<float, 4>& v) {
  return {rounded(q, problem.type), rounded(k, problem.type),
          rounded(v, problem.type)};
}

Inputs make_inputs(const Problem& problem, Values values,
                   std::uint64_t seed) {
  const Shape<4> of_q = problem.shape_of_q(), of_kv = problem.shape_of_kv();
  auto q = normal_tensor<float, 4>(of_q, 3 * seed);
  auto k = normal_tensor<float, 4>(of_kv, 3 * seed + 1);
  const auto v = normal_tensor<float, 4>(problem.shape_of_v(), 3 * seed + 2);
  if (values == Values::kLarge) {
    // Products of normal rows, scaled by 1 / sqrt(head_dim), are about 1.
    for (auto* tensor : {&q, &k}) {
      for (std::int64_t i = 0; i < tensor->count(); ++i) {
        tensor->data()[i] *= 50;
      }
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
    keep.view()[at] = dropout.of_weight(head, static_cast<int>(at[2]),
                                        static_cast<int>(at[3])) > 0;
  });
  return keep;
}

AttentionOptions options_of(const Problem& problem,
                            Tensor<std::uint8_t, 4>& keep) {
  AttentionOptions options;
  options.causal = problem.causal;
  if (problem.dropout > 0) {
    keep = keep_mask(problem);
    options.dropout_keep = keep.view();
    options.dropout_probability = problem.dropout;
  }
  return options;
}

Checker::Checker(const Problem& problem, const Inputs& inputs)
    : problem_(problem) {
  Tensor<std::uint8_t, 4> keep;
  const AttentionOptions options = options_of(problem, keep);
  const auto attention = [&](auto zero) {
    using T = decltype(zero);
    const auto q = converted<T>(inputs.q), k = converted<T>(inputs.k),
               v = converted<T>(inputs.v);
    return naive::forward<T>(q.view(), k.view(), v.view(), options);
  };
  // By Cauchy and Schwarz. A score is a sum whose terms may cancel, so its rounding errors go by
  // them.
  score_magnitude_ = options.scale_for(problem.shape.head_dim) *
                     longest_row(inputs.q) * longest_row(inputs.k);
  ref_ = attention(double{});
  with_type(problem.type, [&](auto zero) {
    const auto plain = attention(zero);
    plain_ = {converted<float>(plain.o), converted<float>(plain.lse)};
  });
}

std::vector<Verdict> Checker::check(const std::string& name,
                                    const Outputs& outputs) const {
  const double epsilon_of_type = with_type(
      problem_.type, [](auto zero) { return epsilon<decltype(zero)>(); });
  return {
      decide(name + ", o", distance(outputs.o.view(), ref_.o.view()),
             distance(plain_.o.view(), ref_.o.view()), kForwardFactor,
             epsilon_of_type),
      decide(name + ", lse", distance(outputs.lse.view(), ref_.lse.view()),
             distance(plain_.lse.view(), ref_.lse.view()), kForwardFactor,
             epsilon<float>(), score_magnitude_)};
}

double error_over_tolerance(const Verdict& verdict) {
  if (verdict.error.invalid > 0) return INFINITY;
  return std::max(verdict.error.max_error / verdict.allowed_max,
                  verdict.error.rms_error / verdict.allowed_rms);
}

}  // namespace fa::flash
