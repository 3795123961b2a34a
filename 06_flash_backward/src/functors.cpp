#include "06_flash_backward/src/functors.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/tensor/random.hpp"

namespace fa::backward::functors {
namespace {

ScoreFunctor functor_of(const FunctorInputs& inputs, const AttentionShape& shape) {
  return flash::functors::reference_functor(attention::pointed(inputs.spec, inputs.tables), shape);
}

// The larger of what two distances allow.
template <int Rank>
Distance widened(Distance of, const Tensor<double, Rank>& errors) {
  double largest = 0, squares = 0;
  for (std::int64_t i = 0; i < errors.count(); ++i) {
    largest = std::max(largest, std::abs(errors.data()[i]));
    squares += errors.data()[i] * errors.data()[i];
  }
  of.max_error = std::max(of.max_error, largest);
  const double rms =
      std::sqrt(squares / static_cast<double>(std::max<std::int64_t>(1, errors.count())));
  of.rms_error = std::max(of.rms_error, rms);
  return of;
}

template <int Rank>
Distance distance_of(const Tensor<double, Rank>& out, const Tensor<double, Rank>& ref) {
  return ref.count() == 0 ? Distance{} : distance(out.view(), ref.view());
}

// The dot product of rows of two tensors.
template <class A, class B>
double dot(const A* a, const B* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t e = 0; e < count; ++e) sum += static_cast<double>(a[e]) * b[e];
  return sum;
}

}  // namespace

FunctorInputs functor_inputs(const Problem& problem, const FunctorSpec& spec, Values values,
                             std::uint64_t seed, const flash::functors::ChangeTables& change) {
  FunctorInputs result;
  result.forward = attention::make_inputs(problem, values, seed);
  result.spec = spec;
  result.tables = flash::functors::random_tables(problem, result.spec, seed);
  if (change) change(result.tables);
  const auto q = converted<double>(result.forward.q), k = converted<double>(result.forward.k),
             v = converted<double>(result.forward.v);
  const auto exact =
      naive::forward<double>(q.view(), k.view(), v.view(), functor_of(result, problem.shape));
  result.o = attention::rounded(converted<float>(exact.o), problem.type);
  result.lse = converted<float>(exact.lse);
  result.d_o =
      attention::rounded(normal_tensor<float, 4>(problem.shape_of_o(), ~seed), problem.type);
  return result;
}

template <class A>
Tensor<double, 1> FunctorChecker::bias_gradient(const FunctorInputs& inputs,
                                                const Tensor<A, 4>& d_scores) {
  const FunctorSpec& spec = inputs.spec;
  Tensor<double, 1> result({static_cast<std::int64_t>(inputs.tables.bias.size())});
  if (result.count() == 0) return result;
  for_each_index(d_scores.shape(), [&](const Shape<4>& at) {
    result(at[0] * spec.bias_batch + at[1] * spec.bias_head + at[2] * spec.bias_query + at[3]) +=
        static_cast<double>(d_scores.view()[at]);
  });
  return result;
}

template <class T>
FunctorChecker::Expected FunctorChecker::expected_in(const FunctorInputs& inputs,
                                                     const ScoreFunctor& functor) {
  const auto q = converted<T>(inputs.forward.q), k = converted<T>(inputs.forward.k),
             v = converted<T>(inputs.forward.v), d_o = converted<T>(inputs.d_o);
  const auto g = naive::backward<T>(q.view(), k.view(), v.view(), d_o.view(), functor);
  Tensor<double, 1> d_sinks({static_cast<std::int64_t>(inputs.tables.sinks.size())});
  for (std::int64_t h = 0; h < d_sinks.count(); ++h) d_sinks(h) = g.d_sinks(h);
  return {converted<double>(g.d_q), converted<double>(g.d_k), converted<double>(g.d_v),
          bias_gradient(inputs, g.d_scores), d_sinks};
}

