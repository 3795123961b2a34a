// Backward kernels with functors on every backend of this build that can run here, against lesson
// 01 with the same functor: dQ, dK, dV and the gradients of bias and sinks.
#include "06_flash_backward/src/functors.hpp"

#include <doctest/doctest.h>

#include "05_flash_forward/tests/functor_specs.hpp"
#include "common/attention/tests/step_tests.hpp"

using namespace fa;
using namespace fa::attention;
using backward::functors::FunctorChecker;
using backward::functors::FunctorInputs;

namespace {

FunctorInputs plain_inputs(const Problem& problem, Values values, std::uint64_t seed) {
  return backward::functors::functor_inputs(problem, {}, values, seed);
}
using Tests = StepTests<FunctorChecker, backward::functors::backends, plain_inputs>;

void check_everywhere(const Problem& problem, const FunctorSpec& spec,
                      Values values = Values::kNormal) {
  CAPTURE(static_cast<int>(spec.kind));
  Tests::check_everywhere(problem, backward::functors::functor_inputs(problem, spec, values, 1), 1,
                          [](const auto&) { return true; });
}

}  // namespace

TEST_CASE("gradients of every functor with odd lengths, groups and rows without keys") {
  for (const FunctorSpec& spec : all_specs()) {
    for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
      check_everywhere(problem_of(type, {2, 4, 2, 113, 203, 64}), spec);
      check_everywhere(problem_of(type, {1, 2, 1, 203, 113, 40}), spec);
      check_everywhere(problem_of(type, {1, 2, 2, 130, 257, 128}), spec);
      check_everywhere(problem_of(type, {1, 1, 1, 1, 17, 72}), spec);
      check_everywhere(problem_of(type, {1, 1, 1, 17, 1, 64}), spec);
    }
  }
}

TEST_CASE("gradients of a soft cap whose derivative dual numbers compute") {
  FunctorSpec spec = of_kind(FunctorKind::kSoftCap, -1, 0);
  spec.cap = 1.25f;
  spec.dual = true;
  for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
    check_everywhere(problem_of(type, {2, 4, 2, 113, 203, 64}), spec);
    check_everywhere(problem_of(type, {1, 2, 2, 130, 257, 128}), spec);
  }
}

TEST_CASE("gradients of windows around the edges of tiles") {
  for (const int left : {-1, 0, 1, 31, 32, 63, 64, 127, 128, 129}) {
    for (const int right : {-1, 0, 33}) {
      check_everywhere(problem_of(Type::kBFloat16, {1, 1, 1, 160, 233, 64}),
                       of_kind(FunctorKind::kWindow, left, right));
    }
  }
}

TEST_CASE("gradients of functors with a layout [batch, length, heads, head_dim]") {
  for (const FunctorSpec& spec : all_specs()) {
    Problem problem = problem_of(Type::kBFloat16, {2, 4, 2, 70, 75, 40});
    problem.layout = Layout::kLengthFirst;
    check_everywhere(problem, spec);
  }
}

TEST_CASE("gradients of functors with scores of +-1e4, and maxima that rise from key to key") {
  for (const FunctorSpec& spec : all_specs()) {
    for (const Values values : {Values::kLarge, Values::kRising}) {
      check_everywhere(problem_of(Type::kBFloat16, {1, 2, 1, 70, 150, 64}), spec, values);
    }
  }
}

TEST_CASE("the gradients of every functor are right in the watched lab, with no finding") {
  const auto* const watched = find_backend(Tests::all(), "watched");
  if (watched == nullptr) return;
  lab::Coverage coverage;
  for (const auto& step : watched->steps) {
    for (const FunctorSpec& spec : all_specs()) {
      for (const AttentionShape& shape :
           {AttentionShape{1, 2, 1, 150, 203, 40}, AttentionShape{1, 1, 1, 203, 128, 128}}) {
        const Problem problem = problem_of(step.types.back(), shape);
        const auto inputs = backward::functors::functor_inputs(problem, spec, Values::kNormal, 1);
        coverage.add(check_watched(step, problem, inputs, FunctorChecker(problem, inputs)));
      }
    }
  }
  CHECK(lab::unreached_text(coverage) == kAllReached);
}
