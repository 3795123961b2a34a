// The finished kernels over a matrix of problems: all of it on a GPU, a thinner one in the lab. And random problems.
#include <cstring>

#include <doctest/doctest.h>

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/tests/rungs.hpp"

using namespace fa;
using flash::Backend;
using flash::Problem;
using flash::Rung;
using flash::Type;

namespace {

const Backend& best_backend() {
  static const std::vector<Backend> backends = flash::backends();
  return flash::best_backend(backends);
}
bool on_gpu() {
  return best_backend().kind == "gpu";
}

// The finished ones for a problem: 04 in float32; 08, and those behind 12, in 16 bits.
std::vector<const Rung*> finished_rungs(const Problem& problem) {
  std::vector<const Rung*> result;
  for (const Rung& rung : best_backend().rungs) {
    const bool finished = rung.name == "04_register_tiles" ||
                          rung.name == "08_edge_masks" || rung.name >= "13";
    if (finished && rung.supports(problem)) result.push_back(&rung);
  }
  REQUIRE(!result.empty());
  return result;
}

void check(const Problem& problem, std::uint64_t seed) {
  const flash::Inputs inputs =
      flash::make_inputs(problem, flash::Values::kNormal, seed);
  const flash::Checker checker(problem, inputs);
  for (const Rung* rung : finished_rungs(problem)) {
    flash::check_rung(*rung, problem, inputs, checker);
  }
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

TEST_CASE("a hundred random problems") {
  flash::for_each_random_problem(on_gpu(), check);
}

TEST_CASE("repeated runs are equal to the last bit") {
  const int repeats = on_gpu() ? 250 : 5;
  for (const Type type : flash::kTypes) {
    Problem problem;
    problem.type = type;
    problem.shape = {2, 4, 2, 300, 257, 64};
    problem.causal = true;
    const auto inputs =
        flash::make_inputs(problem, flash::Values::kNormal, 1);
    for (const Rung* rung : finished_rungs(problem)) {
      CAPTURE(rung->name);
      const auto prepared = rung->prepare(problem, inputs);
      prepared.launch();
      const flash::Outputs first = prepared.result();
      for (int i = 1; i < repeats; ++i) {
        prepared.launch();
        const flash::Outputs again = prepared.result();
        const auto same = [](const auto& a, const auto& b) {
          return std::memcmp(a.data(), b.data(),
                             sizeof(float) *
                                 static_cast<std::size_t>(a.count())) == 0;
        };
        CAPTURE(i);
        REQUIRE(same(first.o, again.o));
        REQUIRE(same(first.lse, again.lse));
      }
    }
  }
}
