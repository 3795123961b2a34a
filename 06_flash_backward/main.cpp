// Lesson 06: where the gradients of attention come from, and how to compute them without its
// weights. Here are the sections from the derivative to gradients by tiles, and those of the kernels.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "01_naive_attention/attention.hpp"
#include "01_naive_attention/gradient_check.hpp"
#include "06_flash_backward/src/derivation/derivation.hpp"
#include "06_flash_backward/src/derivation/tiled.hpp"
#include "06_flash_backward/src/sections.hpp"
#include "common/cli/table.hpp"
#include "common/tensor/npy.hpp"
#include "common/tensor/random.hpp"

namespace fa::backward {
namespace {

void steps() {
  cli::Table table({"step h", "one-sided", "central"});
  for (const StepError& e : step_errors()) {
    table.add({fmt::format("{:.0e}", e.h), fmt::format("{:.0e}", e.one_sided),
               fmt::format("{:.0e}", e.central)});
  }
  fmt::print("Relative errors of the derivative of exp at 1\n{}", table.text());
}

std::string kib(std::int64_t bytes) {
  return std::to_string(bytes / 1024);
}

void jacobians() {
  constexpr std::int64_t kFloat = 4, kDim = 64;
  cli::Table table({"N", "J of a row, KiB", "J of all rows, KiB", "P, KiB", "O and LSE, KiB"});
  for (std::int64_t n = 256; n <= 65536; n *= 4) {
    table.add({std::to_string(n), kib(kFloat * n * n), kib(kFloat * n * n * n), kib(kFloat * n * n),
               kib(kFloat * n * (kDim + 1))});
  }
  fmt::print("One head, head_dim {}, float32; J: a Jacobian of softmax\n{}", kDim, table.text());
}

void rounded_lse() {
  cli::Table table({"scores about", "largest |row sum - 1|"});
  for (const double size : {1.0, 10.0, 100.0, 1000.0, 10000.0}) {
    const auto normal = normal_tensor<double, 2>({1000, 64}, 1);
    const Matrix<double> s = size * Eigen::Map<const Matrix<double>>(normal.data(), 1000, 64);
    const Vector<double> lse = naive::log_sum_exp(s);
    const Vector<double> rounded = lse.cast<float>().cast<double>();
    const Vector<double> sums = recomputed_probs(s, rounded).rowwise().sum();
    table.add(
        {fmt::format("{:.0f}", size), fmt::format("{:.0e}", (sums.array() - 1).abs().maxCoeff())});
  }
  fmt::print("1000 rows of 64 normal scores: P from exact scores and an LSE rounded to float32\n{}",
             table.text());
}

void all_statements(cli::Program& program) {
  for (const Comparison& c : statements()) program.check(c.what, c.difference, c.allowed);
}

void check_mistakes(cli::Program& program) {
  const HeadProblem problem = head_problem(1);
  cli::Table table({"mistake", "dQ", "dK", "dV", "verdict"});
  int wrong_verdicts = 0;
  for (const auto& [mistake, name] : all_mistakes()) {
    const GradientErrors errors = errors_of(problem, head_gradients(problem, mistake));
    const bool right = errors.worst() <= naive::kDifferenceTolerance;
    if (right != (mistake == Mistake::kNone)) ++wrong_verdicts;
    const auto cell = [](double error) {
      return error <= naive::kDifferenceTolerance ? std::string("-") : fmt::format("{:.2g}", error);
    };
    table.add(
        {name, cell(errors.d_q), cell(errors.d_k), cell(errors.d_v), right ? "correct" : "wrong"});
  }
  fmt::print(
      "Differences from central differences, relative to the largest element; "
      "-: below\nthe limit\n{}",
      table.text());
  program.check_none(fmt::format("{} backward passes", all_mistakes().size()), wrong_verdicts,
                     "unexpected verdict");
}

void tiles_on_the_input(cli::Program& program) {
  const cli::Input& input = program.input();
  const auto q = converted<double>(input.q), k = converted<double>(input.k),
             v = converted<double>(input.v);
  const auto d_o = normal_tensor<double, 4>(q.shape(), 1);
  for (const bool causal : {false, true}) {
    AttentionOptions options;
    options.causal = causal;
    const auto forward = naive::forward<double>(q, k, v, options);
    const auto ref = naive::backward<double>(q, k, v, d_o, options);
    for (const online::Tiles tiles : {online::Tiles{64, 128}, online::Tiles{37, 53}}) {
      const auto out = tiled_backward<double>(q, k, v, forward.o, forward.lse, d_o, options, tiles);
      const double terms = static_cast<double>(q.size(2) + k.size(2));
      const auto checker = [&](const char* name, const Tensor<double, 4>& x,
                               const Tensor<double, 4>& reference) {
        program.check(fmt::format("{}, tiles of {} x {}{}", name, tiles.block_m, tiles.block_n,
                                  causal ? ", causal" : ""),
                      naive::relative_difference(x.view(), reference.view()),
                      terms * epsilon<double>());
      };
      checker("d_q", out.d_q, ref.d_q);
      checker("d_k", out.d_k, ref.d_k);
      checker("d_v", out.d_v, ref.d_v);
    }
  }
}

void add_derivation(cli::Program& program) {
  program.section("steps", "Step of the difference quotient", steps);
  program.section("jacobian", "Memory for Jacobians", jacobians);
  program.section("rounded_lse", "Effect of a rounded LSE on P", rounded_lse);
  program.section("derivation", "Derivation, statement by statement",
                  [&] { all_statements(program); });
  program.section("wrong", "Correct and wrong backward passes", [&] { check_mistakes(program); });
  program.section("tiles", "Tiled gradients on the input", [&] { tiles_on_the_input(program); });
}

// ---- The kernels: each step checked, counted in the lab and timed on a GPU.

// Each step on the real input, with a random dO.
void check_real(const Lesson<Backend>& lesson) {
  const cli::Input& input = lesson.program.input();
  const Gradients last = attention::check_real<Checker>(
      lesson, attention_shape(input.q.shape(), input.k.shape(), input.v.shape()),
      [&](const Problem& problem) {
        return with_forward(problem, rounded_inputs(problem, input.q, input.k, input.v), 1);
      });
  if (const auto directory = lesson.program.save_directory()) {
    write_npy(*directory / "d_q.npy", last.d_q);
    write_npy(*directory / "d_k.npy", last.d_k);
    write_npy(*directory / "d_v.npy", last.d_v);
  }
}

void show_memory(const Lesson<Backend>& lesson) {
  constexpr std::int64_t kDim = 64;
  std::vector<MemoryRow> own;
  for (const auto& [name, size] : {std::pair{"float32", 4}, {"16 bits", 2}}) {
    own.push_back({fmt::format("inputs and gradients, {}", name),
                   fmt::format("{} N D + 4 N", 8 * size),
                   [size = size](auto n) { return 8 * size * n * kDim + 4 * n; }});
  }
  const auto zeros = [](const Problem& problem) {
    const Tensor<float, 4> all(problem.shape_of_q());
    return Inputs{{all, all, all}, all, Tensor<float, 3>({1, 1, problem.shape.length_q}), all};
  };
  attention::show_memory(lesson.program, lesson.backends.used(), own, zeros, kDim,
                         "Bytes of one head: q, k, v, o, LSE, dO, dQ, dK and dV, head_dim 64, "
                         "and the\nmemory that a kernel allocates in addition\n{}");
}

// How far apart the results of runs are.
struct Spread {
  int others = 0;         // runs with other bits than the first
  double difference = 0;  // the largest, as a share of the largest element

