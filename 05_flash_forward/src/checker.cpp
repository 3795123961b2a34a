#include "05_flash_forward/src/checker.hpp"

#include <algorithm>
#include <cmath>

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

double score_magnitude(const AttentionOptions& options, const Inputs& inputs) {
  return options.scale_for(inputs.q.size(3)) * longest_row(inputs.q) * longest_row(inputs.k);
}

std::vector<Verdict> verdicts(const std::string& name, Type type, const Outputs& outputs,
                              const naive::Forward<double>& ref, const Outputs& plain,
                              double magnitude) {
  const double epsilon_of_type =
      with_type(type, [](auto zero) { return epsilon<decltype(zero)>(); });
  return {decide(name + ", o", distance(outputs.o.view(), ref.o.view()),
                 distance(plain.o.view(), ref.o.view()), kForwardFactor, epsilon_of_type),
          decide(name + ", lse", distance(outputs.lse.view(), ref.lse.view()),
                 distance(plain.lse.view(), ref.lse.view()), kForwardFactor, epsilon<float>(),
                 magnitude)};
}

AttentionOptions options_of(const Problem& problem, Tensor<std::uint8_t, 4>& keep) {
  AttentionOptions options;
  options.causal = problem.causal;
  if (problem.dropout > 0) {
    keep = keep_mask(problem);
    options.dropout_keep = keep.view();
    options.dropout_probability = problem.dropout;
  }
  return options;
}

Checker::Checker(const Problem& problem, const Inputs& inputs) : problem_(problem) {
  Tensor<std::uint8_t, 4> keep;
  const AttentionOptions options = options_of(problem, keep);
  const auto attention = [&](auto zero) {
    using T = decltype(zero);
    const auto q = converted<T>(inputs.q), k = converted<T>(inputs.k), v = converted<T>(inputs.v);
    return naive::forward<T>(q.view(), k.view(), v.view(), options);
  };
  score_magnitude_ = score_magnitude(options, inputs);
  ref_ = attention(double{});
  with_type(problem.type, [&](auto zero) {
    const auto plain = attention(zero);
    plain_ = {converted<float>(plain.o), converted<float>(plain.lse)};
  });
}

std::vector<Verdict> Checker::check(const std::string& name, const Outputs& outputs) const {
  return verdicts(name, problem_.type, outputs, ref_, plain_, score_magnitude_);
}

}  // namespace fa::flash
