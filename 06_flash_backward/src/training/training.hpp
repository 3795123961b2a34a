/// @file
/// Lesson 06: a small language model over characters on the tape, and how it learns a text.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "06_flash_backward/src/backend.hpp"
#include "06_flash_backward/src/derivation/tiled.hpp"
#include "06_flash_backward/src/training/autograd.hpp"
#include "common/tensor/random.hpp"

namespace fa::backward {

/// What computes causal attention and its gradients: lesson 01, tiles on the CPU, or a kernel.
/// Tensors are [batch, heads, length, head_dim], as in the rest of the course.
template <class T>
struct AttentionEngine {
  using In = View<const T, 4>;
  std::function<naive::Forward<T>(In q, In k, In v)> forward;
  std::function<naive::Gradients<T>(In q, In k, In v, In o, View<const T, 3> lse, In d_o)> backward;
};
/// The options of lessons 01 and 03 for causal attention, without dropout.
inline const AttentionOptions kCausal{std::nullopt, true, {}, 0};
/// By lesson 01 both ways.
template <class T>
AttentionEngine<T> naive_engine() {
  return {[](auto q, auto k, auto v) { return naive::forward<T>(q, k, v, kCausal); },
          [](auto q, auto k, auto v, auto, auto, auto d_o) {
            return naive::backward<T>(q, k, v, d_o, kCausal);
          }};
}
/// By lesson 03 and the tiles of chapter 1.
template <class T>
AttentionEngine<T> tiled_engine() {
  return {[](auto q, auto k, auto v) {
            return online::tiled_forward<T>(q, k, v, kCausal, {3, 2});
          },
          [](auto q, auto k, auto v, auto o, auto lse, auto d_o) {
            return tiled_backward<T>(q, k, v, o, lse, d_o, kCausal, {3, 2});
          }};
}
/// By the kernels that are chosen for a backend; backward those that give the same bits in every run.
/// @param type of the tensors on the device: what is given is rounded to it, and so are results
inline AttentionEngine<float> kernel_engine(const Backend& backend, Type type) {
  const auto problem_of = [type](auto q, auto k, auto v) {
    return attention::problem_of(type, attention_shape(q.shape(), k.shape(), v.shape()), true);
  };
  const auto rounded = [type](auto x) { return attention::rounded(converted<float>(x), type); };
  return {[=, run = backend.forward](auto q, auto k, auto v) -> naive::Forward<float> {
            auto out = run(problem_of(q, k, v), {rounded(q), rounded(k), rounded(v)});
            return {std::move(out.o), std::move(out.lse)};
          },
          [=, kernel = backend.dispatched(true, backend.properties)](
              auto q, auto k, auto v, auto o, auto lse, auto d_o) -> naive::Gradients<float> {
            auto out = kernel.run(problem_of(q, k, v), {{rounded(q), rounded(k), rounded(v)},
                                                        converted<float>(o),
                                                        converted<float>(lse),
                                                        rounded(d_o)});
            return {std::move(out.d_q), std::move(out.d_k), std::move(out.d_v)};
          }};
}

/// A text as numbers: each byte that occurs is a character of the alphabet.
struct Text {
  std::string alphabet;           ///< the bytes that occur, in order
  std::vector<std::int64_t> ids;  ///< the text, as places in the alphabet

  /// Of these bytes.
  explicit Text(const std::string& bytes) {
    const std::set<char> occurring(bytes.begin(), bytes.end());
    alphabet.assign(occurring.begin(), occurring.end());
    for (const char c : bytes) ids.push_back(static_cast<std::int64_t>(alphabet.find(c)));
  }
  /// @{ The entropy of a character, in nats, and that of one given the character before it: no model
  /// that sees as little can have a smaller loss on the whole text.
  double unigram_entropy() const { return entropy(1, 0); }
  // Of pairs, less that of their first characters: H(b | a) = H(a, b) - H(a).
  double bigram_entropy() const { return entropy(2, 0) - entropy(1, 1); }
  /// @}

 private:
  // Of runs of `length` characters, but the last `left_out`: the mean of -ln(share).
  double entropy(std::ptrdiff_t length, std::ptrdiff_t left_out) const {
    std::map<std::vector<std::int64_t>, double> counts;
    double total = 0, sum = 0;
    for (auto run = ids.begin(); ids.end() - run >= length + left_out; ++run, ++total) {
      ++counts[{run, run + length}];
    }
    for (const auto& run : counts) sum -= run.second * std::log(run.second / total);
    return sum / total;
  }
};

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
  Training(const Plan& plan, const Text& text, AttentionEngine<T> engine)
      : plan_(plan), text_(text), engine_(std::move(engine)) {
    if (plan.heads < 1 || plan.width % (8 * plan.heads) != 0) {
      throw std::invalid_argument(fmt::format(
          "a model of width {} cannot have {} heads; the head_dim must be a multiple of 8",
          plan.width, plan.heads));
    }
    const auto characters = static_cast<std::int64_t>(text.alphabet.size());
    if (static_cast<std::int64_t>(text.ids.size()) <= plan.length) {
      throw std::invalid_argument(fmt::format("a text of {} characters; sequences of {} need more",
                                              text.ids.size(), plan.length));
    }
    const auto root = [](std::int64_t n) { return std::sqrt(static_cast<double>(n)); };
    // What layers add to the residual stream keeps its size, however many there are.
    const std::int64_t width = plan.width, inner = plan.inner;
    const double into = 1 / root(width), layers = root(2 * plan.layers);
    tokens_ = parameter(characters, width, 1);
    positions_ = parameter(plan.length, width, 0.1);
    for (std::int64_t i = 0; i < plan.layers; ++i) {
      layers_.push_back({parameter(width, width, into), parameter(width, width, into),
                         parameter(width, width, into), parameter(width, width, into / layers),
                         parameter(width, inner, into), parameter(1, inner, 0),
                         parameter(inner, width, 1 / root(inner) / layers),
                         parameter(1, width, 0)});
    }
    out_ = parameter(width, characters, 0);
  }

