// Backward kernels with functors on every backend of this build that can run here, against lesson
// 01 with the same functor: dQ, dK, dV and the gradients of bias and sinks.
#include "06_flash_backward/src/functors.hpp"

#include <doctest/doctest.h>

#include "05_flash_forward/tests/functor_specs.hpp"

using namespace fa;
using namespace fa::backward::functors;

namespace {

using Tests = FunctorTests<FunctorChecker, backends, functor_inputs>;

}  // namespace

TEST_CASE("gradients of every functor with odd lengths, groups and rows without keys") {
  for (const FunctorSpec& spec : all_specs()) Tests::check_sizes(spec);
}

TEST_CASE("gradients of a soft cap whose derivative dual numbers compute") {
  FunctorSpec spec = of_kind(FunctorKind::kSoftCap, -1, 0);
  spec.cap = 1.25f;
  spec.dual = true;
  Tests::check_sizes(spec);
}

TEST_CASE("gradients of windows around the edges of tiles") {
  Tests::check_windows({1, 1, 1, 160, 233, 64});
}

TEST_CASE("gradients of functors with other layouts, and with scores of +-1e4") {
  Tests::check_layouts_and_scores();
}

TEST_CASE("the gradients of every functor are right in the watched lab, with no finding") {
  Tests::check_watched({{1, 2, 1, 150, 203, 40}, {1, 1, 1, 203, 128, 128}});
}
