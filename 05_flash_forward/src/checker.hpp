/// @file
/// Lesson 01 as the reference of the kernels: the outputs of the forward pass are checked against
/// it.
#pragma once

#include <string>
#include <vector>

#include "01_naive_attention/attention.hpp"
#include "common/attention/host/problem.hpp"
#include "common/tensor/matrix.hpp"

namespace fa::flash {

using namespace attention;  // problems and steps, which lesson 06 has as well

/// Lesson 01's options for a problem. They point into the mask, which must outlive them.
/// @param keep    filled when there is dropout
inline AttentionOptions options_of(const Problem& problem, Tensor<std::uint8_t, 4>& keep) {
  AttentionOptions options;
  options.causal = problem.causal;
  if (problem.dropout > 0) {
    keep = keep_mask(problem);
    options.dropout_keep = keep.view();
    options.dropout_probability = problem.dropout;
  }
  return options;
}

/// The rows of all heads of a tensor as a matrix of float64.
inline Matrix<double> all_rows(const Tensor<float, 4>& tensor) {
  const std::int64_t columns = tensor.size(3);
  const View<const float, 2> rows(tensor.data(), {tensor.count() / columns, columns});
  return as_matrix(rows).cast<double>();
}

/// No sum of |q k| is larger, with lesson 01's scale: a bound by Cauchy and Schwarz. A score is a sum
/// whose terms may cancel, so its rounding errors go by them.
inline double score_magnitude(const Inputs& inputs) {
  const auto longest_row = [](const Tensor<float, 4>& tensor) {
    return all_rows(tensor).rowwise().norm().maxCoeff();
  };
  return AttentionOptions{}.scale_for(inputs.q.size(3)) * longest_row(inputs.q) *
         longest_row(inputs.k);
}

/// Checks the outputs of a kernel, O and LSE, against lesson 01.
class Checker {
 public:
  /// Computes lesson 01 in float64, and in the problem's type.
  /// @throws std::invalid_argument as naive::forward()
  Checker(const Problem& problem, const Inputs& inputs)
      : Checker(problem.type, inputs, [&](auto q, auto k, auto v) {
          Tensor<std::uint8_t, 4> keep;
          return naive::forward(q, k, v, options_of(problem, keep));
        }) {}
  /// The verdicts on O and LSE.
  /// @throws std::invalid_argument when one has another shape
  std::vector<Verdict> check(const std::string& name, const Outputs& outputs) const {
    const double epsilon_of_type =
        with_type(type_, [](auto zero) { return epsilon<decltype(zero)>(); });
    return {decide(name + ", o", distance(outputs.o.view(), ref_.o.view()),
                   distance(plain_.o.view(), ref_.o.view()), kForwardFactor, epsilon_of_type),
            decide(name + ", lse", distance(outputs.lse.view(), ref_.lse.view()),
                   distance(plain_.lse.view(), ref_.lse.view()), kForwardFactor, epsilon<float>(),
                   score_magnitude_)};
  }

 protected:
  /// With another form of attention.
  /// @param forward forward(q, k, v) computes it, in the type of their elements
  template <class Forward>
  Checker(Type type, const Inputs& inputs, Forward forward)
      : type_(type), score_magnitude_(score_magnitude(inputs)) {
    const auto attention = [&](auto zero) {
      using T = decltype(zero);
      const auto q = converted<T>(inputs.q), k = converted<T>(inputs.k), v = converted<T>(inputs.v);
      using In = View<const T, 4>;
      return forward(In(q.view()), In(k.view()), In(v.view()));
    };
    ref_ = attention(double{});
    with_type(type, [&](auto zero) {
      const auto plain = attention(zero);
      plain_ = {converted<float>(plain.o), converted<float>(plain.lse)};
    });
  }

 private:
  Type type_;
  naive::Forward<double> ref_;
  Outputs plain_;
  double score_magnitude_;
};

}  // namespace fa::flash
