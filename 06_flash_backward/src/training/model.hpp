/// @file
/// Lesson 06: a small language model on the tape, and the optimiser that trains it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "06_flash_backward/src/training/operations.hpp"

namespace fa::backward {

/// The sizes of a model.
struct ModelSize {
  std::int64_t layers = 1;      ///< blocks of attention and a feed-forward network
  std::int64_t heads = 2;       ///< divides width
  std::int64_t width = 32;      ///< numbers for each token, a multiple of 8 for each head
  std::int64_t inner = 64;      ///< width inside of the feed-forward network
  std::int64_t length = 64;     ///< most tokens that it can look back on
  std::int64_t characters = 2;  ///< of the alphabet

  /// @throws std::invalid_argument for a size below 1, or a width that is not a multiple of 8 for
  ///         each head
  void check() const;
};

/// What is learnt: a matrix and its name, for people and for checkpoints.
template <class T>
struct Parameter {
  std::string name;   ///< "layer 1, w_q"
  Variable<T> value;  ///< with its gradient
};

/// A causal language model over characters: embeddings of characters and positions, blocks of
/// attention and of a feed-forward network with layer normalisation before each, and logits for
/// the next character.
template <class T>
class Model {
 public:
  /// A model that has learnt nothing. All logits are 0, so its first loss is ln(characters). The
  /// parameters are rounded to float32, so that models in float32 and float64 start from the same
  /// numbers.
  /// @throws std::invalid_argument as ModelSize::check()
  Model(const ModelSize& size, std::uint64_t seed);

  /// What the model says about the next characters.
  /// @param tape   notes the steps
  /// @param ids    the characters of `batch` sequences of equal lengths, one after the other
  /// @return logits, [ids.size(), characters]
  /// @throws std::invalid_argument when the sequences are longer than ModelSize::length or unequal
  Variable<T> logits(Tape<T>& tape, const std::vector<std::int64_t>& ids, std::int64_t batch,
                     const AttentionEngine<T>& engine) const;

  /// The parameters, in a fixed order.
  const std::vector<Parameter<T>>& parameters() const { return parameters_; }
  /// The number of numbers that are learnt.
  std::int64_t parameter_count() const;
  /// Its sizes.
  const ModelSize& size() const { return size_; }

 private:
  struct Layer {
    Variable<T> gain_1, bias_1, w_q, w_k, w_v, w_o;  // attention
    Variable<T> gain_2, bias_2, w_up, b_up, w_down, b_down;
  };
  ModelSize size_;
  std::vector<Parameter<T>> parameters_;
  Variable<T> tokens_, positions_, gain_, bias_, out_;
  std::vector<Layer> layers_;
};

/// Adam: steps along a running mean of the gradients, divided by the root of a running mean of
/// their squares. Source: Kingma and Ba, Adam, 2015, algorithm 1.
template <class T>
struct Adam {
  /// No step taken yet.
  explicit Adam(const std::vector<Parameter<T>>& parameters);
  /// Moves the parameters by one step against their gradients.
  /// @param parameters as given to the constructor
  /// @param rate       about how far each number is moved
  void step(const std::vector<Parameter<T>>& parameters, double rate);

  std::int64_t steps = 0;         ///< taken
  std::vector<Matrix<T>> mean;    ///< of the gradients of each parameter
  std::vector<Matrix<T>> square;  ///< of their squares
};

}  // namespace fa::backward
