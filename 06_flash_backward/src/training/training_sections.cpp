// The tape, its operations, a small transformer, and training with the kernels.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "01_naive_attention/gradient_check.hpp"
#include "06_flash_backward/src/derivation/derivation.hpp"
#include "06_flash_backward/src/sections.hpp"
#include "06_flash_backward/src/training/training.hpp"
#include "common/cli/program.hpp"
#include "common/cli/table.hpp"
#include "common/tensor/random.hpp"

namespace fa::backward {
namespace {

// Four numbers, to be followed by hand.
void tape_by_hand() {
  const auto number = [](double x) {
    return std::make_shared<Node<double>>(Matrix<double>::Constant(1, 1, x));
  };
  //! [by_hand]
  Tape<double> tape;
  const auto x = number(3), w = number(2);
  const auto a = tape.matmul(x, w);  // 1 x 1 matrices: a plain product
  const auto b = tape.add(a, x);
  const auto loss = tape.matmul(a, b);
  tape.backward(loss);
  //! [by_hand]
  cli::Table table({"variable", "value", "gradient"});
  for (const auto& [name, node] : {std::pair("x", x), std::pair("w", w), std::pair("a = x w", a),
                                   std::pair("b = a + x", b), std::pair("loss = a b", loss)}) {
    table.add(
        {name, fmt::format("{:g}", node->value(0, 0)), fmt::format("{:g}", node->grad(0, 0))});
  }
  fmt::print("{}", table.text());
}

// A computation to be tried on a tape.
struct TapeCase {
  std::string name;
  std::vector<Variable<double>> arguments;                // what it is differentiated by
  std::function<Variable<double>(Tape<double>&)> result;  // from their present values
};

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
  const auto s = tape.matmul(q, k_transposed);
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
  return tape.matmul(probs, v);
}

// Every operation with random arguments of odd sizes; attention also as matmuls and a softmax.
std::vector<TapeCase> operation_cases() {
  const auto x = random_variable(5, 3, 1), w = random_variable(3, 4, 2),
             same = random_variable(5, 3, 3), row = random_variable(1, 3, 4),
             table = random_variable(6, 3, 6);
  // Four heads share two of K and V; the first two queries see no key.
  const auto q = random_variable(2 * 7, 4 * 3, 30), k = random_variable(2 * 5, 2 * 3, 31),
             v = random_variable(2 * 5, 2 * 3, 32);
  const auto by = [=](const AttentionEngine<double>& engine) {
    return [=](Tape<double>& t) { return t.attention(q, k, v, 2, 4, engine); };
  };
  using Tapes = Tape<double>&;
  const std::vector<std::int64_t> ids{4, 0, 4, 4, 2}, targets{2, 0, 1, 1, 0};
  return {
      {"matmul", {x, w}, [=](Tapes t) { return t.matmul(x, w); }},
      {"add", {x, same}, [=](Tapes t) { return t.add(x, same); }},
      {"add a bias", {x, row}, [=](Tapes t) { return t.add(x, row); }},
      {"embedding", {table}, [=](Tapes t) { return t.embedding(table, ids); }},
      {"layer_norm", {x}, [=](Tapes t) { return t.layer_norm(x); }},
      {"relu", {x}, [=](Tapes t) { return t.relu(x); }},
      {"cross_entropy", {x}, [=](Tapes t) { return t.cross_entropy(x, targets); }},
      {"attention, lesson 01", {q, k, v}, by(naive_engine<double>())},
      {"attention, tiled", {q, k, v}, by(tiled_engine<double>())},
      {"attention, composed",
       {x, same, table},
       [=](Tapes t) { return composed_attention(t, x, same, t.embedding(table, ids)); }},
      {"x used twice", {x}, [=](Tapes t) { return t.add(t.layer_norm(x), t.add(x, x)); }},
  };
}

// Compares the gradients of the sum of a result's elements, weighted at random, with central
// differences; gradients of nothing are infinitely wrong.
Comparison compared(const TapeCase& of) {
  const auto loss = [&] {
    Tape<double> forward_only;
    return loss_of(of, forward_only)->value(0, 0);
  };
  const auto numerical = numerical_gradients(of.arguments, loss);
  for (const auto& x : of.arguments) x->grad.setZero();  // of earlier cases
  Tape<double> tape;
  tape.backward(loss_of(of, tape));
  std::vector<Matrix<double>> gradients;
  bool nothing = false;
  for (const auto& x : of.arguments) {
    gradients.push_back(x->grad);
    nothing = nothing || !(x->grad.cwiseAbs().maxCoeff() > 0.01);
  }
  return {of.name,
          nothing ? std::numeric_limits<double>::infinity() : difference(gradients, numerical),
          naive::kDifferenceTolerance};
}

// Compares the gradients of a model of two layers with central differences, and those by tiles with
// those by lesson 01.
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

Text licence() {
  std::ifstream file(std::filesystem::path(FA_ROOT_DIRECTORY) / "LICENSE", std::ios::binary);
  return Text({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

// The gradients of all parameters, one after the other, with the parameters of another run.
template <class T>
Tensor<T, 1> gradients_at(Training<T>& run, const Training<double>& at) {
  std::vector<T> all;
  for (std::size_t i = 0; i < run.parameters.size(); ++i) {
    run.parameters[i]->value = at.parameters[i]->value.cast<float>().cast<T>();
  }
  run.loss_and_gradients(1);
  for (const auto& x : run.parameters) {
    all.insert(all.end(), x->grad.data(), x->grad.data() + x->grad.size());
  }
  return converted<T>(View<const T, 1>(all.data(), {static_cast<std::int64_t>(all.size())}));
}

// A run of each engine from the same parameters: lesson 01 in float64 and in float32, the kernels.
void train(cli::Program& program, const Backend& backend) {
  constexpr std::int64_t kSteps = 128;
  const Plan plan;
  const Text text = licence();
  Training<double> exact(plan, text, naive_engine<double>());
  Training<float> textbook(plan, text, naive_engine<float>()),
      kernels(plan, text, kernel_engine(backend, Type::kFloat32));
  std::int64_t count = 0;
  for (const auto& parameter : exact.parameters) count += parameter->value.size();
  cli::Table known({"prediction from", "loss, nats"});
  const auto add_level = [&](const char* what, double loss) {
    known.add({what, fmt::format("{:.3f}", loss)});
  };
  add_level("the alphabet (uniform)", std::log(static_cast<double>(text.alphabet.size())));
  add_level("character frequencies (unigram entropy)", text.unigram_entropy());
  add_level("the previous character (bigram entropy)", text.bigram_entropy());
  fmt::print(
      "text: LICENSE, {} bytes, {} different characters\n"
      "model: {} layers, {} heads, head_dim {}, {} parameters\n"
      "batch: {} sequences of {} characters\n{}\n",
      text.ids.size(), text.alphabet.size(), plan.layers, plan.heads, plan.width / plan.heads,
      count, plan.batch, plan.length, known.text());

  Tensor<double, 1> ref({kSteps});
  Tensor<float, 1> plain({kSteps}), out({kSteps});
  cli::Progress progress("training", kSteps);
  cli::Table table({"step", "lesson 01, float64", "kernels, float32", "lesson 01, float32"});
  for (std::int64_t i = 0; i < kSteps; ++i) {
    ref(i) = exact.step();
    plain(i) = static_cast<float>(textbook.step());
    out(i) = static_cast<float>(kernels.step());
    progress.step();
    const std::int64_t step = i + 1;
    if ((step & i) != 0) continue;  // powers of two
    table.add({std::to_string(step), fmt::format("{:.5f}", ref(i)), fmt::format("{:.5f}", out(i)),
               fmt::format("{:.5f}", plain(i))});
  }
  fmt::print("{}", table.text());
  program.check(accept("loss curve", out, ref, plain, kGradientFactor));
  double last = 0;
  for (std::int64_t i = kSteps - 16; i < kSteps; ++i) last += out(i) / 16;
  program.check("mean of the last 16 losses", last, text.bigram_entropy());
  const auto of_kernels = gradients_at(kernels, exact), of_textbook = gradients_at(textbook, exact);
  program.check(accept("gradients of all parameters", of_kernels, gradients_at(exact, exact),
                       of_textbook, kGradientFactor));
}

}  // namespace

void add_training(cli::Program& program, const std::vector<Backend>& backends) {
  const Backend* const lab = find_backend(backends, "lab");
  const Backend* const gpu = find_backend(backends, "gpu");
  program.has_kernels(gpu == nullptr ? std::nullopt : std::optional(gpu->available));
  const auto check = [&program](const Comparison& c) {
    program.check(c.what, c.difference, c.allowed);
  };
  program.section("tape", "Worked example: a tape", tape_by_hand);
  program.section("autograd", "Gradients of every operation", [=] {
    for (const TapeCase& of : operation_cases()) check(compared(of));
  });
  program.section("transformer", "Gradients of a small transformer", [=] {
    for (const Comparison& c : transformer_comparisons()) check(c);
  });
  program.section("train", "Training with the kernels",
                  [=, &program] { train(program, program.on_gpu() ? *gpu : *lab); });
}

}  // namespace fa::backward
