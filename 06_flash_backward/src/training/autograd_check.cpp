#include "06_flash_backward/src/training/autograd_check.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "01_naive_attention/gradient_check.hpp"
#include "common/tensor/random.hpp"

namespace fa::backward {
namespace {

Matrix<double> normal_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                             double deviation = 1) {
  Matrix<double> result(rows, cols);
  fill_normal(View<double, 2>(result.data(), {rows, cols}), seed, deviation);
  return result;
}

Variable<double> random_variable(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                                 double deviation = 1) {
  return variable<double>(normal_matrix(rows, cols, seed, deviation));
}

// An operation that the tape does not know: the sum of x o w.
Variable<double> weighted_sum(Tape<double>& tape, const Variable<double>& x,
                              const Matrix<double>& w) {
  const double sum = x->value.cwiseProduct(w).sum();
  return tape.record(Matrix<double>::Constant(1, 1, sum),
                     [x, w](const Matrix<double>& d_sum) { x->grad += d_sum(0, 0) * w; });
}

Variable<double> loss_of(const TapeCase& of, Tape<double>& tape) {
  const auto y = of.result(tape);
  return weighted_sum(tape, y, normal_matrix(y->value.rows(), y->value.cols(), 99));
}

// Attention as an operation by itself, with dropout; heads share keys.
TapeCase attention_case(const std::string& name, const AttentionEngine<double>& engine) {
  const HeadLayout layout{2, 4, 2};
  const auto q = random_variable(2 * 7, 4 * 3, 30), k = random_variable(2 * 5, 2 * 3, 31),
             v = random_variable(2 * 5, 2 * 3, 32);
  const auto keep =
      std::make_shared<Tensor<std::uint8_t, 4>>(random_keep_mask<4>({2, 4, 7, 5}, 0.25, 33));
  AttentionOptions options;
  options.causal = true;  // the first two queries see no key
  options.dropout_probability = 0.25;
  return {name, {q, k, v}, [=](Tape<double>& tape) {
            AttentionOptions with_mask = options;
            with_mask.dropout_keep = keep->view();
            return attention(tape, q, k, v, layout, with_mask, engine);
          }};
}

// The parameters of one layer of a transformer.
struct Layer {
  Variable<double> gain_1, bias_1, q, k, v, o;  // attention
  Variable<double> gain_2, bias_2, up, up_bias, down, down_bias;
};

// clang-format off
//! [layer]
Variable<double> apply(Tape<double>& tape, const Layer& w,
                       const Variable<double>& x, const HeadLayout& heads,
                       const AttentionOptions& options,
                       const AttentionEngine<double>& engine) {
  const auto a = layer_norm(tape, x, w.gain_1, w.bias_1);
  const auto o = attention(tape, matmul(tape, a, w.q), matmul(tape, a, w.k),
                           matmul(tape, a, w.v), heads, options, engine);
  const auto y = add(tape, x, matmul(tape, o, w.o));
  const auto b = layer_norm(tape, y, w.gain_2, w.bias_2);
  const auto up = add_bias(tape, matmul(tape, b, w.up), w.up_bias);
  const auto down = matmul(tape, gelu(tape, up), w.down);
  return add(tape, y, add_bias(tape, down, w.down_bias));
}
//! [layer]
// clang-format on

}  // namespace

std::vector<TapeCase> operation_cases() {
  const auto x = random_variable(5, 3, 1), w = random_variable(3, 4, 2),
             same = random_variable(5, 3, 3), row = random_variable(1, 3, 4),
             gain = random_variable(1, 3, 5), table = random_variable(6, 3, 6);
  using Tapes = Tape<double>&;
  return {
      {"matmul", {x, w}, [=](Tapes t) { return matmul(t, x, w); }},
      {"add", {x, same}, [=](Tapes t) { return add(t, x, same); }},
      {"add_bias", {x, row}, [=](Tapes t) { return add_bias(t, x, row); }},
      {"scale", {x}, [=](Tapes t) { return scale(t, x, -0.7); }},
      {"embedding",
       {table},
       [=](Tapes t) {
         return embedding(t, table, {4, 0, 4, 4, 2});
       }},
      {"layer_norm", {x, gain, row}, [=](Tapes t) { return layer_norm(t, x, gain, row); }},
      {"gelu", {x}, [=](Tapes t) { return gelu(t, x); }},
      {"cross_entropy",
       {x},
       [=](Tapes t) {
         return cross_entropy(t, x, {2, 0, 1, 1, 0});
       }},
      attention_case("attention, lesson 01", naive_engine<double>()),
      attention_case("attention, tiled", tiled_engine<double>({3, 2})),
      {"x used twice", {x}, [=](Tapes t) { return add(t, gelu(t, x), add(t, x, x)); }},
  };
}

