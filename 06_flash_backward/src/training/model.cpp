#include "06_flash_backward/src/training/model.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/tensor/random.hpp"

namespace fa::backward {

void ModelSize::check() const {
  for (const auto& [name, value] :
       {std::pair("layers", layers), std::pair("heads", heads), std::pair("width", width),
        std::pair("inner", inner), std::pair("length", length),
        std::pair("characters", characters)}) {
    if (value < 1) {
      throw std::invalid_argument(
          fmt::format("the model's {} is {}; it must be at least 1", name, value));
    }
  }
  if (width % (8 * heads) != 0) {
    throw std::invalid_argument(
        fmt::format("a model of width {} cannot have {} heads; the head_dim "
                    "must be a multiple of 8",
                    width, heads));
  }
}

template <class T>
Model<T>::Model(const ModelSize& size, std::uint64_t seed) : size_(size) {
  size_.check();
  const auto add = [&](const std::string& name, Matrix<T> value) {
    parameters_.push_back({name, variable<T>(std::move(value))});
    return parameters_.back().value;
  };
  const auto random = [&](const std::string& name, std::int64_t rows, std::int64_t cols,
                          double deviation) {
    Matrix<float> value(rows, cols);
    fill_normal(View<float, 2>(value.data(), {rows, cols}), random_bits(seed, parameters_.size()),
                deviation);
    return add(name, value.cast<T>());
  };
  const auto row = [&](const std::string& name, std::int64_t cols, T value) {
    return add(name, Matrix<T>::Constant(1, cols, value));
  };
  const std::int64_t width = size.width, inner = size.inner;
  const auto root = [](std::int64_t n) { return std::sqrt(static_cast<double>(n)); };
  // What blocks add to the residual stream keeps its size, however many there are.
  const double into = 1 / root(width), out_of = into / root(2 * size.layers);
  tokens_ = random("characters", size.characters, width, 1);
  positions_ = random("positions", size.length, width, 0.1);
  for (std::int64_t i = 1; i <= size.layers; ++i) {
    const auto name = [&](const char* what) { return fmt::format("layer {}, {}", i, what); };
    Layer w;
    w.gain_1 = row(name("gain_1"), width, 1);
    w.bias_1 = row(name("bias_1"), width, 0);
    w.w_q = random(name("w_q"), width, width, into);
    w.w_k = random(name("w_k"), width, width, into);
    w.w_v = random(name("w_v"), width, width, into);
    w.w_o = random(name("w_o"), width, width, out_of);
    w.gain_2 = row(name("gain_2"), width, 1);
    w.bias_2 = row(name("bias_2"), width, 0);
    w.w_up = random(name("w_up"), width, inner, into);
    w.b_up = row(name("b_up"), inner, 0);
    w.w_down = random(name("w_down"), inner, width, 1 / root(inner) / root(2 * size.layers));
    w.b_down = row(name("b_down"), width, 0);
    layers_.push_back(w);
  }
  gain_ = row("gain", width, 1);
  bias_ = row("bias", width, 0);
  out_ = add("out", Matrix<T>::Zero(width, size.characters));
}

template <class T>
Variable<T> Model<T>::logits(Tape<T>& tape, const std::vector<std::int64_t>& ids,
                             std::int64_t batch, const AttentionEngine<T>& engine) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  if (batch < 1 || count < batch || count % batch != 0 || count / batch > size_.length) {
    throw std::invalid_argument(
        fmt::format("a model of length {} cannot take {} characters as {} sequences", size_.length,
                    count, batch));
  }
  std::vector<std::int64_t> places(ids.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] = static_cast<std::int64_t>(i) % (count / batch);
  }
  AttentionOptions options;
  options.causal = true;
  const HeadLayout heads{batch, size_.heads, size_.heads};
  auto x = add(tape, embedding(tape, tokens_, ids), embedding(tape, positions_, places));
  for (const Layer& w : layers_) {
    const auto a = layer_norm(tape, x, w.gain_1, w.bias_1);
    const auto o = attention(tape, matmul(tape, a, w.w_q), matmul(tape, a, w.w_k),
                             matmul(tape, a, w.w_v), heads, options, engine);
    x = add(tape, x, matmul(tape, o, w.w_o));
    const auto b = layer_norm(tape, x, w.gain_2, w.bias_2);
    const auto up = add_bias(tape, matmul(tape, b, w.w_up), w.b_up);
    x = add(tape, x, add_bias(tape, matmul(tape, gelu(tape, up), w.w_down), w.b_down));
  }
  return matmul(tape, layer_norm(tape, x, gain_, bias_), out_);
}

template <class T>
std::int64_t Model<T>::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& parameter : parameters_) {
    count += parameter.value->value.size();
  }
  return count;
}

template <class T>
Adam<T>::Adam(const std::vector<Parameter<T>>& parameters) {
  for (const auto& parameter : parameters) {
    const Matrix<T>& like = parameter.value->value;
    mean.push_back(Matrix<T>::Zero(like.rows(), like.cols()));
    square.push_back(mean.back());
  }
}

template <class T>
void Adam<T>::step(const std::vector<Parameter<T>>& parameters, double rate) {
  constexpr double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-8;
  ++steps;
  // Both means begin at 0; these undo that.
  const double t = static_cast<double>(steps), correct_1 = 1 - std::pow(beta_1, t),
               correct_2 = 1 - std::pow(beta_2, t);
  // In float32 Eigen's sqrt() starts from rsqrtps, whose bits differ between
  // processors; std::sqrt() is rounded the same way on all of them.
  const auto root = [](T x) { return std::sqrt(x); };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto grad = parameters[i].value->grad.array();
    auto m = mean[i].array(), s = square[i].array();
    m = T(beta_1) * m + T(1 - beta_1) * grad;
    s = T(beta_2) * s + T(1 - beta_2) * grad.square();
    parameters[i].value->value.array() -=
        T(rate / correct_1) * m / ((s / T(correct_2)).unaryExpr(root) + T(epsilon));
  }
}

template class Model<float>;
template class Model<double>;
template struct Adam<float>;
template struct Adam<double>;

}  // namespace fa::backward
