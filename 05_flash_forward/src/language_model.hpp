/// @file
/// A small language model over characters in plain matrices: all but its attention, which is given.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/tensor/matrix.hpp"

namespace fa::flash {

/// Tokens of a text: indices of characters in a model's alphabet.
using Tokens = std::vector<int>;

/// A causal language model over characters, as lesson 06 trains it: each layer adds attention and
/// a feed-forward network to its input, with layer normalisation before each. Vectors are matrices
/// of one row.
template <class T>
struct LanguageModel {
  /// The parameters of a layer; y = x w + b.
  struct Layer {
    Matrix<T> gain_1, bias_1, w_q, w_k, w_v, w_o;          ///< attention
    Matrix<T> gain_2, bias_2, w_up, b_up, w_down, b_down;  ///< the feed-forward network
  };
  /// Reads what the command `train --weights` of lesson 06 writes: layers, heads, width, inner
  /// width, length, number of characters; the characters; the parameters in the order in which they
  /// stand here, with the layers after `positions`.
  /// @throws std::invalid_argument when the file cannot be read or has another number of elements
  explicit LanguageModel(const std::filesystem::path& path);

  /// Tokens of a text.
  /// @throws std::invalid_argument for a character that is not in the alphabet
  Tokens tokens_of(const std::string& text) const;

  std::int64_t heads;           ///< of each layer
  std::string alphabet;         ///< token i is the character alphabet[i]
  Matrix<T> tokens, positions;  ///< embeddings, [characters, width] and [length, width]
  std::vector<Layer> layers;    ///< one after the other
  Matrix<T> gain, bias, out;    ///< the last normalisation, and [width, characters]
};

/// The weights of a model that knows the text in common/data.
std::filesystem::path model_file();

/// Attention of one layer, of rows [tokens, width] whose columns are the heads side by side.
template <class T>
using LayerAttention = std::function<Matrix<T>(std::int64_t layer, const Matrix<T>& q,
                                               const Matrix<T>& k, const Matrix<T>& v)>;

/// The attention of lesson 01 under the causal mask, of one sequence without a cache.
template <class T>
LayerAttention<T> plain_attention(std::int64_t heads);

/// What the model says about the token after each of some tokens.
/// @param places position of each in its sequence, below the model's length
/// @return logits, [tokens, characters]
template <class T>
Matrix<T> logits(const LanguageModel<T>& model, const Tokens& tokens, const Tokens& places,
                 const LayerAttention<T>& attend);

}  // namespace fa::flash
