#include "01_naive_attention/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "01_naive_attention/head_matrix.hpp"

namespace fa {

AttentionShape attention_shape(const Shape<4>& q, const Shape<4>& k, const Shape<4>& v) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(
        fmt::format("q {}, k {}, v {}: {}", to_string(q), to_string(k), to_string(v), why));
  };
  for (const Shape<4>& shape : {q, k, v}) {
    for (std::int64_t size : shape) {
      if (size < 1) refuse("every size must be at least 1");
    }
  }
  if (!std::equal(k.begin(), k.end() - 1, v.begin())) {
    refuse("k and v must have the same sizes, but for the last one");
  }
  if (q[0] != k[0]) refuse("q and k must have the same batch (first size)");
  if (q[3] != k[3]) refuse("q and k must have the same head_dim (last size)");
  if (q[1] % k[1] != 0) {
    refuse(fmt::format("heads ({}) must be a multiple of kv_heads ({})", q[1], k[1]));
  }
  return {q[0], q[1], k[1], q[2], k[2], q[3]};
}

Shape<4> shape_of_o(const Shape<4>& q, const Shape<4>& v) {
  return {q[0], q[1], q[2], v[3]};
}

double AttentionOptions::scale_for(std::int64_t head_dim) const {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

void AttentionOptions::check(const AttentionShape& shape) const {
  if (!std::isfinite(scale_for(shape.head_dim))) {
    throw std::invalid_argument(fmt::format("scale is {}; it must be finite", *scale));
  }
  if (dropout_keep.data() == nullptr) return;
  const Shape<4> needed{shape.batch, shape.heads, shape.length_q, shape.length_k};
  if (dropout_keep.shape() != needed) {
    throw std::invalid_argument(fmt::format("the dropout mask has shape {}; it must be {}",
                                            to_string(dropout_keep.shape()), to_string(needed)));
  }
  if (!(dropout_probability >= 0 && dropout_probability < 1)) {
    throw std::invalid_argument(
        fmt::format("dropout probability is {}; it must be in [0, 1)", dropout_probability));
  }
}

namespace naive {
namespace {

// -infinity where a query must not see a key.
//! [apply_mask]
template <class A>
void apply_causal_mask(const Matrix<A>& q, const Matrix<A>& k, Matrix<A>& s) {
  const std::int64_t shift = k.rows() - q.rows();
  for (std::int64_t i = 0; i < s.rows(); ++i) {
    const auto first_masked = std::max<std::int64_t>(0, i + shift + 1);
    for (std::int64_t j = first_masked; j < s.cols(); ++j) {
      s(i, j) = -std::numeric_limits<A>::infinity();
    }
  }
}
//! [apply_mask]

// clang-format off
//! [scores]
template <class A>
Matrix<A> masked_scores(const Matrix<A>& q, const Matrix<A>& k,
                        const AttentionOptions& options, Stored<A> stored) {
  const A scale = static_cast<A>(options.scale_for(q.cols()));
  Matrix<A> s = q * k.transpose();
  s = stored(scale * s);
  if (options.causal) apply_causal_mask(q, k, s);
  return s;
}
//! [scores]
// clang-format on

// What dropout multiplies P by: 0, or 1 / (1 - probability).
template <class A>
Matrix<A> dropout_factors(const AttentionOptions& options, std::int64_t b, std::int64_t h,
                          std::int64_t rows, std::int64_t cols) {
  if (options.dropout_keep.data() == nullptr) return Matrix<A>::Ones(rows, cols);
  const auto keep = options.dropout_keep.at(b).at(h);
  const A factor = static_cast<A>(1.0 / (1.0 - options.dropout_probability));
  Matrix<A> z(rows, cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) z(i, j) = keep(i, j) != 0 ? factor : A(0);
  }
  return z;
}

//! [row_helpers]
// The maximum of each row, and 0 if that is -infinity: the shift is always finite.
template <class T>
Vector<T> finite_row_max(const Matrix<T>& scores) {
  const Vector<T> max = scores.rowwise().maxCoeff();
  return (max.array() == -std::numeric_limits<T>::infinity()).select(T(0), max);
}

// exp of each score minus its row's shift, and exactly 0 for -infinity, where Eigen's vectorised
// exp gives a tiny positive number: the sum of a fully masked row must be 0.
template <class T>
Matrix<T> exp_of(const Matrix<T>& scores, const Vector<T>& shift) {
  const auto masked = scores.array() == -std::numeric_limits<T>::infinity();
  return masked.select(T(0), (scores.colwise() - shift).array().exp());
}
//! [row_helpers]

}  // namespace

//! [definition]
template <class T>
Matrix<T> unsafe_softmax(const Matrix<T>& scores) {
  const Matrix<T> e = scores.array().exp();
  const Vector<T> l = e.rowwise().sum();  // one sum for each row
  return e.array().colwise() / l.array();
}
//! [definition]

//! [softmax]
template <class T>
Matrix<T> safe_softmax(const Matrix<T>& scores) {
  //! [rows]
  const Vector<T> m = finite_row_max(scores);
  const Matrix<T> e = exp_of(scores, m);
  Vector<T> l = e.rowwise().sum();
  l = (l.array() == T(0)).select(T(1), l);  // fully masked: 0 / 1, not 0 / 0
  return e.array().colwise() / l.array();
  //! [rows]
}
//! [softmax]

template <class T>
Vector<T> log_sum_exp(const Matrix<T>& scores) {
  const Vector<T> m = finite_row_max(scores);
  const Matrix<T> e = exp_of(scores, m);
  return m.array() + e.rowwise().sum().array().log();
}

namespace {

template <class A>
struct HeadForward {
  Matrix<A> o;
  Vector<A> lse;
};

// clang-format off
//! [forward]
template <class A>
HeadForward<A> head_forward(const Matrix<A>& q, const Matrix<A>& k,
                            const Matrix<A>& v, const Matrix<A>& z,
                            const AttentionOptions& options,
                            Stored<A> stored) {
  const Matrix<A> s = masked_scores(q, k, options, stored);
  const Matrix<A> p = stored(safe_softmax(s));
  const Matrix<A> p_kept = p.cwiseProduct(z);  // after dropout
  return {p_kept * v, log_sum_exp(s)};
}
//! [forward]

template <class A>
struct HeadGradients {
  Matrix<A> d_q, d_k, d_v;
};

//! [backward]
template <class A>
HeadGradients<A> head_backward(const Matrix<A>& q, const Matrix<A>& k,
                               const Matrix<A>& v, const Matrix<A>& z,
                               const Matrix<A>& d_o,
                               const AttentionOptions& options,
                               Stored<A> stored) {
  const A scale = static_cast<A>(options.scale_for(q.cols()));
  const Matrix<A> s = masked_scores(q, k, options, stored);
  const Matrix<A> p = stored(safe_softmax(s));
  const Matrix<A> p_kept = p.cwiseProduct(z);
  const Matrix<A> d_v = p_kept.transpose() * d_o;
  Matrix<A> d_p = d_o * v.transpose();
  d_p = stored(d_p.cwiseProduct(z));
  //! [d_s]
  const Vector<A> delta = p.cwiseProduct(d_p).rowwise().sum();
  const Matrix<A> d_s = stored(p.cwiseProduct(d_p.colwise() - delta));
  //! [d_s]
  const Matrix<A> d_q = d_s * k;
  const Matrix<A> d_k = d_s.transpose() * q;
  return {scale * d_q, scale * d_k, d_v};
}
//! [backward]
// clang-format on

}  // namespace

template <class T>
Forward<T> forward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                   const AttentionOptions& options) {
  using A = accumulator_t<T>;
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  options.check(shape);
  Forward<T> result{Tensor<T, 4>(shape_of_o(q.shape(), v.shape())),
                    Tensor<A, 3>({shape.batch, shape.heads, shape.length_q})};
  for_each_head(shape, [&](std::int64_t b, std::int64_t h, std::int64_t kv_head) {
    const auto qh = load_head(q, b, h);
    const auto kh = load_head(k, b, kv_head), vh = load_head(v, b, kv_head);
    const auto z = dropout_factors<A>(options, b, h, shape.length_q, shape.length_k);
    const auto head = head_forward<A>(qh, kh, vh, z, options, stored_as<T>);
    store_head(head.o, result.o.view(), b, h);
    for (std::int64_t row = 0; row < shape.length_q; ++row) result.lse(b, h, row) = head.lse(row);
  });
  return result;
}

