// Backward kernels with functors on every backend of this build that can run here, against lesson
// 01 with the same functor: dQ, dK, dV and the gradients of bias and sinks.
#include "06_flash_backward/src/functors.hpp"

#include <algorithm>
#include <cmath>

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

TEST_CASE("gradients where a bias masks, with -infinity and with finite numbers") {
  Tests::check_masking_biases();
}

TEST_CASE("gradients are finite, whatever number all scores of a row have") {
  Tests::with_equal_scores([](const auto& step, const auto& problem, auto inputs, float masked) {
    for (std::int64_t i = 0; i < inputs.forward.q.count(); ++i) inputs.forward.q.data()[i] = 0;
    for (std::int64_t i = 0; i < inputs.lse.count(); ++i) {
      inputs.lse.data()[i] = masked + std::log(133.0f);
    }
    const FunctorGradients out = step.run(problem, inputs);
    double most = 0, error = 0;  // of d_v, and beside the sum of d_o / 133
    for (int col = 0; col < 64; ++col) {
      double sum = 0;
      for (int i = 0; i < 70; ++i) sum += static_cast<double>(inputs.d_o(0, 0, i, col)) / 133;
      for (int j = 0; j < 133; ++j) {
        const double d_v = static_cast<double>(out.d_v(0, 0, j, col));
        most = std::isfinite(d_v) ? std::max(most, std::abs(d_v)) : INFINITY;
        error = std::max(error, std::abs(d_v - sum));
      }
    }
    CHECK(most < 100);
    if (masked == -1e4f) CHECK(error < 2e-3);
    for (const auto* x : {&out.d_q, &out.d_k}) {
      CHECK(
          std::all_of(x->data(), x->data() + x->count(), [](float g) { return std::isfinite(g); }));
    }
  });
}

TEST_CASE("a sink that is all that a row sees has the gradient 0") {
  for (const float sink : {-1e9f, -3e4f, 1e9f}) {
    CAPTURE(sink);
    Tests::check(problem_of(attention::Type::kBFloat16, {1, 1, 1, 2, 1, 128}),
                 of_kind(FunctorKind::kSinks, -1, 0), attention::Values::kNormal,
                 [&](auto& tables) { tables.sinks = {sink}; });
  }
}

TEST_CASE("the gradients of every functor are right in the watched lab, with no finding") {
  Tests::check_watched({{1, 2, 1, 150, 203, 40}, {1, 1, 1, 203, 128, 128}});
}
