// The finished kernels over a matrix of problems: all of it on a GPU, a thinner one in the lab. And
// random problems.
#include <doctest/doctest.h>

#include "05_flash_forward/src/backend.hpp"
#include "common/attention/tests/step_tests.hpp"

using namespace fa;
using namespace fa::attention;

namespace {

// What lessons 05 and 06 test alike.
using Tests = StepTests<flash::Checker, flash::backends, make_inputs>;

// The finished ones have tiles for several head dimensions, or persistent blocks.
bool is_finished(const flash::LadderStep& step) {
  return step.tiles.size() > 1 || step.tiles.front().persists;
}

void check(const Problem& problem, std::uint64_t seed) {
  REQUIRE(Tests::check_best(problem, seed, is_finished) > 0);
}

}  // namespace

TEST_CASE("the matrix of problems in float32, first part") {
  Tests::for_each_of_matrix(Type::kFloat32, 0, check);
}
TEST_CASE("the matrix of problems in float32, second part") {
  Tests::for_each_of_matrix(Type::kFloat32, 1, check);
}
TEST_CASE("the matrix of problems in float32, third part") {
  Tests::for_each_of_matrix(Type::kFloat32, 2, check);
}
TEST_CASE("the matrix of problems in float16, first part") {
  Tests::for_each_of_matrix(Type::kFloat16, 0, check);
}
TEST_CASE("the matrix of problems in float16, second part") {
  Tests::for_each_of_matrix(Type::kFloat16, 1, check);
}
TEST_CASE("the matrix of problems in float16, third part") {
  Tests::for_each_of_matrix(Type::kFloat16, 2, check);
}
TEST_CASE("the matrix of problems in bfloat16, first part") {
  Tests::for_each_of_matrix(Type::kBFloat16, 0, check);
}
TEST_CASE("the matrix of problems in bfloat16, second part") {
  Tests::for_each_of_matrix(Type::kBFloat16, 1, check);
}
TEST_CASE("the matrix of problems in bfloat16, third part") {
  Tests::for_each_of_matrix(Type::kBFloat16, 2, check);
}

TEST_CASE("random problems") {
  Tests::for_each_random_problem(check);
}

TEST_CASE("repeated runs are equal to the last bit") {
  const auto same = [](const Outputs& a, const Outputs& b) {
    return same_bits(a.o, b.o) && same_bits(a.lse, b.lse);
  };
  for (const Type type : kTypes) {
    const Problem problem = problem_of(type, {2, 4, 2, 300, 257, 64}, true);
    const auto inputs = make_inputs(problem, Values::kNormal, 1);
    int checked = 0;
    for (const flash::LadderStep& step : Tests::best().steps) {
      if (!is_finished(step) || !step.supports(problem)) continue;
      check_repeats(step, problem, inputs, Tests::on_gpu() ? 250 : 5, same);
      ++checked;
    }
    REQUIRE(checked > 0);
  }
}
