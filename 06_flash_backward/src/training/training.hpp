/// @file
/// Lesson 06: a small language model over characters on the tape, and how it learns a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "06_flash_backward/src/backend.hpp"
#include "06_flash_backward/src/training/autograd.hpp"

namespace fa::backward {

/// @{ Engines for causal attention: lesson 01 both ways; lesson 03 and the tiles of chapter 1; the
/// kernels, lesson 05's fastest forward and backward those that give the same bits in every run,
/// step 03 in float32 and step 07 in 16 bits.
template <class T>
AttentionEngine<T> naive_engine();
template <class T>
AttentionEngine<T> tiled_engine();
/// @param type of the tensors on the device: what is given is rounded to it, and so are results
AttentionEngine<float> kernel_engine(const Backend& backend, Type type);
/// @}

/// A text as numbers: each byte that occurs is a character of the alphabet.
struct Text {
  std::string alphabet;           ///< the bytes that occur, in order
  std::vector<std::int64_t> ids;  ///< the text, as places in the alphabet

  /// @throws std::invalid_argument when fewer than two different bytes occur
  explicit Text(const std::string& bytes);
};

/// @{ The entropy of a character, in nats, and that of one given the character before it: no model
/// that sees as little can have a smaller loss on the whole text.
double unigram_entropy(const Text& text);
double bigram_entropy(const Text& text);
/// @}

/// All that a training run depends on, beside the text and the engine.
struct Plan {
  std::int64_t layers = 1;   ///< attention and a feed-forward network
  std::int64_t heads = 2;    ///< divides width
  std::int64_t width = 32;   ///< numbers for each token, a multiple of 8 for each head
  std::int64_t inner = 64;   ///< width inside of the feed-forward network
  std::int64_t length = 64;  ///< characters of a sequence
  std::int64_t batch = 4;    ///< sequences in one step
  double rate = 0.01;        ///< of Adam
  std::int64_t warm_up = 8;  ///< steps in which the rate rises from 0
  std::uint64_t seed = 1;    ///< of the parameters and of the batches
};

/// A causal model, embeddings, layers with layer normalisation before each half, and logits for the
/// next character, that learns a text. All logits are 0 at first, so its first loss is
/// ln(characters); parameters start as numbers of float32 in any type.
template <class T>
class Training {
 public:
  /// @param text must outlive this
  /// @throws std::invalid_argument for a width that does not fit the heads, and for a text that is
  ///         not longer than a sequence
  Training(const Plan& plan, const Text& text, AttentionEngine<T> engine);

  /// What the model says about the next characters, [ids.size(), characters].
  /// @param ids of `batch` sequences of equal lengths, one after the other
  Variable<T> logits(Tape<T>& tape, const std::vector<std::int64_t>& ids, std::int64_t batch) const;
  /// The loss of a step's batch, with its gradients in the parameters.
  double loss_and_gradients(std::int64_t step);
  /// Makes one step.
  /// @return the loss before it: the mean of -ln of what the model gave the right characters
  double step();

  std::vector<Variable<T>> parameters;  ///< what is learnt
  std::vector<double> losses;           ///< of all steps so far

 private:
  struct Layer {
    Variable<T> w_q, w_k, w_v, w_o, w_up, b_up, w_down, b_down;
  };
  Variable<T> parameter(std::int64_t rows, std::int64_t cols, double deviation);
  void adam();

  Plan plan_;
  const Text& text_;
  AttentionEngine<T> engine_;
  Variable<T> tokens_, positions_, out_;
  std::vector<Layer> layers_;
  std::vector<Matrix<T>> mean_, square_;  // Adam's, of each parameter's gradients
};

}  // namespace fa::backward
