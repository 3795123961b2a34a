#include "06_flash_backward/src/training/training.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "06_flash_backward/src/derivation/tiled.hpp"
#include "common/tensor/random.hpp"

namespace fa::backward {
namespace {

AttentionOptions causal() {
  AttentionOptions options;
  options.causal = true;
  return options;
}

// The mean of -ln(share) over what was counted.
double entropy_of(const std::vector<double>& counts) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  double sum = 0;
  for (const double count : counts) {
    if (count > 0) sum -= count * std::log(count / total);
  }
  return sum / total;
}

}  // namespace

template <class T>
AttentionEngine<T> naive_engine() {
  using In = View<const T, 4>;
  return {[](In q, In k, In v) { return naive::forward<T>(q, k, v, causal()); },
          [](In q, In k, In v, In, View<const T, 3>, In d_o) {
            return naive::backward<T>(q, k, v, d_o, causal());
          }};
}

template <class T>
AttentionEngine<T> tiled_engine() {
  using In = View<const T, 4>;
  return {[](In q, In k, In v) {
            return online::tiled_forward<T>(q, k, v, causal(), {3, 2});
          },
          [](In q, In k, In v, In o, View<const T, 3> lse, In d_o) {
            return tiled_backward<T>(q, k, v, o, lse, d_o, causal(), {3, 2});
          }};
}

AttentionEngine<float> kernel_engine(const Backend& backend, Type type) {
  LadderStep kernel = backend.dispatched(true, backend.properties);  // where there is no other
  for (const LadderStep& step : backend.steps) {
    if (step.name == (type == Type::kFloat32 ? "03_two_kernels" : "07_deterministic")) {
      kernel = step;
    }
  }
  const auto problem_of = [type](const auto& q, const auto& k, const auto& v) {
    return attention::problem_of(type, attention_shape(q.shape(), k.shape(), v.shape()), true);
  };
  const auto rounded = [type](View<const float, 4> x) {
    auto tensor = converted<float>(x);
    return type == Type::kFloat32 ? tensor : attention::rounded(tensor, type);
  };
  using In = View<const float, 4>;
  return {[=, run = backend.forward](In q, In k, In v) -> naive::Forward<float> {
            auto out = run(problem_of(q, k, v), {rounded(q), rounded(k), rounded(v)});
            return {std::move(out.o), std::move(out.lse)};
          },
          [=](In q, In k, In v, In o, View<const float, 3> lse, In d_o) -> naive::Gradients<float> {
            auto out = kernel.run(problem_of(q, k, v), {{rounded(q), rounded(k), rounded(v)},
                                                        converted<float>(o),
                                                        converted<float>(lse),
                                                        rounded(d_o)});
            return {std::move(out.d_q), std::move(out.d_k), std::move(out.d_v)};
          }};
}

Text::Text(const std::string& bytes) {
  for (const char c : bytes) {
    if (alphabet.find(c) == std::string::npos) alphabet += c;
  }
  std::sort(alphabet.begin(), alphabet.end());
  for (const char c : bytes) ids.push_back(static_cast<std::int64_t>(alphabet.find(c)));
  if (alphabet.size() < 2) {
    throw std::invalid_argument("a training text needs at least two different characters");
  }
}

double unigram_entropy(const Text& text) {
  std::vector<double> counts(text.alphabet.size());
  for (const std::int64_t id : text.ids) ++counts[id];
  return entropy_of(counts);
}

double bigram_entropy(const Text& text) {
  // Of pairs, less that of their first characters: H(b | a) = H(a, b) - H(a).
  const std::size_t size = text.alphabet.size();
  std::vector<double> pairs(size * size), firsts(size);
  for (std::size_t i = 1; i < text.ids.size(); ++i) {
    ++pairs[text.ids[i - 1] * size + text.ids[i]];
    ++firsts[text.ids[i - 1]];
  }
  return entropy_of(pairs) - entropy_of(firsts);
}

template <class T>
Training<T>::Training(const Plan& plan, const Text& text, AttentionEngine<T> engine)
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
                       parameter(inner, width, 1 / root(inner) / layers), parameter(1, width, 0)});
  }
  out_ = parameter(width, characters, 0);
}

template <class T>
Variable<T> Training<T>::parameter(std::int64_t rows, std::int64_t cols, double deviation) {
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

template <class T>
Variable<T> Training<T>::logits(Tape<T>& tape, const std::vector<std::int64_t>& ids,
                                std::int64_t batch) const {
  std::vector<std::int64_t> places(ids.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i % (ids.size() / batch);
  auto x = add(tape, embedding(tape, tokens_, ids), embedding(tape, positions_, places));
  // clang-format off
  //! [layer]
  for (const Layer& w : layers_) {
    const auto a = layer_norm(tape, x);
    const auto o = attention(tape, matmul(tape, a, w.w_q),
                             matmul(tape, a, w.w_k), matmul(tape, a, w.w_v),
                             batch, plan_.heads, plan_.heads, engine_);
    x = add(tape, x, matmul(tape, o, w.w_o));
    const auto b = layer_norm(tape, x);
    const auto up = relu(tape, add(tape, matmul(tape, b, w.w_up), w.b_up));
    x = add(tape, x, add(tape, matmul(tape, up, w.w_down), w.b_down));
  }
  //! [layer]
  // clang-format on
  return matmul(tape, layer_norm(tape, x), out_);
}

template <class T>
double Training<T>::loss_and_gradients(std::int64_t step) {
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
  const auto loss = cross_entropy(tape, logits(tape, ids, plan_.batch), next);
  tape.backward(loss);
  return loss->value(0, 0);
}

template <class T>
double Training<T>::step() {
  const double loss = loss_and_gradients(static_cast<std::int64_t>(losses.size()));
  if (!std::isfinite(loss)) {
    throw std::runtime_error(fmt::format("the loss of step {} is {}", losses.size() + 1, loss));
  }
  losses.push_back(loss);
  adam();
  return loss;
}

// Steps along a running mean of the gradients, divided by the root of a running mean of their
// squares. Source: Kingma and Ba, Adam, 2015, algorithm 1.
template <class T>
void Training<T>::adam() {
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

/// @cond
template AttentionEngine<float> naive_engine<float>();
template AttentionEngine<double> naive_engine<double>();
template AttentionEngine<double> tiled_engine<double>();
template class Training<float>;
template class Training<double>;
/// @endcond

}  // namespace fa::backward
