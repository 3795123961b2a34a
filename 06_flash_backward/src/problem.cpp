#include "06_flash_backward/src/problem.hpp"

#include <cmath>
#include <utility>

#include "05_flash_forward/src/checker.hpp"
#include "common/parallel/parallel_for.hpp"
#include "common/tensor/matrix.hpp"
#include "common/tensor/random.hpp"

namespace fa::backward {
namespace {

// Lesson 01 on a problem's inputs, in T.
template <class T>
naive::Forward<T> forward_in(const attention::Inputs& in, const AttentionOptions& options) {
  const auto q = converted<T>(in.q), k = converted<T>(in.k), v = converted<T>(in.v);
  return naive::forward<T>(q.view(), k.view(), v.view(), options);
}
template <class T>
naive::Gradients<T> backward_in(const Inputs& in, const AttentionOptions& options) {
  const auto q = converted<T>(in.forward.q), k = converted<T>(in.forward.k),
             v = converted<T>(in.forward.v), d_o = converted<T>(in.d_o);
  return naive::backward<T>(q.view(), k.view(), v.view(), d_o.view(), options);
}

// By how much delta, as a kernel computes it, is off: O was rounded, and the sum is one of float32.
template <class Rows>
Vector<double> errors_of_delta(const Rows& o, const Rows& rounded_o, const Rows& d_o) {
  Vector<double> result(o.rows());
  for (Eigen::Index i = 0; i < o.rows(); ++i) {
    const double saved = d_o.row(i).dot(rounded_o.row(i) - o.row(i));
    const double summed = epsilon<float>() * d_o.row(i).cwiseAbs().dot(o.row(i).cwiseAbs());
    result[i] = saved + std::copysign(summed, saved);
  }
  return result;
}

}  // namespace

Inputs with_forward(const Problem& problem, attention::Inputs forward, std::uint64_t seed) {
  Tensor<std::uint8_t, 4> keep;
  const auto exact = forward_in<double>(forward, flash::options_of(problem, keep));
  const auto d_o = normal_tensor<float, 4>(problem.shape_of_o(), seed);
  return {std::move(forward), attention::rounded(converted<float>(exact.o), problem.type),
          converted<float>(exact.lse), attention::rounded(d_o, problem.type)};
}

naive::FunctorGradients<double> errors_of_kept(const Inputs& in,
                                               const naive::Forward<double>& exact,
                                               const ScoreFunctor& functor,
                                               const AttentionOptions& options) {
  const auto q = converted<double>(in.forward.q), k = converted<double>(in.forward.k),
             v = converted<double>(in.forward.v), rounded_o = converted<double>(in.o),
             d_o = converted<double>(in.d_o);
  const std::int64_t heads = q.size(1), group = heads / k.size(1);
  const double scale = options.scale_for(q.size(3));
  naive::FunctorGradients<double> errors;
  errors.d_q = Tensor<double, 4>(q.shape());
  errors.d_k = Tensor<double, 4>(k.shape());
  errors.d_v = Tensor<double, 4>(v.shape());
  errors.d_scores = Tensor<double, 4>({q.size(0), heads, q.size(2), k.size(2)});
  errors.d_sinks = Tensor<double, 1>({heads});
  const auto add_head = [&](std::int64_t b, std::int64_t h) {
    const auto of_q = [&](auto& x) { return as_matrix(x.view().at(b).at(h)); };
    const auto of_k = [&](auto& x) { return as_matrix(x.view().at(b).at(h / group)); };
    const auto queries = of_q(q), o = of_q(exact.o), d_outputs = of_q(d_o);
    const auto keys = of_k(k);
    const Vector<double> delta = d_outputs.cwiseProduct(o).rowwise().sum();
    const Vector<double> off = errors_of_delta(o, of_q(std::as_const(rounded_o)), d_outputs);
    const double longest_key = keys.rowwise().norm().maxCoeff();
    const Matrix<double> s = scale * queries * keys.transpose();
    Matrix<double> d_s = d_outputs * of_k(v).transpose();  // dP so far
    Matrix<double> p_errors = Matrix<double>::Zero(s.rows(), s.cols());
    for (Eigen::Index i = 0; i < s.rows(); ++i) {
      const double lse = exact.lse(b, h, i);
      // By Cauchy and Schwarz no sum of terms of a score is larger.
      const double size = scale * longest_key * queries.row(i).norm();
      if (functor.sink && !std::isinf(lse)) {
        const double rounding = epsilon<float>() * (1 + std::abs(lse)) * delta[i];
        errors.d_sinks(h) +=
            std::exp(functor.sink(h) - lse) * (std::abs(off[i]) + std::abs(rounding));
      }
      for (Eigen::Index j = 0; j < s.cols(); ++j) {
        const double d_p = std::exchange(d_s(i, j), 0);
        if (functor.visible && !functor.visible(b, h, i, j)) continue;
        const double changed = functor.score ? functor.score(s(i, j), b, h, i, j) : s(i, j);
        if (std::isinf(changed)) continue;  // masked
        const auto at = static_cast<std::uint64_t>(((b * heads + h) * s.rows() + i) * s.cols() + j);
        const double most = epsilon<float>() * (size + std::abs(changed - s(i, j)));
        const double error = random_uniform(0, at) < 0.5 ? -most : most;
        const double p = std::exp(changed - lse);
        double kept = 1;
        if (options.dropout_keep.data() != nullptr) {
          kept = options.dropout_keep.data()[at] / (1 - options.dropout_probability);
        }
        const double of_score = p * (error * (kept * d_p - delta[i]) - off[i]);
        errors.d_scores(b, h, i, j) = of_score;
        d_s(i, j) = of_score * (functor.derivative ? functor.derivative(s(i, j), b, h, i, j) : 1);
        p_errors(i, j) = p * error * kept;
      }
    }
    of_q(errors.d_q) = scale * d_s * keys;
    of_k(errors.d_k) += scale * d_s.transpose() * queries;
    of_k(errors.d_v) += p_errors.transpose() * d_outputs;
  };
  parallel_for(k.size(1), [&](std::int64_t kv_head) {
    for (std::int64_t b = 0; b < q.size(0); ++b) {
      for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) add_head(b, h);
    }
  });
  return errors;
}

