// The finished kernels over a matrix of problems: all of it on a GPU, a thinner one in the lab. And random problems,
// other ones in each run.
#include <algorithm>

#include <doctest/doctest.h>

#include "05_flash_forward/tests/rungs.hpp"
#include "06_flash_backward/machine.hpp"

using namespace fa;
using backward::Machine;
using backward::Problem;
using backward::Rung;
using flash::Type;

namespace {

const Machine& best_machine() {
  static const std::vector<Machine> machines = backward::machines();
  return flash::best_machine(machines);
}
bool on_gpu() {
  return best_machine().kind == "gpu";
}

// The finished ones: in float32 03 and 04, in 16 bits 06 and 07, and behind 09.
bool is_finished(const Rung& rung) {
  const std::string number = rung.name.substr(0, 2);
  return number == "03" || number == "04" || number == "06" ||
         number == "07" || number > "09";
}

void check(const Problem& problem, std::uint64_t seed) {
  const backward::Inputs inputs =
      backward::make_inputs(problem, flash::Values::kNormal, seed);
  const backward::Judge judge(problem, inputs);
  int checked = 0;
  for (const Rung& rung : best_machine().rungs) {
    if (!is_finished(rung) || !rung.takes(problem)) continue;
    flash::check_rung(rung, problem, inputs, judge);
    ++checked;
  }
  REQUIRE(checked >= 2);
}

}  // namespace

TEST_CASE("the matrix of problems in float32") {
  flash::for_each_of_matrix(Type::kFloat32, on_gpu(), check);
}
TEST_CASE("the matrix of problems in float16") {
  flash::for_each_of_matrix(Type::kFloat16, on_gpu(), check);
}
TEST_CASE("the matrix of problems in bfloat16") {
  flash::for_each_of_matrix(Type::kBFloat16, on_gpu(), check);
}

TEST_CASE("a hundred random problems, other ones in each run") {
  flash::for_each_random_problem(on_gpu(), check);
}