  /// What the model says about the next characters, [ids.size(), characters].
  /// @param ids of `batch` sequences of equal lengths, one after the other
  Variable<T> logits(Tape<T>& tape, const std::vector<std::int64_t>& ids,
                     std::int64_t batch) const {
    std::vector<std::int64_t> places(ids.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = i % (ids.size() / batch);
    auto x = tape.add(tape.embedding(tokens_, ids), tape.embedding(positions_, places));
    //! [layer]
    for (const Layer& w : layers_) {
      const auto a = tape.layer_norm(x);
      const auto v = tape.matmul(a, w.w_v);
      const auto k = tape.matmul(a, w.w_k);
      const auto q = tape.matmul(a, w.w_q);
      const auto o = tape.attention(q, k, v, batch, plan_.heads, engine_);
      x = tape.add(x, tape.matmul(o, w.w_o));
      const auto b = tape.layer_norm(x);
      const auto up = tape.relu(tape.add(tape.matmul(b, w.w_up), w.b_up));
      x = tape.add(x, tape.add(tape.matmul(up, w.w_down), w.b_down));
    }
    //! [layer]
    return tape.matmul(tape.layer_norm(x), out_);
  }
  /// The loss of a step's batch, with its gradients in the parameters.
  double loss_and_gradients(std::int64_t step) {
    // Sequences that begin anywhere; what follows each character is asked.
    std::vector<std::int64_t> ids, next;
    const std::uint64_t places = text_.ids.size() - plan_.length;
    for (std::int64_t i = 0; i < plan_.batch; ++i) {
      const auto begin =
          text_.ids.begin() + random_bits(~plan_.seed, step * plan_.batch + i) % places;
      ids.insert(ids.end(), begin, begin + plan_.length);
      next.insert(next.end(), begin + 1, begin + 1 + plan_.length);
    }
    for (const auto& parameter : parameters) parameter->grad.setZero();
    Tape<T> tape;
    const auto loss = tape.cross_entropy(logits(tape, ids, plan_.batch), next);
    tape.backward(loss);
    return loss->value(0, 0);
  }
  /// Makes one step.
  /// @return the loss before it: the mean of -ln of what the model gave the right characters
  double step() {
    losses.push_back(loss_and_gradients(static_cast<std::int64_t>(losses.size())));
    adam();
    return losses.back();
  }

  std::vector<Variable<T>> parameters;  ///< what is learnt
  std::vector<double> losses;           ///< of all steps so far

 private:
  struct Layer {
    Variable<T> w_q, w_k, w_v, w_o, w_up, b_up, w_down, b_down;
  };

  Variable<T> parameter(std::int64_t rows, std::int64_t cols, double deviation) {
    Matrix<float> value = Matrix<float>::Zero(rows, cols);
    if (deviation > 0) {
      fill_normal(View<float, 2>(value.data(), {rows, cols}),
                  random_bits(plan_.seed, parameters.size()), deviation);
    }
    parameters.push_back(std::make_shared<Node<T>>(value.cast<T>()));
    mean_.push_back(Matrix<T>::Zero(rows, cols));
    square_.push_back(mean_.back());
    return parameters.back();
  }
  // Steps along a running mean of the gradients, divided by the root of a running mean of their
  // squares. Source: Kingma and Ba, Adam, 2015, algorithm 1.
  void adam() {
    constexpr double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-8;
    const auto t = static_cast<double>(losses.size());
    const double rate = plan_.rate * std::min(1.0, t / static_cast<double>(plan_.warm_up + 1));
    // Both means begin at 0; these undo that.
    const double correct_1 = 1 - std::pow(beta_1, t), correct_2 = 1 - std::pow(beta_2, t);
    // In float32 Eigen's sqrt() starts from rsqrtps, whose bits differ between processors;
    // std::sqrt() is rounded the same way on all of them.
    const auto root = [](T x) { return std::sqrt(x); };
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto grad = parameters[i]->grad.array();
      auto m = mean_[i].array(), s = square_[i].array();
      m = T(beta_1) * m + T(1 - beta_1) * grad;
      s = T(beta_2) * s + T(1 - beta_2) * grad.square();
      parameters[i]->value.array() -=
          T(rate / correct_1) * m / ((s / T(correct_2)).unaryExpr(root) + T(epsilon));
    }
  }

  Plan plan_;
  const Text& text_;
  AttentionEngine<T> engine_;
  Variable<T> tokens_, positions_, out_;
  std::vector<Layer> layers_;
  std::vector<Matrix<T>> mean_, square_;  // Adam's, of each parameter's gradients
};

}  // namespace fa::backward