Inputs make_inputs(const Problem& problem, Values values, std::uint64_t seed) {
  // attention::make_inputs() takes the seeds 3 seed to 3 seed + 2.
  return with_forward(problem, attention::make_inputs(problem, values, seed), ~seed);
}

Checker::Checker(const Problem& problem, const Inputs& inputs) : type_(problem.type) {
  Tensor<std::uint8_t, 4> keep;
  const AttentionOptions options = flash::options_of(problem, keep);
  ref_ = backward_in<double>(inputs, options);
  ScoreFunctor functor;
  if (problem.causal) {
    const std::int64_t last = problem.shape.length_k - problem.shape.length_q;
    functor.visible = [last](auto, auto, auto i, auto j) { return j <= i + last; };
  }
  const auto errors =
      errors_of_kept(inputs, forward_in<double>(inputs.forward, options), functor, options);
  attention::with_type(type_, [&](auto zero) {
    const auto plain = backward_in<decltype(zero)>(inputs, options);
    plain_ = {allowed_distance(plain.d_q, ref_.d_q, errors.d_q),
              allowed_distance(plain.d_k, ref_.d_k, errors.d_k),
              allowed_distance(plain.d_v, ref_.d_v, errors.d_v)};
  });
}

std::vector<Verdict> Checker::check(const std::string& name, const Gradients& gradients) const {
  const double epsilon_of_type =
      attention::with_type(type_, [](auto zero) { return epsilon<decltype(zero)>(); });
  const auto verdict = [&](const char* what, const Tensor<float, 4>& out,
                           const Tensor<double, 4>& ref, const Distance& plain) {
    return decide(name + what, distance(out.view(), ref.view()), plain, kGradientFactor,
                  epsilon_of_type);
  };
  return {verdict(", d_q", gradients.d_q, ref_.d_q, plain_[0]),
          verdict(", d_k", gradients.d_k, ref_.d_k, plain_[1]),
          verdict(", d_v", gradients.d_v, ref_.d_v, plain_[2])};
}

}  // namespace fa::backward
