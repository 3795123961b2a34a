#include "06_flash_backward/problem.hpp"

#include <algorithm>
#include <cmath>

#include "common/parallel/parallel_for.hpp"
#include "common/tensor/matrix.hpp"
#include "common/tensor/random.hpp"

namespace fa::backward {
namespace {

// Lesson 01 on a problem's inputs, in T.
template <class T>
naive::Forward<T> forward_in(const flash::Inputs& in,
                             const AttentionOptions& options) {
  const auto q = converted<T>(in.q), k = converted<T>(in.k),
             v = converted<T>(in.v);
  return naive::forward<T>(q.view(), k.view(), v.view(), options);
}
template <class T>
naive::Gradients<T> backward_in(const Inputs& in,
                                const AttentionOptions& options) {
  const auto q = converted<T>(in.forward.q), k = converted<T>(in.forward.k),
             v = converted<T>(in.forward.v), d_o = converted<T>(in.d_o);
  return naive::backward<T>(q.view(), k.view(), v.view(), d_o.view(),
                            options);
}

// Notes the largest errors of two causes.
void widen(Distance& distance, double max_error, double rms_error) {
  distance.max_error = std::max(distance.max_error, max_error);
  distance.rms_error = std::max(distance.rms_error, rms_error);
}

using Rows = Eigen::Map<const Matrix<double>>;

Rows rows_of(const Tensor<double, 4>& tensor, std::int64_t head) {
  const Shape<4>& shape = tensor.shape();
  return Rows(tensor.data() + head * shape[2] * shape[3], shape[2], shape[3]);
}

// By how much delta, as a kernel computes it, is off: O was rounded, and the sum is one of float32.
Vector<double> errors_of_delta(const Rows& o, const Rows& rounded_o,
                               const Rows& d_o) {
  Vector<double> result(o.rows());
  for (Eigen::Index i = 0; i < o.rows(); ++i) {
    const double saved = d_o.row(i).dot(rounded_o.row(i) - o.row(i));
    const double summed =
        epsilon<float>() * d_o.row(i).cwiseAbs().dot(o.row(i).cwiseAbs());
    result[i] = saved + std::copysign(summed, saved);
  }
  return result;
}

// Widens what is allowed of dQ and dK by what errors of delta do to them: dS = P (dP - delta).
void widen_by_delta(Distance& of_q, Distance& of_k, const Inputs& in,
                    const AttentionOptions& options) {
  const auto q = converted<double>(in.forward.q),
             k = converted<double>(in.forward.k),
             rounded_o = converted<double>(in.o),
             d_o = converted<double>(in.d_o);
  const auto o = forward_in<double>(in.forward, options).o;
  const auto weights = naive::weights<double>(q.view(), k.view(), options);
  const std::int64_t group = q.size(1) / k.size(1);
  const std::int64_t kv_heads = k.size(0) * k.size(1);
  const double scale = options.scale_for(q.size(3));
  struct Size {  // of the errors of one key and value head
    double max_q = 0, max_k = 0, squares_q = 0, squares_k = 0;
  };
  std::vector<Size> sizes(static_cast<std::size_t>(kv_heads));
  parallel_for(kv_heads, [&](std::int64_t kv_head) {
    Size& size = sizes[static_cast<std::size_t>(kv_head)];
    Matrix<double> error_k = Matrix<double>::Zero(k.size(2), k.size(3));
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group;
         ++head) {
      const Rows p = rows_of(weights, head);
      const Vector<double> off = errors_of_delta(
          rows_of(o, head), rows_of(rounded_o, head), rows_of(d_o, head));
      const Matrix<double> error_q =
          scale * (off.asDiagonal() * (p * rows_of(k, kv_head)));
      error_k +=
          scale * (p.transpose() * (off.asDiagonal() * rows_of(q, head)));
      size.max_q = std::max(size.max_q, error_q.cwiseAbs().maxCoeff());
      size.squares_q += error_q.squaredNorm();
    }
    size.max_k = error_k.cwiseAbs().maxCoeff();
    size.squares_k = error_k.squaredNorm();
  });
  Size all;
  for (const Size& size : sizes) {
    all.max_q = std::max(all.max_q, size.max_q);
    all.max_k = std::max(all.max_k, size.max_k);
    all.squares_q += size.squares_q;
    all.squares_k += size.squares_k;
  }
  widen(of_q, all.max_q,
        std::sqrt(all.squares_q / static_cast<double>(q.count())));
  widen(of_k, all.max_k,
        std::sqrt(all.squares_k / static_cast<double>(k.count())));
}

// The length of each row.
std::vector<double> lengths_of_rows(const Tensor<float, 4>& tensor) {
  std::vector<double> result;
  const std::int64_t columns = tensor.size(3);
  for (std::int64_t i = 0; i < tensor.count(); i += columns) {
    double sum = 0;
    for (std::int64_t e = i; e < i + columns; ++e) {
      sum += std::pow(static_cast<double>(tensor.data()[e]), 2);
    }
    result.push_back(std::sqrt(sum));
  }
  return result;
}

// Widens what is allowed by what rounding of LSE and of scores to float32 does: the weights exp(S - LSE) of a row are
// off by a factor, and gradients are linear in d_o.
void widen_by_lse(Distance& of_q, Distance& of_k, Distance& of_v,
                  const Inputs& in, const AttentionOptions& options) {
  const std::vector<double> q_lengths = lengths_of_rows(in.forward.q);
  const std::vector<double> k_lengths = lengths_of_rows(in.forward.k);
  // By Cauchy and Schwarz no sum of terms of a score is larger.
  const double factor = epsilon<float>() * options.scale_for(in.d_o.size(3)) *
                        *std::max_element(k_lengths.begin(), k_lengths.end());
  auto d_o = converted<double>(in.d_o);
  for (std::int64_t i = 0; i < d_o.count(); ++i) {
    d_o.data()[i] *=
        factor * q_lengths[static_cast<std::size_t>(i / d_o.size(3))];
  }
  const auto q = converted<double>(in.forward.q),
             k = converted<double>(in.forward.k),
             v = converted<double>(in.forward.v);
  const auto errors = naive::backward<double>(q.view(), k.view(), v.view(),
                                              d_o.view(), options);
  const auto widen_by = [](Distance& distance,
                           const Tensor<double, 4>& error) {
    const Eigen::Map<const Vector<double>> all(error.data(), error.count());
    widen(distance, all.cwiseAbs().maxCoeff(),
          std::sqrt(all.squaredNorm() / static_cast<double>(error.count())));
  };
  widen_by(of_q, errors.d_q);
  widen_by(of_k, errors.d_k);
  widen_by(of_v, errors.d_v);
}

}  // namespace