template <class T>
Tensor<T, 4> weights(View<const T, 4> q, View<const T, 4> k, const AttentionOptions& options) {
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), k.shape());
  options.check(shape);
  Tensor<T, 4> result({shape.batch, shape.heads, shape.length_q, shape.length_k});
  for_each_head(shape, [&](std::int64_t b, std::int64_t h, std::int64_t kv_head) {
    const auto s = masked_scores<accumulator_t<T>>(load_head(q, b, h), load_head(k, b, kv_head),
                                                   options, stored_as<T>);
    store_head(safe_softmax(s), result.view(), b, h);
  });
  return result;
}

template <class T>
Gradients<T> backward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                      View<const T, 4> d_o, const AttentionOptions& options) {
  using A = accumulator_t<T>;
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  options.check(shape);
  const Shape<4> of_o = shape_of_o(q.shape(), v.shape());
  if (d_o.shape() != of_o) {
    throw std::invalid_argument(fmt::format("d_o has shape {}; it must have the shape of o, {}",
                                            to_string(d_o.shape()), to_string(of_o)));
  }
  Gradients<T> result{Tensor<T, 4>(q.shape()), Tensor<T, 4>(k.shape()), Tensor<T, 4>(v.shape())};
  // Each query head has its own dK and dV; those of a group are summed afterwards.
  Tensor<A, 4> d_k_per_head({shape.batch, shape.heads, shape.length_k, shape.head_dim});
  Tensor<A, 4> d_v_per_head({shape.batch, shape.heads, shape.length_k, v.size(3)});
  for_each_head(shape, [&](std::int64_t b, std::int64_t h, std::int64_t kv_head) {
    const auto qh = load_head(q, b, h), d_oh = load_head(d_o, b, h);
    const auto kh = load_head(k, b, kv_head), vh = load_head(v, b, kv_head);
    const auto z = dropout_factors<A>(options, b, h, shape.length_q, shape.length_k);
    const auto head = head_backward<A>(qh, kh, vh, z, d_oh, options, stored_as<T>);
    store_head(head.d_q, result.d_q.view(), b, h);
    store_head(head.d_k, d_k_per_head.view(), b, h);
    store_head(head.d_v, d_v_per_head.view(), b, h);
  });
  sum_groups<T, A>(d_k_per_head.view(), result.d_k.view());
  sum_groups<T, A>(d_v_per_head.view(), result.d_v.view());
  return result;
}

#define FA_NAIVE_FOR(T)                                                                          \
  template Forward<T> forward<T>(View<const T, 4>, View<const T, 4>, View<const T, 4>,           \
                                 const AttentionOptions&);                                       \
  template Tensor<T, 4> weights<T>(View<const T, 4>, View<const T, 4>, const AttentionOptions&); \
  template Gradients<T> backward<T>(View<const T, 4>, View<const T, 4>, View<const T, 4>,        \
                                    View<const T, 4>, const AttentionOptions&);
FA_NAIVE_FOR(double)
FA_NAIVE_FOR(float)
FA_NAIVE_FOR(half)
FA_NAIVE_FOR(bfloat16)

#define FA_SOFTMAX_FOR(T)                                 \
  template Matrix<T> unsafe_softmax<T>(const Matrix<T>&); \
  template Matrix<T> safe_softmax<T>(const Matrix<T>&);   \
  template Vector<T> log_sum_exp<T>(const Matrix<T>&);
FA_SOFTMAX_FOR(double)
FA_SOFTMAX_FOR(float)

}  // namespace naive
}  // namespace fa
