// The kernels in 8 bits on every backend of this build that can run here.
#include "05_flash_forward/src/fp8_kernels.hpp"

#include <random>
#include <string>

#include <doctest/doctest.h>

#include "common/attention/tests/step_tests.hpp"

using namespace fa;
using namespace fa::attention;
using flash::fp8::fp8_inputs;
using flash::fp8::KernelChecker;

namespace {

using Tests = StepTests<KernelChecker, flash::fp8::backends, fp8_inputs>;

Problem fp8_problem(const AttentionShape& shape, bool causal = false) {
  return problem_of(Type::kBFloat16, shape, causal);
}

}  // namespace

TEST_CASE("lengths around the edges of tiles, in 8 bits") {
  for (const auto& [length_q, length_k] : kEdgeLengths) {
    for (const bool causal : {false, true}) {
      Tests::check_everywhere(fp8_problem({1, 2, 2, length_q, length_k, 64}, causal));
      Tests::check_everywhere(fp8_problem({1, 2, 1, length_q, length_k, 128}, causal));
    }
  }
  for (const int length : {191, 192, 193, 385}) {
    Tests::check_everywhere(fp8_problem({1, 1, 1, length, length, 128}, true));
  }
  Tests::check_everywhere(fp8_problem({1, 1, 1, 130, 257, 256}, true));
}

TEST_CASE("grouped heads and sequences have scales of their own") {
  for (const Layout layout : {Layout::kHeadsFirst, Layout::kLengthFirst}) {
    Problem problem = fp8_problem({2, 6, 2, 70, 150, 128}, true);
    problem.layout = layout;
    Tests::check_everywhere(problem);
  }
}

TEST_CASE("head dimensions that are multiples of 16 are padded, others are refused") {
  for (const int head_dim : {16, 48, 80, 144, 240}) {
    Tests::check_everywhere(fp8_problem({1, 2, 1, 70, 90, head_dim}, true));
  }
  const Problem problem = fp8_problem({1, 1, 1, 9, 9, 24});
  CHECK_THROWS_AS(
      Tests::all().front().steps[0].run(problem, fp8_inputs(problem, Values::kNormal, 1)),
      std::invalid_argument);
}

TEST_CASE("large and rising scores in 8 bits") {
  for (const Values values : {Values::kLarge, Values::kRising}) {
    for (const bool causal : {false, true}) {
      Tests::check_everywhere(fp8_problem({1, 2, 1, 70, 300, 64}, causal), values);
    }
  }
}

TEST_CASE("promotion keeps what tensor cores cut off over many keys") {
  // All keys count alike, and no value is negative: the sum of P V grows with each of them.
  const Problem problem = fp8_problem({1, 1, 1, 64, 12000, 64});
  auto inputs = fp8_inputs(problem, Values::kNormal, 1);
  for (std::int64_t i = 0; i < inputs.q.codes.count(); ++i) inputs.q.codes.data()[i] = e4m3(0);
  for (std::int64_t i = 0; i < inputs.v.codes.count(); ++i) {
    e4m3& x = inputs.v.codes.data()[i];
    x = e4m3(std::abs(static_cast<float>(x)));
  }
  const KernelChecker checker(problem, inputs);
  for (const auto& backend : Tests::all()) {
    if (!backend.available || backend.kind == "watched") continue;
    const auto error_of = [&](const std::string& name) {
      const auto verdicts = checker.check(name, find_step(backend, name).run(problem, inputs));
      return error_over_tolerance(verdicts[0]);
    };
    CAPTURE(backend.kind);
    CHECK(error_of("01_e4m3") > 4);
    CHECK(error_of("02_promotion") < 1);
  }
}

TEST_CASE("random problems in 8 bits") {
  const char* const given = std::getenv("FA_FUZZ_COUNT");
  const int count = given != nullptr ? std::atoi(given) : Tests::few() ? 20 : 100;
  std::mt19937_64 random(fuzz_seed());
  for (int i = 0; i < count; ++i) {
    Problem problem = random_problem(random, Tests::on_gpu() ? 700 : 150, 256, 4);
    problem.type = Type::kBFloat16;
    problem.dropout = 0;
    problem.shape.head_dim = (problem.shape.head_dim + 15) / 16 * 16;
    CAPTURE(i);
    Tests::check_best(problem, random(), [](const auto&) { return true; });
  }
}

TEST_CASE("every kernel in 8 bits is right in the watched lab, with no finding") {
  const auto* const watched = find_backend(Tests::all(), "watched");
  if (watched == nullptr) return;
  lab::Coverage coverage;
  for (const auto& step : watched->steps) {
    for (const bool causal : {false, true}) {
      for (Problem problem : watched_problems(step, Type::kBFloat16, causal)) {
        problem.shape.head_dim = (problem.shape.head_dim + 15) / 16 * 16;
        const auto inputs = fp8_inputs(problem, Values::kNormal, 1);
        coverage.add(check_watched(step, problem, inputs, KernelChecker(problem, inputs)));
      }
    }
  }
  // Lines of the library that they share are reached by kernels in 16 bits.
  const std::string unreached = lab::unreached(coverage);
  for (const char* const file :
       {"01_e4m3.cuh", "02_promotion.cuh", "03_transpose_in_kernel.cuh", "transpose_v.cuh"}) {
    CAPTURE(unreached);
    CHECK(unreached.find(file) == std::string::npos);
  }
}

TEST_CASE("every launch in 8 bits gives the same bits") {
  const Problem problem = fp8_problem({1, 4, 2, 300, 400, 128}, true);
  const auto inputs = fp8_inputs(problem, Values::kNormal, 1);
  for (const auto& step : Tests::best().steps) {
    check_repeats(step, problem, inputs, Tests::on_gpu() ? 100 : 3,
                  [](const Outputs& first, const Outputs& again) {
                    return same_bits(first.o, again.o) && same_bits(first.lse, again.lse);
                  });
  }
}
