#include "01_naive_attention/attention.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "common/parallel/parallel_for.hpp"

namespace fa {

AttentionShape attention_shape(const Shape<4>& q, const Shape<4>& k, const Shape<4>& v) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("q {}, k {}, v {}: {}", to_string(q), to_string(k), to_string(v), why));
  };
  for (const Shape<4>& shape : {q, k, v}) {
    for (std::int64_t size : shape) {
      if (size < 1) refuse("every size must be at least 1");
    }
  }
  if (k != v) refuse("k and v must have the same shape");
  if (q[0] != k[0]) refuse("q and k must have the same batch (first size)");
  if (q[3] != k[3]) refuse("q and k must have the same head_dim (last size)");
  if (q[1] % k[1] != 0) {
    refuse(fmt::format("heads ({}) must be a multiple of kv_heads ({})", q[1], k[1]));
  }
  return {q[0], q[1], k[1], q[2], k[2], q[3]};
}

double AttentionOptions::scale_for(std::int64_t head_dim) const {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

namespace naive {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Storing in T is what rounds; computing goes on in the accumulator type. For float and double this
// does nothing.
template <class T, class Expression>
Matrix<accumulator_t<T>> stored_as(const Expression& values) {
  if constexpr (std::is_same_v<T, accumulator_t<T>>) {
    return values;
  } else {
    return values.template cast<T>().template cast<accumulator_t<T>>();
  }
}

// One head of a tensor, ready to compute with.
template <class T>
Matrix<accumulator_t<T>> head_of(View<const T, 4> tensor, std::int64_t b, std::int64_t h) {
  return as_matrix(tensor.at(b).at(h)).template cast<accumulator_t<T>>();
}

void check_options(const AttentionShape& shape, const AttentionOptions& options) {
  if (!std::isfinite(options.scale_for(shape.head_dim))) {
    throw std::invalid_argument(fmt::format("scale is {}; it must be finite", *options.scale));
  }
  if (options.dropout_keep.data() == nullptr) return;
  const Shape<4> needed{shape.batch, shape.heads, shape.length_q, shape.length_k};
  if (options.dropout_keep.shape() != needed) {
    throw std::invalid_argument(fmt::format("the dropout mask has shape {}; {} is needed",
                                            to_string(options.dropout_keep.shape()), to_string(needed)));
  }
  if (!(options.dropout_probability >= 0 && options.dropout_probability < 1)) {
    throw std::invalid_argument(
        fmt::format("dropout probability is {}; it must be in [0, 1)", options.dropout_probability));
  }
}

//! [scores]
template <class T, class A = accumulator_t<T>>
Matrix<A> masked_scores(const Matrix<A>& q, const Matrix<A>& k,
                        const AttentionOptions& options) {
  const A scale = static_cast<A>(options.scale_for(q.cols()));
  Matrix<A> s = stored_as<T>(scale * (q * k.transpose()));
  if (options.causal) {
    const std::int64_t shift = k.rows() - q.rows();
    for (std::int64_t i = 0; i < s.rows(); ++i) {
      for (std::int64_t j = std::max<std::int64_t>(0, i + shift + 1);
           j < s.cols(); ++j) {
        s(i, j) = static_cast<A>(-kInfinity);
      }
    }
  }
  return s;
}
//! [scores]

// The factors that dropout multiplies the weights by: 0, or 1 / (1 - probability).
template <class A>
Matrix<A> dropout_factors(const AttentionOptions& options, std::int64_t b, std::int64_t h,
                          std::int64_t rows, std::int64_t cols) {
  if (options.dropout_keep.data() == nullptr) return Matrix<A>::Ones(rows, cols);
  const auto keep = as_matrix(options.dropout_keep.at(b).at(h));
  return keep.template cast<A>() * static_cast<A>(1.0 / (1.0 - options.dropout_probability));
}

// The maximum of each row, and 0 where there is none: a shift that is always finite.
template <class T>
Vector<T> finite_row_max(const Matrix<T>& scores) {
  const Vector<T> max = scores.rowwise().maxCoeff();
  return (max.array() == static_cast<T>(-kInfinity)).select(T(0), max);
}

}  // namespace

template <class T>
Matrix<T> unsafe_softmax(const Matrix<T>& scores) {
  const Matrix<T> e = scores.array().exp();
  const Vector<T> l = e.rowwise().sum();
  return e.array().colwise() / l.array();
}

//! [softmax]
template <class T>
Matrix<T> safe_softmax(const Matrix<T>& scores) {
  const Vector<T> m = finite_row_max(scores);
  const Matrix<T> e = (scores.colwise() - m).array().exp();
  Vector<T> l = e.rowwise().sum();
  l = (l.array() == T(0)).select(T(1), l);  // no key seen: 0 / 1, not 0 / 0
  return e.array().colwise() / l.array();
}

template <class T>
Vector<T> log_sum_exp(const Matrix<T>& scores) {
  const Vector<T> m = finite_row_max(scores);
  const Matrix<T> e = (scores.colwise() - m).array().exp();
  return m.array() + e.rowwise().sum().array().log();
}
//! [softmax]

template <class T>
Forward<T> forward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                   const AttentionOptions& options) {
  using A = accumulator_t<T>;
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  check_options(shape, options);
  Forward<T> result{Tensor<T, 4>(q.shape()),
                    Tensor<A, 3>({shape.batch, shape.heads, shape.length_q})};
  const std::int64_t group = shape.heads / shape.kv_heads;
  parallel_for(shape.batch * shape.heads, [&](std::int64_t i) {
    const std::int64_t b = i / shape.heads, h = i % shape.heads;
    const auto qh = head_of(q, b, h);
    const auto kh = head_of(k, b, h / group), vh = head_of(v, b, h / group);
    //! [forward]
    const Matrix<A> s = masked_scores<T>(qh, kh, options);
    const Matrix<A> p = stored_as<T>(safe_softmax(s));
    const Matrix<A> z =
        dropout_factors<A>(options, b, h, s.rows(), s.cols());
    const Matrix<A> o = p.cwiseProduct(z) * vh;
    const Vector<A> lse = log_sum_exp(s);
    //! [forward]
    as_matrix(result.o.view().at(b).at(h)) = o.template cast<T>();
    for (std::int64_t row = 0; row < shape.length_q; ++row) result.lse(b, h, row) = lse(row);
  });
  return result;
}

