/// @file
/// The problems of lessons 05 and 06, on the host: sizes, types, inputs of the forward pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/attention/functor_spec.hpp"
#include "common/attention/shape.hpp"
#include "common/check/acceptance.hpp"

namespace fa::attention {

/// Types of q, k, v and o. LSE is always float32.
enum class Type { kFloat32, kFloat16, kBFloat16 };

/// All of them.
inline constexpr Type kTypes[] = {Type::kFloat32, Type::kFloat16, Type::kBFloat16};

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
  AttentionShape shape;
  Type type = Type::kFloat32;           ///< of q, k, v and o
  Layout layout = Layout::kHeadsFirst;  ///< on the device
  bool causal = false;
  double dropout = 0;      ///< probability of dropping an element of P
  std::uint64_t seed = 0;  ///< of the dropout
  /// Columns of v and o, where these are not shape.head_dim.
  std::optional<std::int64_t> head_dim_v;

  /// Columns of v and o.
  std::int64_t columns_v() const { return head_dim_v.value_or(shape.head_dim); }
  /// One line for people, with all that is said above.
  std::string text() const;
  /// The sizes: "256 queries, 512 keys, head_dim 128, causal".
  std::string words() const;
  /// What it computes beside its lengths: "bfloat16, D 64, causal".
  std::string group() const;
  /// @{ The shapes of tensors.
  Shape<4> shape_of_q() const { return {shape.batch, shape.heads, shape.length_q, shape.head_dim}; }
  Shape<4> shape_of_kv() const {
    return {shape.batch, shape.kv_heads, shape.length_k, shape.head_dim};
  }
  Shape<4> shape_of_v() const { return {shape.batch, shape.kv_heads, shape.length_k, columns_v()}; }
  Shape<4> shape_of_o() const { return {shape.batch, shape.heads, shape.length_q, columns_v()}; }
  /// @}
};

/// A problem whose dropout has the seed 5.
Problem problem_of(Type type, const AttentionShape& shape, bool causal = false, double dropout = 0);

/// Inputs of attention, which the type represents exactly.
struct Inputs {
  Tensor<float, 4> q;  ///< [batch, heads, length_q, head_dim]
  Tensor<float, 4> k;  ///< [batch, kv_heads, length_k, head_dim]
  Tensor<float, 4> v;  ///< [batch, kv_heads, length_k, head_dim_v]
};

/// What the kernels of a forward pass return.
struct Outputs {
  Tensor<float, 4> o;    ///< [batch, heads, length_q, head_dim_v]
  Tensor<float, 3> lse;  ///< [batch, heads, length_q]
};

/// Random inputs of the problem's sizes and type.
Inputs make_inputs(const Problem& problem, Values values, std::uint64_t seed);

/// The nearest values of a type; any shape.
Tensor<float, 4> rounded(const Tensor<float, 4>& tensor, Type type);

/// Rounds given tensors to the problem's type.
Inputs rounded_inputs(const Problem& problem, const Tensor<float, 4>& q, const Tensor<float, 4>& k,
                      const Tensor<float, 4>& v);

/// The dropout mask that the kernels use: 1 keeps, [batch, heads, length_q, length_k].
Tensor<std::uint8_t, 4> keep_mask(const Problem& problem);

/// The largest error as a fraction of the tolerance: at most 1 when it is accepted; infinity for
/// NaN.
double error_over_tolerance(const Verdict& verdict);

/// A functor whose pointers are to tables of these names, which must outlive it; without gradients.
template <class Tables>
FunctorSpec pointed(FunctorSpec spec, const Tables& tables) {
  spec.documents = tables.documents.data();
  spec.slopes = tables.slopes.data();
  spec.sinks = tables.sinks.data();
  spec.bias = tables.bias.data();
  spec.blocks = tables.blocks.data();
  spec.bits = tables.bits.data();
  return spec;
}
/// What the pointers of a FunctorSpec point to; empty where its kind has no use for it.
struct FunctorTables {
  std::vector<std::int32_t> documents{};
  std::vector<float> slopes{}, sinks{}, bias{};
  std::vector<unsigned char> blocks{};
  std::vector<std::uint32_t> bits{};
};

}  // namespace fa::attention
