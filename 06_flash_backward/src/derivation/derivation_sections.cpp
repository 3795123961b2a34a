// The sections that go from the derivative to gradients by tiles.
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "01_naive_attention/attention.hpp"
#include "01_naive_attention/gradient_check.hpp"
#include "06_flash_backward/src/derivation/derivation.hpp"
#include "06_flash_backward/src/derivation/tiled.hpp"
#include "06_flash_backward/src/sections.hpp"
#include "common/cli/table.hpp"
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
  for (const Comparison& c : statements()) {
    program.check(c.what, c.difference, c.allowed);
  }
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

}  // namespace

void add_derivation(cli::Program& program) {
  program.section("steps", "Step of the difference quotient", steps);
  program.section("jacobian", "Memory for Jacobians", jacobians);
  program.section("rounded_lse", "Effect of a rounded LSE on P", rounded_lse);
  program.section("derivation", "Derivation, statement by statement",
                  [&] { all_statements(program); });
  program.section("wrong", "Correct and wrong backward passes", [&] { check_mistakes(program); });
  program.section("tiles", "Tiled gradients on the input", [&] { tiles_on_the_input(program); });
}

}  // namespace fa::backward