TapeCase transformer_case(const AttentionEngine<double>& engine) {
  constexpr std::int64_t kTokens = 11, kLength = 5, kBatch = 2, kWidth = 8, kKeyWidth = 4,
                         kInner = 12;
  std::vector<Variable<double>> all;
  const auto parameter = [&](std::int64_t rows, std::int64_t cols) {
    const double deviation = rows == 1 ? 1 : 1 / std::sqrt(static_cast<double>(rows));
    all.push_back(random_variable(rows, cols, 50 + all.size(), deviation));
    return all.back();
  };
  const auto tokens = parameter(kTokens, kWidth), positions = parameter(kLength, kWidth),
             out = parameter(kWidth, kTokens);
  std::vector<Layer> layers;
  for (int i = 0; i < 2; ++i) {
    Layer w;
    w.gain_1 = parameter(1, kWidth);
    w.bias_1 = parameter(1, kWidth);
    w.q = parameter(kWidth, kWidth);
    w.k = parameter(kWidth, kKeyWidth);
    w.v = parameter(kWidth, kKeyWidth);
    w.o = parameter(kWidth, kWidth);
    w.gain_2 = parameter(1, kWidth);
    w.bias_2 = parameter(1, kWidth);
    w.up = parameter(kWidth, kInner);
    w.up_bias = parameter(1, kInner);
    w.down = parameter(kInner, kWidth);
    w.down_bias = parameter(1, kWidth);
    layers.push_back(w);
  }
  const auto network = [=](Tape<double>& tape) {
    AttentionOptions options;
    options.causal = true;
    auto x = add(tape, embedding(tape, tokens, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3}),
                 embedding(tape, positions, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
    for (const Layer& w : layers) {
      x = apply(tape, w, x, {kBatch, 4, 2}, options, engine);
    }
    return cross_entropy(tape, matmul(tape, x, out), {1, 4, 1, 5, 0, 2, 6, 5, 3, 10});
  };
  return {"transformer", all, network};
}

std::vector<Matrix<double>> tape_gradients(const TapeCase& of) {
  for (const auto& x : of.arguments) x->grad.setZero();
  Tape<double> tape;
  tape.backward(loss_of(of, tape));
  std::vector<Matrix<double>> gradients;
  for (const auto& x : of.arguments) gradients.push_back(x->grad);
  return gradients;
}

Comparison checker(const TapeCase& of) {
  const std::vector<Matrix<double>> gradients = tape_gradients(of);
  const auto loss = [&] {
    Tape<double> forward_only;
    return loss_of(of, forward_only)->value(0, 0);
  };
  // Rounding in the loss disturbs the differences of all arguments alike, so
  // the largest gradient of all is the measure.
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Matrix<double>& x = of.arguments[i]->value;
    const auto numerical =
        naive::numerical_gradient(loss, View<double, 2>(x.data(), {x.rows(), x.cols()}));
    const Matrix<double> expected = as_matrix(numerical.view());
    const Matrix<double> difference = (gradients[i] - expected).cwiseAbs();
    worst = naive::worse(worst, difference.maxCoeff<Eigen::PropagateNaN>());
    largest = std::max(largest, expected.cwiseAbs().maxCoeff());
  }
  return {of.name, worst / largest, naive::kDifferenceTolerance};
}

}  // namespace fa::backward
