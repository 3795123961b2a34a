#include "06_flash_backward/src/problem.hpp"

#include <algorithm>
#include <array>
#include <cmath>

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

using Rows = Eigen::Map<const Matrix<double>>;

Rows rows_of(const Tensor<double, 4>& tensor, std::int64_t head) {
  const Shape<4>& shape = tensor.shape();
  return Rows(tensor.data() + head * shape[2] * shape[3], shape[2], shape[3]);
}

// By how much delta, as a kernel computes it, is off: O was rounded, and the sum is one of float32.
Vector<double> errors_of_delta(const Rows& o, const Rows& rounded_o, const Rows& d_o) {
  Vector<double> result(o.rows());
  for (Eigen::Index i = 0; i < o.rows(); ++i) {
    const double saved = d_o.row(i).dot(rounded_o.row(i) - o.row(i));
    const double summed = epsilon<float>() * d_o.row(i).cwiseAbs().dot(o.row(i).cwiseAbs());
    result[i] = saved + std::copysign(summed, saved);
  }
  return result;
}

// Errors of one key and value head's gradients, as they are summed up.
struct Size {
  double largest = 0, squares = 0;
  void note(const Matrix<double>& errors) {
    largest = std::max(largest, errors.cwiseAbs().maxCoeff());
    squares += errors.squaredNorm();
  }
};

// Widens what is allowed by what follows from the rounding of what the forward pass kept. The
// probabilities exp(S - LSE) are off by the float32 rounding of LSE and of S, up or down; delta as
// errors_of_delta() says.
void widen_by_kept(std::array<Distance, 3>& of_q_k_v, const Inputs& in,
                   const AttentionOptions& options) {
  const auto q = converted<double>(in.forward.q), k = converted<double>(in.forward.k),
             v = converted<double>(in.forward.v), rounded_o = converted<double>(in.o),
             d_o = converted<double>(in.d_o);
  const auto o = forward_in<double>(in.forward, options).o;
  const auto probs = naive::weights<double>(q.view(), k.view(), options);
  const std::int64_t group = q.size(1) / k.size(1);
  const std::int64_t kv_heads = k.size(0) * k.size(1);
  const double scale = options.scale_for(q.size(3));
  std::vector<std::array<Size, 3>> sizes(static_cast<std::size_t>(kv_heads));
  parallel_for(kv_heads, [&](std::int64_t kv_head) {
    auto& size = sizes[static_cast<std::size_t>(kv_head)];
    const Rows keys = rows_of(k, kv_head), values = rows_of(v, kv_head);
    Matrix<double> error_k = Matrix<double>::Zero(k.size(2), k.size(3));
    Matrix<double> error_v = Matrix<double>::Zero(v.size(2), v.size(3));
    // By Cauchy and Schwarz no sum of terms of a score is larger.
    const double longest_key = keys.rowwise().norm().maxCoeff();
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const Rows queries = rows_of(q, head), d_outputs = rows_of(d_o, head);
      const Vector<double> delta = d_outputs.cwiseProduct(rows_of(o, head)).rowwise().sum();
      const Vector<double> off =
          errors_of_delta(rows_of(o, head), rows_of(rounded_o, head), d_outputs);
      Matrix<double> p = rows_of(probs, head);
      Matrix<double> d_s = d_outputs * values.transpose();  // dP so far
      for (Eigen::Index i = 0; i < p.rows(); ++i) {
        const double epsilon_of_row =
            epsilon<float>() * scale * longest_key * queries.row(i).norm();
        for (Eigen::Index j = 0; j < p.cols(); ++j) {
          const auto at = static_cast<std::uint64_t>((head * p.rows() + i) * p.cols() + j);
          const double error = random_uniform(0, at) < 0.5 ? -epsilon_of_row : epsilon_of_row;
          double kept = 1;
          if (options.dropout_keep.data() != nullptr) {
            kept = options.dropout_keep.data()[at] / (1 - options.dropout_probability);
          }
          d_s(i, j) = p(i, j) * (error * (kept * d_s(i, j) - delta[i]) - off[i]);
          p(i, j) *= error * kept;
        }
      }
      size[0].note(scale * (d_s * keys));
      error_k += scale * (d_s.transpose() * queries);
      error_v += p.transpose() * d_outputs;
    }
    size[1].note(error_k);
    size[2].note(error_v);
  });
  const std::array<std::int64_t, 3> counts{q.count(), k.count(), v.count()};
  for (std::size_t part = 0; part < 3; ++part) {
    Size all;
    for (const auto& size : sizes) {
      all.largest = std::max(all.largest, size[part].largest);
      all.squares += size[part].squares;
    }
    Distance& of = of_q_k_v[part];
    of.max_error = std::max(of.max_error, all.largest);
    of.rms_error =
        std::max(of.rms_error, std::sqrt(all.squares / static_cast<double>(counts[part])));
  }
}

}  // namespace

Inputs with_forward(const Problem& problem, attention::Inputs forward, std::uint64_t seed) {
  Tensor<std::uint8_t, 4> keep;
  const auto exact = forward_in<double>(forward, flash::options_of(problem, keep));
  const auto d_o = normal_tensor<float, 4>(problem.shape_of_o(), seed);
  return {std::move(forward), attention::rounded(converted<float>(exact.o), problem.type),
          converted<float>(exact.lse), attention::rounded(d_o, problem.type)};
}

Inputs make_inputs(const Problem& problem, Values values, std::uint64_t seed) {
  // attention::make_inputs() takes the seeds 3 seed to 3 seed + 2.
  return with_forward(problem, attention::make_inputs(problem, values, seed), ~seed);
}

Checker::Checker(const Problem& problem, const Inputs& inputs) : type_(problem.type) {
  Tensor<std::uint8_t, 4> keep;
  const AttentionOptions options = flash::options_of(problem, keep);
  ref_ = backward_in<double>(inputs, options);
  attention::with_type(type_, [&](auto zero) {
    const auto plain = backward_in<decltype(zero)>(inputs, options);
    const naive::Gradients<double>& ref = ref_;
    plain_ = {distance(plain.d_q.view(), ref.d_q.view()),
              distance(plain.d_k.view(), ref.d_k.view()),
              distance(plain.d_v.view(), ref.d_v.view())};
  });
  widen_by_kept(plain_, inputs, options);
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
