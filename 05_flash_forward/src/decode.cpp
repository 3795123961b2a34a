#include "05_flash_forward/src/decode.hpp"

#include <algorithm>

#include "01_naive_attention/ragged.hpp"

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
  // A cache in which each sequence has one page.
  const AttentionShape& s = problem.shape;
  BlockTable table{Tensor<std::int32_t, 2>({s.batch, 1}), inputs.lengths_k};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    table.pages(b, 0) = static_cast<std::int32_t>(b);
  }
  const auto most = static_cast<std::int32_t>(s.length_k);
  if (table.lengths.empty()) table.lengths.assign(static_cast<std::size_t>(s.batch), most);
  for (std::int32_t& length : table.lengths) length = std::clamp(length, 0, most);
  const auto attention = [&](auto zero) {
    using T = decltype(zero);
    const auto q = converted<T>(inputs.q), k = converted<T>(inputs.k), v = converted<T>(inputs.v);
    return naive::forward_paged<T>(q, View<const T, 4>(k.view()).swap_axes(1, 2),
                                   View<const T, 4>(v.view()).swap_axes(1, 2), table, options);
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
