// The sections about the tape.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "01_naive_attention/gradient_check.hpp"
#include "06_flash_backward/src/sections.hpp"
#include "06_flash_backward/src/training/autograd_check.hpp"
#include "common/cli/table.hpp"

namespace fa::backward {
namespace {

// Four numbers, to be followed by hand.
void tape_by_hand() {
  const auto number = [](double x) { return variable<double>(Matrix<double>::Constant(1, 1, x)); };
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

void operations(cli::Program& program) {
  for (const TapeCase& of : operation_cases()) {
    const Comparison c = checker(of);
    program.check(c.what, c.difference, c.allowed);
  }
}

void transformer(cli::Program& program) {
  const TapeCase by_tiles = transformer_case(tiled_engine<double>({3, 2})),
                 by_lesson_01 = transformer_case(naive_engine<double>());
  std::int64_t parameters = 0;
  for (const auto& x : by_tiles.arguments) parameters += x->value.size();
  fmt::print("2 layers, {} parameters, attention in tiles of 3 x 2\n", parameters);
  const Comparison c = checker(by_tiles);
  program.check("parameters against central differences", c.difference, c.allowed);
  const auto tiles = tape_gradients(by_tiles), expected = tape_gradients(by_lesson_01);
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const Matrix<double> difference = (tiles[i] - expected[i]).cwiseAbs();
    worst = naive::worse(worst, difference.maxCoeff<Eigen::PropagateNaN>());
    largest = std::max(largest, expected[i].cwiseAbs().maxCoeff());
  }
  program.check("tiled attention against lesson 01", worst / largest, 1e-13);
}

}  // namespace

void add_autograd(cli::Program& program) {
  program.section("tape", "Worked example: a tape", tape_by_hand);
  program.section("autograd", "Gradients of every operation", [&] { operations(program); });
  program.section("transformer", "Gradients of a small transformer", [&] { transformer(program); });
}

}  // namespace fa::backward