template <class T>
Tensor<T, 4> weights(View<const T, 4> q, View<const T, 4> k, const AttentionOptions& options) {
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), k.shape());
  check_options(shape, options);
  Tensor<T, 4> result({shape.batch, shape.heads, shape.length_q, shape.length_k});
  const std::int64_t group = shape.heads / shape.kv_heads;
  parallel_for(shape.batch * shape.heads, [&](std::int64_t i) {
    const std::int64_t b = i / shape.heads, h = i % shape.heads;
    const auto s = masked_scores<T>(head_of(q, b, h), head_of(k, b, h / group), options);
    as_matrix(result.view().at(b).at(h)) = safe_softmax(s).template cast<T>();
  });
  return result;
}

template <class T>
Gradients<T> backward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const T, 4> d_o,
                      const AttentionOptions& options) {
  using A = accumulator_t<T>;
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  check_options(shape, options);
  if (d_o.shape() != q.shape()) {
    throw std::invalid_argument(fmt::format("d_o has shape {}; it must have the shape of q, {}",
                                            to_string(d_o.shape()), to_string(q.shape())));
  }
  Gradients<T> result{Tensor<T, 4>(q.shape()), Tensor<T, 4>(k.shape()), Tensor<T, 4>(v.shape())};
  const std::int64_t group = shape.heads / shape.kv_heads;
  // Each query head gives its own dK and dV; the heads of a group are added up afterwards.
  Tensor<A, 4> d_k_per_head({shape.batch, shape.heads, shape.length_k, shape.head_dim});
  Tensor<A, 4> d_v_per_head(d_k_per_head.shape());
  parallel_for(shape.batch * shape.heads, [&](std::int64_t i) {
    const std::int64_t b = i / shape.heads, h = i % shape.heads;
    const auto qh = head_of(q, b, h), d_oh = head_of(d_o, b, h);
    const auto kh = head_of(k, b, h / group), vh = head_of(v, b, h / group);
    const A scale = static_cast<A>(options.scale_for(shape.head_dim));
    //! [backward]
    const Matrix<A> s = masked_scores<T>(qh, kh, options);
    const Matrix<A> p = stored_as<T>(safe_softmax(s));
    const Matrix<A> z =
        dropout_factors<A>(options, b, h, s.rows(), s.cols());
    const Matrix<A> d_v = p.cwiseProduct(z).transpose() * d_oh;
    const Matrix<A> d_p =
        stored_as<T>((d_oh * vh.transpose()).cwiseProduct(z));
    const Vector<A> delta = p.cwiseProduct(d_p).rowwise().sum();
    const Matrix<A> d_s =
        stored_as<T>(p.cwiseProduct(d_p.colwise() - delta));
    const Matrix<A> d_q = scale * (d_s * kh);
    const Matrix<A> d_k = scale * (d_s.transpose() * qh);
    //! [backward]
    as_matrix(result.d_q.view().at(b).at(h)) = d_q.template cast<T>();
    as_matrix(d_k_per_head.view().at(b).at(h)) = d_k;
    as_matrix(d_v_per_head.view().at(b).at(h)) = d_v;
  });
  parallel_for(shape.batch * shape.kv_heads, [&](std::int64_t i) {
    const std::int64_t b = i / shape.kv_heads, kv_head = i % shape.kv_heads;
    Matrix<A> d_k = Matrix<A>::Zero(shape.length_k, shape.head_dim), d_v = d_k;
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      d_k += as_matrix(d_k_per_head.view().at(b).at(h));
      d_v += as_matrix(d_v_per_head.view().at(b).at(h));
    }
    as_matrix(result.d_k.view().at(b).at(kv_head)) = d_k.template cast<T>();
    as_matrix(result.d_v.view().at(b).at(kv_head)) = d_v.template cast<T>();
  });
  return result;
}

#define FA_NAIVE_FOR(T)                                                                                  \
  template Forward<T> forward<T>(View<const T, 4>, View<const T, 4>, View<const T, 4>,                   \
                                 const AttentionOptions&);                                               \
  template Tensor<T, 4> weights<T>(View<const T, 4>, View<const T, 4>, const AttentionOptions&);         \
  template Gradients<T> backward<T>(View<const T, 4>, View<const T, 4>, View<const T, 4>,                \
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
