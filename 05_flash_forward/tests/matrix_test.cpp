// The finished kernels over a matrix of problems: all of it on a GPU, a thinner one in the lab. And
// random problems.
#include <doctest/doctest.h>

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/tests/rungs.hpp"

using namespace fa;
using flash::Problem;
using flash::Rung;
using flash::same_bits;
using flash::Type;

namespace {

// What lessons 05 and 06 test alike.
using Tests =
    flash::RungTests<flash::Checker, flash::backends, flash::make_inputs>;

// The finished ones for a problem: 04 and 16 in float32; 08, and 13 to 15, in 16 bits.
bool is_finished(const Rung& rung) {
  return rung.name == "04_register_tiles" || rung.name == "08_edge_masks" ||
         rung.name >= "13";
}

void check(const Problem& problem, std::uint64_t seed) {
  REQUIRE(Tests::check_best(problem, seed, is_finished) > 0);
}

}  // namespace

TEST_CASE("the matrix of problems in float32") {
  Tests::for_each_of_matrix(Type::kFloat32, check);
}
TEST_CASE("the matrix of problems in float16") {
  Tests::for_each_of_matrix(Type::kFloat16, check);
}
TEST_CASE("the matrix of problems in bfloat16") {
  Tests::for_each_of_matrix(Type::kBFloat16, check);
}

TEST_CASE("a hundred random problems") {
  Tests::for_each_random_problem(check);
}

TEST_CASE("repeated runs are equal to the last bit") {
  const auto same = [](const flash::Outputs& a, const flash::Outputs& b) {
    return same_bits(a.o, b.o) && same_bits(a.lse, b.lse);
  };
  for (const Type type : flash::kTypes) {
    const Problem problem =
        flash::problem_of(type, {2, 4, 2, 300, 257, 64}, true);
    const auto inputs =
        flash::make_inputs(problem, flash::Values::kNormal, 1);
    int checked = 0;
    for (const Rung& rung : Tests::best().rungs) {
      if (!is_finished(rung) || !rung.supports(problem)) continue;
      check_repeats(rung, problem, inputs, Tests::on_gpu() ? 250 : 5, same);
      ++checked;
    }
    REQUIRE(checked > 0);
  }
}
