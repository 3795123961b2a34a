#include "05_flash_forward/src/decode.hpp"

#include <algorithm>
#include <limits>

namespace fa::flash::decode {

DecodeInputs decode_inputs(const Problem& problem, Values values, std::uint64_t seed) {
  DecodeInputs result;
  static_cast<Inputs&>(result) = make_inputs(problem, values, seed);
  return result;
}

DecodeChecker::DecodeChecker(const Problem& problem, const DecodeInputs& inputs)
    : type_(problem.type) {
  AttentionOptions options;
  options.causal = problem.causal;
  score_magnitude_ = score_magnitude(options, inputs);
  const AttentionShape& s = problem.shape;
  const auto attention = [&](auto zero) {
    using T = decltype(zero);
    const auto q = converted<T>(inputs.q), k = converted<T>(inputs.k), v = converted<T>(inputs.v);
    naive::Forward<T> result{Tensor<T, 4>(shape_of_o(q.shape(), v.shape())),
                             Tensor<accumulator_t<T>, 3>({s.batch, s.heads, s.length_q})};
    std::fill_n(result.lse.data(), result.lse.count(),
                -std::numeric_limits<accumulator_t<T>>::infinity());
    for (std::int64_t b = 0; b < s.batch; ++b) {  // each sequence by itself
      const std::int64_t length =
          inputs.lengths_k.empty()
              ? s.length_k
              : std::clamp<std::int64_t>(inputs.lengths_k[static_cast<std::size_t>(b)], 0,
                                         s.length_k);
      if (length == 0) continue;  // O = 0 and LSE = -infinity
      const auto of = [&](const Tensor<T, 4>& x, std::int64_t rows) {
        return x.view().narrow(0, b, b + 1).narrow(2, 0, rows);
      };
      const auto one = naive::forward<T>(of(q, s.length_q), of(k, length), of(v, length), options);
      copy(one.o.view(), result.o.view().narrow(0, b, b + 1));
      copy(one.lse.view(), result.lse.view().narrow(0, b, b + 1));
    }
    return result;
  };
  ref_ = attention(double{});
  with_type(problem.type, [&](auto zero) {
    const auto plain = attention(zero);
    plain_ = {converted<float>(plain.o), converted<float>(plain.lse)};
  });
}

std::vector<Verdict> DecodeChecker::check(const std::string& name, const Outputs& outputs) const {
  return verdicts(name, type_, outputs, ref_, plain_, score_magnitude_);
}

}  // namespace fa::flash::decode