Inputs with_forward(const Problem& problem, flash::Inputs forward,
                    std::uint64_t seed) {
  Tensor<std::uint8_t, 4> keep;
  const auto exact =
      forward_in<double>(forward, flash::options_of(problem, keep));
  const auto d_o = normal_tensor<float, 4>(problem.shape_of_q(), seed);
  return {std::move(forward),
          flash::rounded(converted<float>(exact.o), problem.type),
          converted<float>(exact.lse), flash::rounded(d_o, problem.type)};
}

Inputs make_inputs(const Problem& problem, Values values,
                   std::uint64_t seed) {
  // flash::make_inputs() takes the seeds 3 seed to 3 seed + 2.
  return with_forward(problem, flash::make_inputs(problem, values, seed),
                      ~seed);
}

Judge::Judge(const Problem& problem, const Inputs& inputs)
    : type_(problem.type) {
  Tensor<std::uint8_t, 4> keep;
  const AttentionOptions options = flash::options_of(problem, keep);
  ref_ = backward_in<double>(inputs, options);
  flash::with_type(type_, [&](auto zero) {
    const auto plain = backward_in<decltype(zero)>(inputs, options);
    const naive::Gradients<double>& ref = ref_;
    plain_q_ = distance(plain.d_q.view(), ref.d_q.view());
    plain_k_ = distance(plain.d_k.view(), ref.d_k.view());
    plain_v_ = distance(plain.d_v.view(), ref.d_v.view());
  });
  widen_by_delta(plain_q_, plain_k_, inputs, options);
  widen_by_lse(plain_q_, plain_k_, plain_v_, inputs, options);
}

std::vector<Verdict> Judge::judge(const std::string& name,
                                  const Gradients& gradients) const {
  const double epsilon_of_type = flash::with_type(
      type_, [](auto zero) { return epsilon<decltype(zero)>(); });
  const auto verdict = [&](const char* what, const Tensor<float, 4>& out,
                           const Tensor<double, 4>& ref,
                           const Distance& plain) {
    return decide(name + what, distance(out.view(), ref.view()), plain,
                  kGradientFactor, epsilon_of_type);
  };
  return {verdict(", d_q", gradients.d_q, ref_.d_q, plain_q_),
          verdict(", d_k", gradients.d_k, ref_.d_k, plain_k_),
          verdict(", d_v", gradients.d_v, ref_.d_v, plain_v_)};
}

}  // namespace fa::backward
