/// @file
/// The layer around attention: four projections and the heads between them.
#pragma once

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
Tensor<T, 4> split_heads(const Matrix<T>& rows, std::int64_t batch, std::int64_t heads);

/// The inverse of split_heads().
/// @param heads [batch, heads, length, head_dim]
/// @return [batch * length, heads * head_dim]
template <class T>
Matrix<T> join_heads(const Tensor<T, 4>& heads);

/// Self-attention with its projections: x -> q, k, v -> heads -> o -> y.
/// @param x       [batch, length, width]
/// @param weights all of [width, width] and [width]
/// @param heads   number of heads; divides width
/// @throws std::invalid_argument when heads does not divide width or a weight has another shape
template <class T>
MultiHeadForward<T> multi_head_forward(View<const T, 3> x, const MultiHeadWeights<T>& weights,
                                       std::int64_t heads, const AttentionOptions& options = {});

/// The gradients of a loss through the whole layer.
/// @param x       as given to multi_head_forward()
/// @param weights as given to multi_head_forward()
/// @param state   what multi_head_forward() returned
/// @param d_y     gradient of the loss with respect to y, [batch, length, width]
/// @param options as given to multi_head_forward()
/// @throws std::invalid_argument when the shape of d_y is not that of y
template <class T>
MultiHeadGradients<T> multi_head_backward(View<const T, 3> x, const MultiHeadWeights<T>& weights,
                                          const MultiHeadForward<T>& state, View<const T, 3> d_y,
                                          const AttentionOptions& options = {});

}  // namespace fa::naive