  void note(const Gradients& first, const Gradients& again) {
    bool same = true;
    for (Tensor<float, 4> Gradients::*part : {&Gradients::d_q, &Gradients::d_k, &Gradients::d_v}) {
      const Tensor<float, 4>&a = first.*part, &b = again.*part;
      if (same_bits(a, b)) continue;
      same = false;
      double largest = 0, apart = 0;
      for (std::int64_t i = 0; i < a.count(); ++i) {
        largest = std::max<double>(largest, std::abs(a.data()[i]));
        apart = std::max<double>(apart, std::abs(a.data()[i] - b.data()[i]));
      }
      difference = std::max(difference, apart / largest);
    }
    others += same ? 0 : 1;
  }
};

// Deterministic steps give the same bits; by how much do the others differ?
void check_repeats(const Lesson<Backend>& lesson) {
  const Backend& backend = lesson.backends.used();
  const bool gpu = backend.kind == "gpu";
  const int runs = gpu ? 25 : 6;
  Problem problem = repeated_problem(gpu, 50, 300);
  const std::int64_t head_dim = problem.shape.head_dim;
  std::map<std::pair<Type, std::int64_t>, Inputs> inputs;
  cli::Table table(
      {"kernel", "type", "runs", "runs with other bits", "largest difference", "deterministic"});
  int broken = 0;
  for (const LadderStep& step : backend.steps) {
    problem.type = step.types.back();
    problem.shape.head_dim = step.head_dim_near(head_dim);
    const std::pair key{problem.type, problem.shape.head_dim};
    if (inputs.find(key) == inputs.end()) inputs.emplace(key, lesson.inputs_of(problem));
    const auto prepared = step.prepare(problem, inputs.at(key));
    prepared.launch();
    const Gradients first = prepared.result();
    Spread spread;
    for (int run = 1; run < runs; ++run) {
      prepared.launch();
      spread.note(first, prepared.result());
    }
    if (step.deterministic) broken += spread.others;
    table.add({step.name, name_of(problem.type), std::to_string(runs),
               std::to_string(spread.others), fmt::format("{:.1e}", spread.difference),
               step.deterministic ? "yes" : "no"});
  }
  fmt::print(
      "Differences relative to the largest element. Steps that add to dQ from "
      "many blocks\nadd in the order in which blocks run, which {}.\n{}",
      gpu ? "differs from run to run on a GPU"
          : "depends on the lab's threads (a\nsingle thread always gives the same order)",
      table.text());
  lesson.program.check_none("deterministic kernels", broken, "difference");
}

void show_times(const Lesson<Backend>& lesson) {
  time_all(lesson, {64, 128, 192, 256}, [&](const TimedGroup& group) {
    // In float32 192 columns are padded to 256.
    return group.type == Type::kFloat32 && group.head_dim == 192
               ? std::vector<cli::Measurement>{}
               : time_steps(lesson.backends.used(), group);
  });
}

void add_kernels(const Lesson<Backend>& lesson) {
  add_ladder_sections<Checker>(lesson, {[&] { check_real(lesson); },
                                        [&] { show_memory(lesson); },
                                        [&] { check_repeats(lesson); },
                                        [&] { show_times(lesson); },
                                        "; T = N / 32, and R is N rounded up to a multiple of 128",
                                        {{64, 32}, {64, 64}, {128, 32}},
                                        8,
                                        {"K", "Q", "V", "dO", "dV", "dK"},
                                        "P, dS"});
  lesson.program.sections_in_apart({"functors"});
}

}  // namespace
}  // namespace fa::backward

int main(int argc, char** argv) {
  using namespace fa;
  using namespace fa::backward;
  const std::vector<Backend> all = backward::backends();
  cli::Program program("06_flash_backward",
                       "Lesson 06: the backward pass: derivation, kernels and training.");
  add_derivation(program);
  const Lesson<Backend> lesson(
      program, all, "06_flash_backward", "dQ, dK and dV",
      [](const Problem& problem) { return backward::make_inputs(problem, Values::kNormal, 1); });
  add_kernels(lesson);
  add_training(program, all);
  return program.run(argc, argv);
}
