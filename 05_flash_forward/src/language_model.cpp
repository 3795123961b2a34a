#include "05_flash_forward/src/language_model.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "01_naive_attention/multi_head.hpp"
#include "common/tensor/npy.hpp"

namespace fa::flash {
namespace {

constexpr double kLayerNormEpsilon = 1e-5;  // as lesson 06 trains

template <class T>
Matrix<T> layer_norm(const Matrix<T>& x, const Matrix<T>& gain, const Matrix<T>& bias) {
  const Matrix<T> centred = x.colwise() - x.rowwise().mean();
  const Vector<T> deviation =
      (centred.array().square().rowwise().mean() + static_cast<T>(kLayerNormEpsilon)).sqrt();
  const Matrix<T> normal =
      deviation.cwiseInverse().asDiagonal() * centred * gain.row(0).asDiagonal();
  return normal.rowwise() + bias.row(0);
}

template <class T>
T gelu(T x) {
  return x * (1 + std::erf(x * static_cast<T>(std::sqrt(0.5)))) / 2;
}

}  // namespace

std::filesystem::path model_file() {
  return FA_ROOT_DIRECTORY "/common/data/alice_model.npy";
}

template <class T>
LanguageModel<T>::LanguageModel(const std::filesystem::path& path) {
  const auto file = read_npy_as<T, 1>(path);
  std::int64_t at = 0;
  const auto next = [&] {
    if (at == file.count()) {
      throw std::invalid_argument(
          fmt::format("{}: {} elements are too few for its model", path.string(), at));
    }
    return file(at++);
  };
  const auto matrix = [&](std::int64_t rows, std::int64_t cols) {
    Matrix<T> result(rows, cols);
    for (std::int64_t i = 0; i < rows * cols; ++i) result.data()[i] = next();
    return result;
  };
  const auto size = [&] { return static_cast<std::int64_t>(next()); };
  const std::int64_t count = size();
  heads = size();
  const std::int64_t width = size(), inner = size(), length = size(), characters = size();
  for (std::int64_t i = 0; i < characters; ++i) alphabet += static_cast<char>(size());
  tokens = matrix(characters, width);
  positions = matrix(length, width);
  for (std::int64_t i = 0; i < count; ++i) {
    Layer w;
    for (Matrix<T>* row : {&w.gain_1, &w.bias_1}) *row = matrix(1, width);
    for (Matrix<T>* square : {&w.w_q, &w.w_k, &w.w_v, &w.w_o}) *square = matrix(width, width);
    for (Matrix<T>* row : {&w.gain_2, &w.bias_2}) *row = matrix(1, width);
    w.w_up = matrix(width, inner);
    w.b_up = matrix(1, inner);
    w.w_down = matrix(inner, width);
    w.b_down = matrix(1, width);
    layers.push_back(std::move(w));
  }
  gain = matrix(1, width);
  bias = matrix(1, width);
  out = matrix(width, characters);
  if (at != file.count()) {
    throw std::invalid_argument(
        fmt::format("{}: has {} elements, and its model {}", path.string(), file.count(), at));
  }
}

template <class T>
Tokens LanguageModel<T>::tokens_of(const std::string& text) const {
  Tokens result;
  for (const char c : text) {
    const std::size_t token = alphabet.find(c);
    if (token == std::string::npos) {
      throw std::invalid_argument(fmt::format("the model does not know the character '{}'", c));
    }
    result.push_back(static_cast<int>(token));
  }
  return result;
}

template <class T>
LayerAttention<T> plain_attention(std::int64_t heads) {
  AttentionOptions options;
  options.causal = true;
  return [=](auto, const Matrix<T>& q, const Matrix<T>& k, const Matrix<T>& v) {
    const auto split = [&](const Matrix<T>& x) { return naive::split_heads<T>(x, 1, heads); };
    return naive::join_heads(naive::forward<T>(split(q), split(k), split(v), options).o);
  };
}

// clang-format off
//! [logits]
template <class T>
Matrix<T> logits(const LanguageModel<T>& model, const Tokens& tokens,
                 const Tokens& places, const LayerAttention<T>& attend) {
  Matrix<T> x(static_cast<std::int64_t>(tokens.size()), model.tokens.cols());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    x.row(i) = model.tokens.row(tokens[i]) + model.positions.row(places[i]);
  }
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    const auto& w = model.layers[layer];
    const Matrix<T> a = layer_norm(x, w.gain_1, w.bias_1);
    x += attend(layer, a * w.w_q, a * w.w_k, a * w.w_v) * w.w_o;
    const Matrix<T> b = layer_norm(x, w.gain_2, w.bias_2);
    const Matrix<T> up = (b * w.w_up).rowwise() + w.b_up.row(0);
    x += up.unaryExpr(&gelu<T>) * w.w_down;
    x.rowwise() += w.b_down.row(0);
  }
  return layer_norm(x, model.gain, model.bias) * model.out;
}
//! [logits]
// clang-format on

#define FA_LANGUAGE_MODEL_FOR(T)                                                      \
  template struct LanguageModel<T>;                                                   \
  template LayerAttention<T> plain_attention<T>(std::int64_t);                        \
  template Matrix<T> logits<T>(const LanguageModel<T>&, const Tokens&, const Tokens&, \
                               const LayerAttention<T>&);
FA_LANGUAGE_MODEL_FOR(float)
FA_LANGUAGE_MODEL_FOR(double)

}  // namespace fa::flash
