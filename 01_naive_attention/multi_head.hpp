/// @file
/// The layer around attention: four projections and the heads between them.
#pragma once

#include <stdexcept>

#include <fmt/format.h>

#include "01_naive_attention/attention.hpp"

namespace fa::naive {

/// One linear map y = x W^T + b, stored as in PyTorch.
template <class T>
struct Linear {
  /// [width_out, width_in]
  Matrix<T> w;
  /// [width_out]
  Vector<T> b;
};

/// The four projections of a multi-head layer (Vaswani et al. 2017, section 3.2.2).
template <class T>
struct MultiHeadWeights {
  /// @{ From the input to Q, K and V of all heads; from the concatenated heads of O to the output.
  Linear<T> q, k, v, o;
  /// @}
};

/// The intermediate results of the layer, which its backward pass needs.
template <class T>
struct MultiHeadForward {
  /// @{ [batch, heads, length, head_dim]
  Tensor<T, 4> q, k, v, o;
  /// @}
  /// [batch, length, width], the output
  Tensor<T, 3> y;
};

/// Gradients of a loss with respect to the layer's input and weights.
template <class T>
struct MultiHeadGradients {
  /// @{ With the shapes of the input and of the weights.
  Tensor<T, 3> d_x;
  MultiHeadWeights<T> d_weights;
  /// @}
};

/// Splits rows into heads.
/// @param rows  [batch * length, heads * head_dim]
/// @param batch sequences; divides the number of rows
/// @param heads divides the number of columns
/// @return [batch, heads, length, head_dim]
template <class T>
Tensor<T, 4> split_heads(const Matrix<T>& rows, std::int64_t batch, std::int64_t heads) {
  const Shape<4> shape{batch, rows.rows() / batch, heads, rows.cols() / heads};
  const View<const T, 4> length_first(rows.data(), shape);
  return converted<T>(length_first.swap_axes(1, 2));
}

/// The inverse of split_heads().
/// @param heads [batch, heads, length, head_dim]
/// @return [batch * length, heads * head_dim]
template <class T>
Matrix<T> join_heads(const Tensor<T, 4>& heads) {
  const Tensor<T, 4> length_first = converted<T>(heads.view().swap_axes(1, 2));
  return Eigen::Map<const Matrix<T>>(length_first.data(), heads.size(0) * heads.size(2),
                                     heads.size(1) * heads.size(3));
}

/// Whether weights fit an input of this width.
/// @throws std::invalid_argument when heads does not divide it or a weight has another shape
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

/// @{ The rows of all sequences in one matrix, since a projection treats every token alike; and back.
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
/// @}

/// y = x W^T + b for each row.
template <class T>
Matrix<T> apply(const Linear<T>& linear, const Matrix<T>& x) {
  Matrix<T> y = x * linear.w.transpose();
  y.rowwise() += linear.b.transpose();
  return y;
}

/// The gradients of y = x W^T + b with respect to W and b.
template <class T>
Linear<T> weight_gradient(const Matrix<T>& x, const Matrix<T>& d_y) {
  return {d_y.transpose() * x, d_y.colwise().sum().transpose()};
}

/// Self-attention with its projections: x -> q, k, v -> heads -> o -> y.
/// @param x       [batch, length, width]
/// @param weights all of [width, width] and [width]
/// @param heads   number of heads; divides width
/// @throws std::invalid_argument when heads does not divide width or a weight has another shape
template <class T>
MultiHeadForward<T> multi_head_forward(View<const T, 3> x, const MultiHeadWeights<T>& weights,
                                       std::int64_t heads, const AttentionOptions& options = {}) {
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

/// The gradients of a loss through the whole layer.
/// @param d_y gradient of the loss with respect to y, [batch, length, width]
/// @throws std::invalid_argument when the shape of d_y is not that of y
template <class T>
MultiHeadGradients<T> multi_head_backward(View<const T, 3> x, const MultiHeadWeights<T>& weights,
                                          const MultiHeadForward<T>& state, View<const T, 3> d_y,
                                          const AttentionOptions& options = {}) {
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

}  // namespace fa::naive
