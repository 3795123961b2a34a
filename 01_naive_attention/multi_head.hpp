/// @file
/// The layer around attention: four projections and the heads between them.
#pragma once

#include "01_naive_attention/attention.hpp"

namespace fa::naive {

/// One linear map y = x W^T + b, stored as PyTorch stores it.
template <class T>
struct Linear {
  Matrix<T> w;  ///< [width_out, width_in]
  Vector<T> b;  ///< [width_out]
};

/// The four projections of a multi-head layer (Vaswani et al. 2017, section 3.2.2).
template <class T>
struct MultiHeadWeights {
  Linear<T> q;  ///< from the layer's input to the queries of all heads
  Linear<T> k;  ///< to the keys
  Linear<T> v;  ///< to the values
  Linear<T>
      o;  ///< from the outputs of all heads, side by side, to the layer's output
};

/// What the layer computes on its way; the backward pass needs all of it.
template <class T>
struct MultiHeadForward {
  Tensor<T, 4> q;  ///< [batch, heads, length, head_dim]
  Tensor<T, 4> k;  ///< [batch, heads, length, head_dim]
  Tensor<T, 4> v;  ///< [batch, heads, length, head_dim]
  Tensor<T, 4> o;  ///< [batch, heads, length, head_dim]
  Tensor<T, 3> y;  ///< [batch, length, width], the layer's output
};

/// Gradients of a loss with respect to all that goes into the layer.
template <class T>
struct MultiHeadGradients {
  Tensor<T, 3> d_x;               ///< [batch, length, width]
  MultiHeadWeights<T> d_weights;  ///< shapes of the weights
};

/// Cuts rows of numbers into heads.
/// @param rows  [batch * length, heads * head_dim]
/// @param batch sequences; divides the number of rows
/// @param heads divides the number of columns
/// @return [batch, heads, length, head_dim]
template <class T>
Tensor<T, 4> split_heads(const Matrix<T>& rows, std::int64_t batch,
                         std::int64_t heads);

/// The inverse of split_heads().
/// @param heads [batch, heads, length, head_dim]
/// @return [batch * length, heads * head_dim]
template <class T>
Matrix<T> join_heads(const Tensor<T, 4>& heads);

/// Self-attention with its projections: x -> q, k, v -> heads -> o -> y.
/// @param x       [batch, length, width]
/// @param weights all of [width, width] and [width]
/// @param heads   number of heads; divides width
/// @param options scale, mask and dropout of the attention in the middle
/// @throws std::invalid_argument when heads does not divide width or a weight has another shape
template <class T>
MultiHeadForward<T> multi_head_forward(View<const T, 3> x,
                                       const MultiHeadWeights<T>& weights,
                                       std::int64_t heads,
                                       const AttentionOptions& options = {});

/// The gradients of a loss through the whole layer.
/// @param x       as given to multi_head_forward()
/// @param weights as given to multi_head_forward()
/// @param state   what multi_head_forward() returned
/// @param d_y     gradient of the loss with respect to y, [batch, length, width]
/// @param options as given to multi_head_forward()
/// @throws std::invalid_argument when d_y has not the shape of y
template <class T>
MultiHeadGradients<T> multi_head_backward(
    View<const T, 3> x, const MultiHeadWeights<T>& weights,
    const MultiHeadForward<T>& state, View<const T, 3> d_y,
    const AttentionOptions& options = {});

}  // namespace fa::naive
