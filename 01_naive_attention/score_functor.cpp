#include "01_naive_attention/score_functor.hpp"

#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "01_naive_attention/head_matrix.hpp"

namespace fa::naive {
namespace {

// The scores of one head, and what follows from them.
template <class A>
struct HeadScores {
  Matrix<A> s;    // scaled
  Matrix<A> p;    // the probabilities of the changed scores
  Vector<A> lse;  // with the sink
  Vector<A> p_sink;
};

// A functor for one head of one sequence.
struct HeadFunctor {
  const ScoreFunctor& of;
  std::int64_t batch, head;

  bool visible(std::int64_t i, std::int64_t j) const {
    return !of.visible || of.visible(batch, head, i, j);
  }
  double score(double s, std::int64_t i, std::int64_t j) const {
    return of.score ? of.score(s, batch, head, i, j) : s;
  }
  double derivative(double s, std::int64_t i, std::int64_t j) const {
    return of.derivative ? of.derivative(s, batch, head, i, j) : 1;
  }
  double sink() const { return of.sink ? of.sink(head) : -std::numeric_limits<double>::infinity(); }
};

template <class A>
Matrix<A> changed_scores(const Matrix<A>& s, const HeadFunctor& functor) {
  Matrix<A> changed(s.rows(), s.cols());
  for (std::int64_t i = 0; i < s.rows(); ++i) {
    for (std::int64_t j = 0; j < s.cols(); ++j) {
      changed(i, j) = functor.visible(i, j) ? static_cast<A>(functor.score(s(i, j), i, j))
                                            : -std::numeric_limits<A>::infinity();
    }
  }
  return changed;
}

template <class A>
HeadScores<A> head_scores(const Matrix<A>& q, const Matrix<A>& k, A scale,
                          const HeadFunctor& functor, Stored<A> stored) {
  HeadScores<A> result;
  result.s = stored(scale * (q * k.transpose()));
  // The sink is one more key, the last column.
  Matrix<A> changed(result.s.rows(), result.s.cols() + 1);
  changed.leftCols(result.s.cols()) = stored(changed_scores(result.s, functor));
  changed.rightCols(1).setConstant(static_cast<A>(functor.sink()));
  const Matrix<A> p = safe_softmax(changed);
  result.p = stored(p.leftCols(result.s.cols()));
  result.p_sink = p.rightCols(1);
  result.lse = log_sum_exp(changed);
  return result;
}

// What both passes begin with.
template <class T>
AttentionShape checked_shape(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                             const AttentionOptions& options) {
  const AttentionShape shape = attention_shape(q.shape(), k.shape(), v.shape());
  options.check(shape);
  return shape;
}

}  // namespace

template <class T>
Forward<T> forward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                   const ScoreFunctor& functor, std::optional<double> scale) {
  using A = accumulator_t<T>;
  AttentionOptions options;
  options.scale = scale;
  const AttentionShape shape = checked_shape(q, k, v, options);
  const A factor = static_cast<A>(options.scale_for(shape.head_dim));
  Forward<T> result{Tensor<T, 4>(shape_of_o(q.shape(), v.shape())),
                    Tensor<A, 3>({shape.batch, shape.heads, shape.length_q})};
  for_each_head(shape, [&](std::int64_t b, std::int64_t h, std::int64_t kv_head) {
    const auto head = head_scores<A>(load_head(q, b, h), load_head(k, b, kv_head), factor,
                                     {functor, b, h}, stored_as<T>);
    const Matrix<A> o = head.p * load_head(v, b, kv_head);
    store_head(o, result.o.view(), b, h);
    for (std::int64_t row = 0; row < shape.length_q; ++row) result.lse(b, h, row) = head.lse(row);
  });
  return result;
}

template <class T>
FunctorGradients<T> backward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                             View<const T, 4> d_o, const ScoreFunctor& functor,
                             std::optional<double> scale) {
  using A = accumulator_t<T>;
  AttentionOptions options;
  options.scale = scale;
  const AttentionShape shape = checked_shape(q, k, v, options);
  if (d_o.shape() != shape_of_o(q.shape(), v.shape())) {
    throw std::invalid_argument(fmt::format("d_o has shape {}; it must have the shape of o, {}",
                                            to_string(d_o.shape()),
                                            to_string(shape_of_o(q.shape(), v.shape()))));
  }
  if (functor.score && !functor.derivative) {
    throw std::invalid_argument("the functor has a score without a derivative");
  }
  const A factor = static_cast<A>(options.scale_for(shape.head_dim));
  FunctorGradients<T> result{
      {Tensor<T, 4>(q.shape()), Tensor<T, 4>(k.shape()), Tensor<T, 4>(v.shape())},
      Tensor<A, 4>({shape.batch, shape.heads, shape.length_q, shape.length_k}),
      Tensor<A, 1>({shape.heads})};
  const std::int64_t group = shape.heads / shape.kv_heads;
  Tensor<A, 4> d_k_per_head({shape.batch, shape.heads, shape.length_k, shape.head_dim});
  Tensor<A, 4> d_v_per_head({shape.batch, shape.heads, shape.length_k, v.size(3)});
  parallel_for(shape.heads, [&](std::int64_t h) {
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      const auto qh = load_head(q, b, h), kh = load_head(k, b, h / group),
                 vh = load_head(v, b, h / group), d_oh = load_head(d_o, b, h);
      const HeadFunctor of_head{functor, b, h};
      const auto head = head_scores<A>(qh, kh, factor, of_head, stored_as<T>);
      const Matrix<A> d_p = stored_as<T>(d_oh * vh.transpose());
      const Vector<A> delta = head.p.cwiseProduct(d_p).rowwise().sum();
      // dS' = P * (dP - delta), elementwise
      Matrix<A> d_s = stored_as<T>(head.p.cwiseProduct(d_p.colwise() - delta));
      store_head(d_s, result.d_scores.view(), b, h);
      // dP of the sink is 0: its value is.
      result.d_sinks(h) -= head.p_sink.dot(delta);
      for (std::int64_t i = 0; i < d_s.rows(); ++i) {
        for (std::int64_t j = 0; j < d_s.cols(); ++j) {
          if (!of_head.visible(i, j)) continue;  // d_s is 0, and the derivative may not exist
          d_s(i, j) *= static_cast<A>(of_head.derivative(head.s(i, j), i, j));
        }
      }
      d_s = stored_as<T>(d_s);
      store_head<T, A>(factor * (d_s * kh), result.d_q.view(), b, h);
      store_head<A, A>(factor * (d_s.transpose() * qh), d_k_per_head.view(), b, h);
      store_head<A, A>(head.p.transpose() * d_oh, d_v_per_head.view(), b, h);
    }
  });
  sum_groups<T, A>(d_k_per_head.view(), result.d_k.view());
  sum_groups<T, A>(d_v_per_head.view(), result.d_v.view());
  return result;
}

#define FA_NAIVE_FOR(T)                                                                          \
  template Forward<T> forward<T>(View<const T, 4>, View<const T, 4>, View<const T, 4>,           \
                                 const ScoreFunctor&, std::optional<double>);                    \
  template FunctorGradients<T> backward<T>(View<const T, 4>, View<const T, 4>, View<const T, 4>, \
                                           View<const T, 4>, const ScoreFunctor&,                \
                                           std::optional<double>);
FA_NAIVE_FOR(double)
FA_NAIVE_FOR(float)
FA_NAIVE_FOR(half)
FA_NAIVE_FOR(bfloat16)

}  // namespace fa::naive
