#include "06_flash_backward/src/functors.hpp"

#include "common/tensor/random.hpp"

namespace fa::backward::functors {
namespace {

ScoreFunctor functor_of(const FunctorInputs& inputs, const AttentionShape& shape) {
  return flash::functors::reference_functor(attention::pointed(inputs.spec, inputs.tables), shape);
}

// O and LSE by lesson 01 in float64.
naive::Forward<double> exact_forward(const FunctorInputs& inputs, const AttentionShape& shape) {
  const auto q = converted<double>(inputs.forward.q), k = converted<double>(inputs.forward.k),
             v = converted<double>(inputs.forward.v);
  return naive::forward<double>(q.view(), k.view(), v.view(), functor_of(inputs, shape));
}

}  // namespace

FunctorInputs functor_inputs(const Problem& problem, const FunctorSpec& spec, Values values,
                             std::uint64_t seed, const flash::functors::ChangeTables& change) {
  FunctorInputs result;
  result.forward = attention::make_inputs(problem, values, seed);
  result.spec = spec;
  result.tables = flash::functors::random_tables(problem, result.spec, seed);
  if (change) change(result.tables);
  const auto exact = exact_forward(result, problem.shape);
  result.o = attention::rounded(converted<float>(exact.o), problem.type);
  result.lse = converted<float>(exact.lse);
  result.d_o =
      attention::rounded(normal_tensor<float, 4>(problem.shape_of_o(), ~seed), problem.type);
  return result;
}

template <class G>
FunctorChecker::Expected FunctorChecker::expected_of(const FunctorInputs& inputs, const G& g) {
  const FunctorSpec& spec = inputs.spec;
  Expected all{converted<double>(g.d_q), converted<double>(g.d_k), converted<double>(g.d_v),
               Tensor<double, 1>({static_cast<std::int64_t>(inputs.tables.bias.size())}),
               Tensor<double, 1>({static_cast<std::int64_t>(inputs.tables.sinks.size())})};
  for_each_index(all.d_bias.count() == 0 ? Shape<4>{} : g.d_scores.shape(), [&](const auto& at) {
    all.d_bias(at[0] * spec.bias_batch + at[1] * spec.bias_head + at[2] * spec.bias_query +
               at[3]) += static_cast<double>(g.d_scores.view()[at]);
  });
  for (std::int64_t h = 0; h < all.d_sinks.count(); ++h) all.d_sinks(h) = g.d_sinks(h);
  return all;
}

FunctorChecker::FunctorChecker(const Problem& problem, const FunctorInputs& inputs)
    : type_(problem.type) {
  const ScoreFunctor functor = functor_of(inputs, problem.shape);
  const auto expected_in = [&](auto zero) {
    using T = decltype(zero);
    const auto q = converted<T>(inputs.forward.q), k = converted<T>(inputs.forward.k),
               v = converted<T>(inputs.forward.v), d_o = converted<T>(inputs.d_o);
    return expected_of(inputs,
                       naive::backward<T>(q.view(), k.view(), v.view(), d_o.view(), functor));
  };
  ref_ = expected_in(double{});
  const Expected errors =
      expected_of(inputs, errors_of_kept(inputs, exact_forward(inputs, problem.shape), functor));
  attention::with_type(type_, [&](auto zero) {
    const Expected plain = expected_in(zero);
    const auto allowed = [&](auto part) {
      if ((ref_.*part).count() == 0) return Distance{};
      return allowed_distance(plain.*part, ref_.*part, errors.*part);
    };
    allowed_ = {allowed(&Expected::d_q), allowed(&Expected::d_k), allowed(&Expected::d_v),
                allowed(&Expected::d_bias), allowed(&Expected::d_sinks)};
  });
}

std::vector<Verdict> FunctorChecker::check(const std::string& name,
                                           const FunctorGradients& gradients) const {
  const double epsilon_of_type =
      attention::with_type(type_, [](auto zero) { return epsilon<decltype(zero)>(); });
  std::vector<Verdict> all;
  const auto add = [&](const char* what, const auto& out, const auto& ref,
                       const Distance& allowed) {
    if (ref.count() == 0) return;
    all.push_back(decide(name + what, distance(out.view(), ref.view()), allowed, kGradientFactor,
                         epsilon_of_type));
  };
  add(", d_q", gradients.d_q, ref_.d_q, allowed_[0]);
  add(", d_k", gradients.d_k, ref_.d_k, allowed_[1]);
  add(", d_v", gradients.d_v, ref_.d_v, allowed_[2]);
  add(", d_bias", gradients.d_bias, ref_.d_bias, allowed_[3]);
  add(", d_sinks", gradients.d_sinks, ref_.d_sinks, allowed_[4]);
  return all;
}

}  // namespace fa::backward::functors
