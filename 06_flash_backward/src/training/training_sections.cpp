// The tape, its operations, a small transformer, and training with the kernels.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "01_naive_attention/gradient_check.hpp"
#include "06_flash_backward/src/sections.hpp"
#include "06_flash_backward/src/training/training_check.hpp"
#include "common/cli/program.hpp"
#include "common/cli/table.hpp"

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
  const auto a = matmul(tape, x, w);  // 1 x 1 matrices: a plain product
  const auto b = add(tape, a, x);
  const auto loss = matmul(tape, a, b);
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
  add_level("character frequencies (unigram entropy)", unigram_entropy(text));
  add_level("the previous character (bigram entropy)", bigram_entropy(text));
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
  program.check("mean of the last 16 losses", last, bigram_entropy(text));
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
