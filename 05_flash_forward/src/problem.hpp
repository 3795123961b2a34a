/// @file
/// The problems of this lesson, on the host: sizes, types, inputs, and how results are checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "01_naive_attention/attention.hpp"
#include "common/check/acceptance.hpp"

namespace fa::flash {

/// Types of q, k, v and o. LSE is always float32.
enum class Type { kFloat32, kFloat16, kBFloat16 };

/// Calls work(T{}) with the host's type: float, half or bfloat16.
template <class Work>
auto with_type(Type type, Work work) {
  switch (type) {
    case Type::kFloat16:
      return work(half{});
    case Type::kBFloat16:
      return work(bfloat16{});
    default:
      return work(float{});
  }
}

/// The type's name for people and in records: "float32", "float16", "bfloat16".
std::string name_of(Type type);

/// How tensors lie in memory.
enum class Layout {
  kHeadsFirst,  ///< [batch, heads, length, head_dim]
  kLengthFirst  ///< [batch, length, heads, head_dim]
};

/// Which inputs are made.
enum class Values {
  kNormal,  ///< standard normal values
  kLarge,   ///< scores of up to about +-1e4
  kRising   ///< the largest score of a row rises from key to key
};

/// An attention problem.
struct Problem {
  AttentionShape shape;                 ///< sizes
  Type type = Type::kFloat32;           ///< of q, k, v and o
  Layout layout = Layout::kHeadsFirst;  ///< on the device
  bool causal = false;                  ///< the mask
  double dropout = 0;      ///< probability of dropping an element of P
  std::uint64_t seed = 0;  ///< of the dropout
  /// Columns of v and o, where these are not shape.head_dim.
  std::optional<std::int64_t> head_dim_v;

  /// One line for people.
  std::string text() const;
  /// @{ The shapes of tensors. Most problems have the same number of columns in all of them.
  Shape<4> shape_of_q() const;
  Shape<4> shape_of_kv() const;
  Shape<4> shape_of_v() const;
  Shape<4> shape_of_o() const;
  /// @}
};

/// Inputs of attention, which the type represents exactly.
struct Inputs {
  Tensor<float, 4> q;  ///< [batch, heads, length_q, head_dim]
  Tensor<float, 4> k;  ///< [batch, kv_heads, length_k, head_dim]
  Tensor<float, 4> v;  ///< [batch, kv_heads, length_k, head_dim_v]
};

/// What a kernel returns.
struct Outputs {
  Tensor<float, 4> o;    ///< [batch, heads, length_q, head_dim_v]
  Tensor<float, 3> lse;  ///< [batch, heads, length_q]
};

/// Random inputs of the problem's sizes and type.
Inputs make_inputs(const Problem& problem, Values values, std::uint64_t seed);

/// The nearest values of a type; any shape.
Tensor<float, 4> rounded(const Tensor<float, 4>& tensor, Type type);

/// Rounds given tensors to the problem's type.
Inputs rounded_inputs(const Problem& problem, const Tensor<float, 4>& q,
                      const Tensor<float, 4>& k, const Tensor<float, 4>& v);

/// The dropout mask that the kernels use: 1 keeps, [batch, heads, length_q, length_k].
Tensor<std::uint8_t, 4> keep_mask(const Problem& problem);

/// Lesson 01's options for a problem. They point into the mask, which must outlive them.
/// @param problem with or without dropout
/// @param keep    filled when there is dropout
AttentionOptions options_of(const Problem& problem,
                            Tensor<std::uint8_t, 4>& keep);

/// Checks the outputs of a kernel, O and LSE, against lesson 01.
class Checker {
 public:
  /// Computes lesson 01 in float64, and in the problem's type.
  /// @throws std::invalid_argument as naive::forward()
  Checker(const Problem& problem, const Inputs& inputs);
  /// The verdicts on O and LSE.
  /// @param name    for the report
  /// @param outputs of the kernel
  /// @throws std::invalid_argument when one has another shape
  std::vector<Verdict> check(const std::string& name,
                             const Outputs& outputs) const;

 private:
  Problem problem_;
  naive::Forward<double> ref_;
  Outputs plain_;
  double score_magnitude_ = 0;  // no sum of |q k| is larger, scaled
};

/// The largest error as a share of what is allowed: at most 1 when it is accepted; infinity for
/// NaN.
double error_over_tolerance(const Verdict& verdict);

}  // namespace fa::flash
