#include "06_flash_backward/src/training/training_check.hpp"

#include <algorithm>

#include "01_naive_attention/gradient_check.hpp"
#include "common/tensor/random.hpp"

namespace fa::backward {
namespace {

Matrix<double> normal_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Matrix<double> result(rows, cols);
  fill_normal(View<double, 2>(result.data(), {rows, cols}), seed);
  return result;
}

Variable<double> random_variable(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  return std::make_shared<Node<double>>(normal_matrix(rows, cols, seed));
}

Variable<double> loss_of(const TapeCase& of, Tape<double>& tape) {
  const auto y = of.result(tape);
  const Matrix<double> w = normal_matrix(y->value.rows(), y->value.cols(), 99);
  return tape.record(Matrix<double>::Constant(1, 1, y->value.cwiseProduct(w).sum()),
                     [y, w](const Matrix<double>& d) { y->grad += d(0, 0) * w; });
}

// The largest differences of gradients, relative to the largest gradient of all: rounding in the
// loss disturbs all alike.
double difference(const std::vector<Matrix<double>>& a, const std::vector<Matrix<double>>& b) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = naive::worse(worst, (a[i] - b[i]).cwiseAbs().maxCoeff<Eigen::PropagateNaN>());
    largest = std::max(largest, b[i].cwiseAbs().maxCoeff());
  }
  return worst / largest;
}

std::vector<Matrix<double>> numerical_gradients(const std::vector<Variable<double>>& arguments,
                                                const std::function<double()>& loss) {
  std::vector<Matrix<double>> result;
  for (const auto& x : arguments) {
    const View<double, 2> view(x->value.data(), {x->value.rows(), x->value.cols()});
    result.push_back(as_matrix(naive::numerical_gradient(loss, view).view()));
  }
  return result;
}

// Attention of one head by operations that the tape composes: all of S and P is kept.
Variable<double> composed_attention(Tape<double>& tape, const Variable<double>& q,
                                    const Variable<double>& k, const Variable<double>& v) {
  const double scale = 1 / std::sqrt(static_cast<double>(q->value.cols()));
  const auto k_transposed = tape.record(scale * k->value.transpose(),
                                        [=](const auto& d) { k->grad += scale * d.transpose(); });
  const auto s = matmul(tape, q, k_transposed);
  const std::int64_t last = s->value.cols() - s->value.rows();
  for (std::int64_t i = 0; i < s->value.rows(); ++i) {  // the causal mask
    for (std::int64_t j = i + last + 1; j < s->value.cols(); ++j) {
      s->value(i, j) = -std::numeric_limits<double>::infinity();
    }
  }
  const Matrix<double> p = naive::safe_softmax(s->value);
  const auto probs = tape.record(p, [=](const Matrix<double>& d_p) {
    const Vector<double> delta = p.cwiseProduct(d_p).rowwise().sum();
    s->grad += p.cwiseProduct(d_p.colwise() - delta);
  });
  return matmul(tape, probs, v);
}

}  // namespace

std::vector<TapeCase> operation_cases() {
  const auto x = random_variable(5, 3, 1), w = random_variable(3, 4, 2),
             same = random_variable(5, 3, 3), row = random_variable(1, 3, 4),
             table = random_variable(6, 3, 6);
  // Four heads share two of K and V; the first two queries see no key.
  const auto q = random_variable(2 * 7, 4 * 3, 30), k = random_variable(2 * 5, 2 * 3, 31),
             v = random_variable(2 * 5, 2 * 3, 32);
  const auto by = [=](const AttentionEngine<double>& engine) {
    return [=](Tape<double>& t) { return attention(t, q, k, v, 2, 4, 2, engine); };
  };
  using Tapes = Tape<double>&;
  const std::vector<std::int64_t> ids{4, 0, 4, 4, 2}, targets{2, 0, 1, 1, 0};
  return {
      {"matmul", {x, w}, [=](Tapes t) { return matmul(t, x, w); }},
      {"add", {x, same}, [=](Tapes t) { return add(t, x, same); }},
      {"add a bias", {x, row}, [=](Tapes t) { return add(t, x, row); }},
      {"embedding", {table}, [=](Tapes t) { return embedding(t, table, ids); }},
      {"layer_norm", {x}, [=](Tapes t) { return layer_norm(t, x); }},
      {"relu", {x}, [=](Tapes t) { return relu(t, x); }},
      {"cross_entropy", {x}, [=](Tapes t) { return cross_entropy(t, x, targets); }},
      {"attention, lesson 01", {q, k, v}, by(naive_engine<double>())},
      {"attention, tiled", {q, k, v}, by(tiled_engine<double>())},
      {"attention, composed",
       {x, same, table},
       [=](Tapes t) { return composed_attention(t, x, same, embedding(t, table, ids)); }},
      {"x used twice", {x}, [=](Tapes t) { return add(t, layer_norm(t, x), add(t, x, x)); }},
  };
}

std::vector<Matrix<double>> tape_gradients(const TapeCase& of) {
  for (const auto& x : of.arguments) x->grad.setZero();
  Tape<double> tape;
  tape.backward(loss_of(of, tape));
  std::vector<Matrix<double>> gradients;
  for (const auto& x : of.arguments) gradients.push_back(x->grad);
  return gradients;
}

Comparison compared(const TapeCase& of) {
  const auto loss = [&] {
    Tape<double> forward_only;
    return loss_of(of, forward_only)->value(0, 0);
  };
  return {of.name, difference(tape_gradients(of), numerical_gradients(of.arguments, loss)),
          naive::kDifferenceTolerance};
}

std::vector<Comparison> transformer_comparisons() {
  const Text text("one word and one more word");
  Plan plan;
  plan.layers = 2;
  plan.width = 16;
  plan.inner = 12;
  plan.length = 5;
  plan.batch = 2;
  const auto gradients = [](Training<double>& run) {
    run.loss_and_gradients(3);
    std::vector<Matrix<double>> result;
    for (const auto& parameter : run.parameters) result.push_back(parameter->grad);
    return result;
  };
  Training<double> by_tiles(plan, text, tiled_engine<double>()),
      by_lesson_01(plan, text, naive_engine<double>());
  for (auto* run : {&by_tiles, &by_lesson_01}) {
    run->step();  // the last parameters begin at 0, and the gradients of all others with them
  }
  const auto tiles = gradients(by_tiles);
  const auto numerical =
      numerical_gradients(by_tiles.parameters, [&] { return by_tiles.loss_and_gradients(3); });
  return {{"parameters against central differences", difference(tiles, numerical),
           naive::kDifferenceTolerance},
          {"tiled attention against lesson 01", difference(tiles, gradients(by_lesson_01)), 1e-13}};
}

}  // namespace fa::backward