// What the rounding of the O and LSE that the forward pass kept changes: the probabilities
// exp(S' - LSE) are off by the float32 rounding of both, up or down, and delta by that of O.
FunctorChecker::Expected FunctorChecker::errors_of_kept(const FunctorInputs& inputs,
                                                        const ScoreFunctor& functor) {
  const auto q = converted<double>(inputs.forward.q), k = converted<double>(inputs.forward.k),
             v = converted<double>(inputs.forward.v), d_o = converted<double>(inputs.d_o);
  const auto exact = naive::forward<double>(q.view(), k.view(), v.view(), functor);
  const std::int64_t d = q.size(3), group = q.size(1) / k.size(1), length_k = k.size(2);
  const double scale = AttentionOptions{}.scale_for(d);
  Expected errors{Tensor<double, 4>(q.shape()),
                  Tensor<double, 4>(k.shape()),
                  Tensor<double, 4>(v.shape()),
                  {},
                  {}};
  errors.d_sinks = Tensor<double, 1>({static_cast<std::int64_t>(inputs.tables.sinks.size())});
  Tensor<double, 4> of_scores({q.size(0), q.size(1), q.size(2), length_k});
  std::uint64_t drawn = 0;
  for_each_index(exact.lse.shape(), [&](const Shape<3>& at) {
    const auto [b, h, i] = at;
    const double* const q_row = &q(b, h, i, 0);
    const double *const o_row = &exact.o(b, h, i, 0), *const d_o_row = &d_o(b, h, i, 0);
    const double lse = exact.lse(b, h, i), delta = dot(d_o_row, o_row, d);
    double off = 0, summed = 0;
    for (std::int64_t e = 0; e < d; ++e) {
      off += d_o_row[e] * (static_cast<double>(inputs.o(b, h, i, e)) - o_row[e]);
      summed += epsilon<float>() * std::abs(d_o_row[e] * o_row[e]);
    }
    off += std::copysign(summed, off);
    const auto rounding = [&](double magnitude) {
      const double error = epsilon<float>() * (magnitude + std::abs(lse));
      return random_uniform(0, drawn++) < 0.5 ? -error : error;
    };
    if (errors.d_sinks.count() > 0 && lse > -std::numeric_limits<double>::infinity()) {
      const double p = std::exp(functor.sink(h) - lse);
      errors.d_sinks(h) += p * std::abs(off) + p * std::abs(rounding(1) * delta);
    }
    for (std::int64_t j = 0; j < length_k; ++j) {
      if (functor.visible && !functor.visible(b, h, i, j)) continue;
      const double* const k_row = &k(b, h / group, j, 0);
      const double s = scale * dot(q_row, k_row, d);
      const double size = scale * std::sqrt(dot(q_row, q_row, d) * dot(k_row, k_row, d));
      const double changed = functor.score ? functor.score(s, b, h, i, j) : s;
      if (std::isinf(changed)) continue;  // masked
      const double p = std::exp(changed - lse);
      const double error = rounding(size + std::abs(changed - s));
      const double d_s = p * (error * (dot(d_o_row, &v(b, h / group, j, 0), d) - delta) - off);
      of_scores(b, h, i, j) = d_s;
      const double factor =
          scale * d_s * (functor.derivative ? functor.derivative(s, b, h, i, j) : 1);
      for (std::int64_t e = 0; e < d; ++e) {
        errors.d_q(b, h, i, e) += factor * k_row[e];
        errors.d_k(b, h / group, j, e) += factor * q_row[e];
        errors.d_v(b, h / group, j, e) += p * error * d_o_row[e];
      }
    }
  });
  errors.d_bias = bias_gradient(inputs, of_scores);
  return errors;
}

FunctorChecker::FunctorChecker(const Problem& problem, const FunctorInputs& inputs)
    : type_(problem.type) {
  const ScoreFunctor functor = functor_of(inputs, problem.shape);
  ref_ = expected_in<double>(inputs, functor);
  const Expected errors = errors_of_kept(inputs, functor);
  attention::with_type(type_, [&](auto zero) {
    const Expected plain = expected_in<decltype(zero)>(inputs, functor);
    allowed_ = {widened(distance_of(plain.d_q, ref_.d_q), errors.d_q),
                widened(distance_of(plain.d_k, ref_.d_k), errors.d_k),
                widened(distance_of(plain.d_v, ref_.d_v), errors.d_v),
                widened(distance_of(plain.d_bias, ref_.d_bias), errors.d_bias),
                widened(distance_of(plain.d_sinks, ref_.d_sinks), errors.d_sinks)};
  });
}

std::vector<Verdict> FunctorChecker::check(const std::string& name,
                                           const FunctorGradients& gradients) const {
  const double epsilon_of_type =
      attention::with_type(type_, [](auto zero) { return epsilon<decltype(zero)>(); });
  const auto verdict = [&](const char* what, const auto& out, const auto& ref,
                           const Distance& allowed) {
    return decide(name + what, distance(out.view(), ref.view()), allowed, kGradientFactor,
                  epsilon_of_type);
  };
  std::vector<Verdict> all{verdict(", d_q", gradients.d_q, ref_.d_q, allowed_.d_q),
                           verdict(", d_k", gradients.d_k, ref_.d_k, allowed_.d_k),
                           verdict(", d_v", gradients.d_v, ref_.d_v, allowed_.d_v)};
  if (ref_.d_bias.count() > 0) {
    all.push_back(verdict(", d_bias", gradients.d_bias, ref_.d_bias, allowed_.d_bias));
  }
  if (ref_.d_sinks.count() > 0) {
    all.push_back(verdict(", d_sinks", gradients.d_sinks, ref_.d_sinks, allowed_.d_sinks));
  }
  return all;
}

}  // namespace fa::backward::functors
