#include "01_naive_attention/multi_head.hpp"

#include <stdexcept>

#include <fmt/format.h>

namespace fa::naive {
namespace {

template <class T>
void check_weights(const MultiHeadWeights<T>& weights, std::int64_t width, std::int64_t heads) {
  if (heads < 1 || width % heads != 0) {
    throw std::invalid_argument(fmt::format("{} heads do not divide a width of {}", heads, width));
  }
  for (const Linear<T>* linear : {&weights.q, &weights.k, &weights.v, &weights.o}) {
    if (linear->w.rows() != width || linear->w.cols() != width || linear->b.size() != width) {
      throw std::invalid_argument(
          fmt::format("a projection has weights [{}, {}] and bias [{}]; [{}, {}] and "
                      "[{}] are needed",
                      linear->w.rows(), linear->w.cols(), linear->b.size(), width, width, width));
    }
  }
}

// The rows of all sequences in one matrix: a projection treats every token alike.
template <class T>
Matrix<T> rows_of(View<const T, 3> x) {
  Matrix<T> rows(x.size(0) * x.size(1), x.size(2));
  for_each_index(x.shape(), [&](const Shape<3>& i) { rows(i[0] * x.size(1) + i[1], i[2]) = x[i]; });
  return rows;
}

template <class T>
Tensor<T, 3> sequences_of(const Matrix<T>& rows, std::int64_t batch) {
  Tensor<T, 3> x({batch, rows.rows() / batch, rows.cols()});
  for_each_index(x.shape(),
                 [&](const Shape<3>& i) { x.view()[i] = rows(i[0] * x.size(1) + i[1], i[2]); });
  return x;
}

}  // namespace
// [batch * length, heads * head_dim] -> [batch, heads, length, head_dim]:
// the same elements, viewed through other strides, then packed.
template <class T>
Tensor<T, 4> split_heads(const Matrix<T>& rows, std::int64_t batch, std::int64_t heads) {
  const Shape<4> shape{batch, rows.rows() / batch, heads, rows.cols() / heads};
  const View<const T, 4> length_first(rows.data(), shape);
  return converted<T>(length_first.swap_axes(1, 2));
}

template <class T>
Matrix<T> join_heads(const Tensor<T, 4>& heads) {
  const Tensor<T, 4> length_first = converted<T>(heads.view().swap_axes(1, 2));
  return Eigen::Map<const Matrix<T>>(length_first.data(), heads.size(0) * heads.size(2),
                                     heads.size(1) * heads.size(3));
}

namespace {

template <class T>
Matrix<T> apply(const Linear<T>& linear, const Matrix<T>& x) {
  Matrix<T> y = x * linear.w.transpose();
  y.rowwise() += linear.b.transpose();
  return y;
}

// The gradients of y = x W^T + b.
template <class T>
Linear<T> weight_gradient(const Matrix<T>& x, const Matrix<T>& d_y) {
  return {d_y.transpose() * x, d_y.colwise().sum().transpose()};
}

}  // namespace

template <class T>
MultiHeadForward<T> multi_head_forward(View<const T, 3> x, const MultiHeadWeights<T>& weights,
                                       std::int64_t heads, const AttentionOptions& options) {
  check_weights(weights, x.size(2), heads);
  const std::int64_t batch = x.size(0);
  const Matrix<T> rows = rows_of(x);
  MultiHeadForward<T> state;
  state.q = split_heads(apply(weights.q, rows), batch, heads);
  state.k = split_heads(apply(weights.k, rows), batch, heads);
  state.v = split_heads(apply(weights.v, rows), batch, heads);
  state.o = forward<T>(state.q, state.k, state.v, options).o;
  state.y = sequences_of(apply(weights.o, join_heads(state.o)), batch);
  return state;
}

template <class T>
MultiHeadGradients<T> multi_head_backward(View<const T, 3> x, const MultiHeadWeights<T>& weights,
                                          const MultiHeadForward<T>& state, View<const T, 3> d_y,
                                          const AttentionOptions& options) {
  if (d_y.shape() != state.y.shape()) {
    throw std::invalid_argument(fmt::format("d_y has shape {}; it must have the shape of y, {}",
                                            to_string(d_y.shape()), to_string(state.y.shape())));
  }
  const std::int64_t batch = x.size(0), heads = state.q.size(1);
  const Matrix<T> rows = rows_of(x), d_rows = rows_of(d_y);
  MultiHeadGradients<T> result;
  result.d_weights.o = weight_gradient(join_heads(state.o), d_rows);
  const Tensor<T, 4> d_o = split_heads<T>(d_rows * weights.o.w, batch, heads);
  const Gradients<T> d_heads = backward<T>(state.q, state.k, state.v, d_o, options);
  const Matrix<T> d_q = join_heads(d_heads.d_q);
  const Matrix<T> d_k = join_heads(d_heads.d_k);
  const Matrix<T> d_v = join_heads(d_heads.d_v);
  result.d_weights.q = weight_gradient(rows, d_q);
  result.d_weights.k = weight_gradient(rows, d_k);
  result.d_weights.v = weight_gradient(rows, d_v);
  // x feeds three projections, so d_x is a sum of three gradients.
  Matrix<T> d_x = d_q * weights.q.w;
  d_x += d_k * weights.k.w;
  d_x += d_v * weights.v.w;
  result.d_x = sequences_of(d_x, batch);
  return result;
}

#define FA_MULTI_HEAD_FOR(T)                                                                       \
  template Tensor<T, 4> split_heads<T>(const Matrix<T>&, std::int64_t, std::int64_t);              \
  template Matrix<T> join_heads<T>(const Tensor<T, 4>&);                                           \
  template MultiHeadForward<T> multi_head_forward<T>(View<const T, 3>, const MultiHeadWeights<T>&, \
                                                     std::int64_t, const AttentionOptions&);       \
  template MultiHeadGradients<T> multi_head_backward<T>(                                           \
      View<const T, 3>, const MultiHeadWeights<T>&, const MultiHeadForward<T>&, View<const T, 3>,  \
      const AttentionOptions&);
FA_MULTI_HEAD_FOR(double)
FA_MULTI_HEAD_FOR(float)

}  // namespace fa::naive
