/// @file
/// Lesson 06: the gradients of attention by tiles on the CPU, from Q, K, V, O, LSE and dO. No
/// matrix of scores or probabilities is ever stored in full. What the kernels do, in the same
/// order; read it first.
///
/// Source: Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning,
/// 2023, algorithm 2. There one loop computes all three gradients and adds to dQ in memory; here
/// dQ has a loop of its own, so that every result is written by one owner.
#pragma once

#include "01_naive_attention/attention.hpp"
#include "03_online_softmax/tiled.hpp"

namespace fa::backward {

/// delta = rowsum(dO * O), one number for each query: the term by which softmax pulls each row's
/// scores together. Source: Dao et al., FlashAttention, NeurIPS 2022, appendix B.2.
/// @param o   [batch, heads, length_q, head_dim]
/// @param d_o gradient of the loss with respect to o, same shape
/// @return [batch, heads, length_q]
/// @throws std::invalid_argument when the shapes differ
template <class T>
Tensor<T, 3> row_dots(View<const T, 4> o, View<const T, 4> d_o);

/// The gradients that naive::backward() returns, from what a forward pass kept. Threaded over
/// tiles; the result does not depend on the number of threads. Source: Dao, FlashAttention-2, ICLR
/// 2024, algorithm 2.
/// @param q   [batch, heads, length_q, head_dim], any strides
/// @param k   [batch, kv_heads, length_k, head_dim], any strides
/// @param v   [batch, kv_heads, length_k, head_dim], any strides
/// @param o   what forward returned, shape of q
/// @param lse what forward returned, [batch, heads, length_q], natural logarithm; -infinity for a
///            row that sees no key
/// @param d_o gradient of the loss with respect to o, shape of q
/// @param tiles sizes of the tiles; larger ones than the problem are cut to it
/// @throws std::invalid_argument as naive::backward(), when o or lse has another shape, and for a
///         tile size below 1
template <class T>
naive::Gradients<T> tiled_backward(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                                   View<const T, 4> o, View<const T, 3> lse, View<const T, 4> d_o,
                                   const AttentionOptions& options = {},
                                   const online::Tiles& tiles = {});

}  // namespace fa::backward
