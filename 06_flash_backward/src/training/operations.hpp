/// @file
/// Operations on the tape of autograd.hpp: those of a small language model, and attention, where
/// one sees how a backward pass written by hand, as that of FlashAttention, is plugged in.
///
/// Every value is a matrix. The rows of a sequence's matrix are its tokens; a batch is its
/// sequences under one another, [batch * length, width].
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "01_naive_attention/attention.hpp"
#include "03_online_softmax/tiled.hpp"
#include "06_flash_backward/src/training/autograd.hpp"

namespace fa::backward {

// All throw std::invalid_argument, in one sentence with the sizes, for shapes that
// do not fit.

/// A matmul.
/// @param x    [rows, inner]
/// @param w    [inner, cols]
/// @return [rows, cols]
/// @throws std::invalid_argument when the inner sizes differ
template <class T>
Variable<T> matmul(Tape<T>& tape, const Variable<T>& x, const Variable<T>& w);

/// The sum of two matrices: a residual connection.
/// @param a    [rows, cols]
/// @param b    [rows, cols]; may be `a` itself
/// @throws std::invalid_argument when the shapes differ
template <class T>
Variable<T> add(Tape<T>& tape, const Variable<T>& a, const Variable<T>& b);

/// Adds one row to every row: a bias.
/// @param x    [rows, cols]
/// @param bias [1, cols]
/// @throws std::invalid_argument when the bias has another shape
template <class T>
Variable<T> add_bias(Tape<T>& tape, const Variable<T>& x, const Variable<T>& bias);

/// Every element of a matrix of any shape times a constant.
template <class T>
Variable<T> scale(Tape<T>& tape, const Variable<T>& x, T factor);

/// Rows of a table: the embedding of tokens, or of positions.
/// @param table [entries, width]
/// @param ids   which row of the table becomes each row of the result; a row may be taken
///              repeatedly
/// @return [ids.size(), width]
/// @throws std::invalid_argument for an id outside of the table
template <class T>
Variable<T> embedding(Tape<T>& tape, const Variable<T>& table, std::vector<std::int64_t> ids);

/// Layer normalisation: each row is shifted and scaled to mean 0 and variance 1, then scaled and
/// shifted by learnt rows. Source: Ba, Kiros and Hinton, Layer Normalization, 2016.
/// @param x    [rows, cols]
/// @param gain [1, cols]
/// @param bias [1, cols]
/// @throws std::invalid_argument when gain or bias has another shape
template <class T>
Variable<T> layer_norm(Tape<T>& tape, const Variable<T>& x, const Variable<T>& gain,
                       const Variable<T>& bias);

/// What layer_norm() adds to the variance, so that a row of equal numbers is not divided by 0.
inline constexpr double kLayerNormEpsilon = 1e-5;

/// x times the normal distribution function of x, element by element. Source: Hendrycks and Gimpel,
/// Gaussian Error Linear Units, 2016.
template <class T>
Variable<T> gelu(Tape<T>& tape, const Variable<T>& x);

/// The mean over rows of -ln softmax(row)[target]: how surprised the model is.
/// @param logits  [rows, classes]
/// @param targets the right class of each row
/// @return [1, 1]
/// @throws std::invalid_argument when there are not as many targets as rows, or one is no class
template <class T>
Variable<T> cross_entropy(Tape<T>& tape, const Variable<T>& logits,
                          std::vector<std::int64_t> targets);

/// How the columns of q, k and v are cut into heads, and their rows into sequences.
struct HeadLayout {
  std::int64_t batch = 1;     ///< sequences
  std::int64_t heads = 1;     ///< query heads
  std::int64_t kv_heads = 1;  ///< key and value heads
};

/// What computes attention and its gradients: lesson 01, tiles on the CPU, or a kernel. Both
/// functions get tensors as the rest of the course has them, [batch, heads, length, head_dim].
template <class T>
struct AttentionEngine {
  /// Returns O and LSE, the only two things that are kept for backward.
  std::function<naive::Forward<T>(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                                  const AttentionOptions& options)>
      forward;
  /// Returns dQ, dK and dV.
  std::function<naive::Gradients<T>(View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                                    View<const T, 4> o, View<const T, 3> lse, View<const T, 4> d_o,
                                    const AttentionOptions& options)>
      backward;
};

/// Lesson 01 both ways, with its refusals. It recomputes everything in the backward pass and
/// needs neither O nor LSE.
template <class T>
AttentionEngine<T> naive_engine();

/// Lesson 03 forward, tiled_backward() backward.
/// @param tiles sizes of the tiles, both ways
template <class T>
AttentionEngine<T> tiled_engine(const online::Tiles& tiles = {});

/// Attention of all heads of all sequences: an operation whose way back is not derived from smaller
/// steps but given. It keeps q, k, v, O and LSE; no matrix of scores or probabilities.
/// @param q       [batch * length_q, heads * head_dim]
/// @param k       [batch * length_k, kv_heads * head_dim]
/// @param v       [batch * length_k, kv_heads * head_dim]
/// @param layout  how these are cut into sequences and heads
/// @param options scale, mask and dropout; a dropout mask must live until Tape::backward()
/// @param engine  computes both ways
/// @return O, shape of q
/// @throws std::invalid_argument when rows and columns cannot be cut so, and as naive::forward()
template <class T>
Variable<T> attention(Tape<T>& tape, const Variable<T>& q, const Variable<T>& k,
                      const Variable<T>& v, const HeadLayout& layout,
                      const AttentionOptions& options, const AttentionEngine<T>& engine);

}  // namespace fa::backward
