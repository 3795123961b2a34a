// Every step on every backend of this build that can run here: types, sizes, masks, layouts, hard
// inputs; and the finished kernels on random problems.
#include <cmath>

#include <doctest/doctest.h>

#include "05_flash_forward/src/backend.hpp"
#include "common/attention/tests/step_tests.hpp"
#include "common/gpu/tests/gpus.hpp"

using namespace fa;
using namespace fa::attention;
using flash::Backend;

namespace {

// What lessons 05 and 06 test alike.
using Tests = StepTests<flash::Checker, flash::backends, make_inputs>;

}  // namespace

FA_STEP_TESTS

TEST_CASE("of 192 columns of q and k, v and o have 192 or 128") {
  for (const flash::LadderStep& step : Tests::all().front().steps) {
    if (!step.supports_mla) continue;
    Problem problem = problem_of(Type::kFloat16, {1, 1, 1, 9, 8, 192});
    for (const std::int64_t head_dim_v : {64, 128, 192, 256}) {
      problem.head_dim_v = head_dim_v;
      CHECK(step.supports(problem) == (head_dim_v == 128 || head_dim_v == 192));
    }
    CHECK_THROWS_AS(step.check(problem), std::invalid_argument);
  }
}

TEST_CASE("where the row maximum does not change, the rescale factor is exactly 1") {
  // One key has probability 1: LSE is its score. A rescale factor that is only
  // next to 1 would be applied once for each of the many tiles. The lab rounds
  // every product, so a GPU alone can make this mistake.
  const std::int64_t length_q = 64;
  const std::int64_t length_k = Tests::on_gpu() ? 9984 : 320;
  const auto score = [](std::int64_t query) { return 10 * (1 + static_cast<double>(query) / 64); };
  for (const Type type : kTypes) {
    for (const std::int64_t heavy_key : {std::int64_t{0}, length_k - 1}) {
      const Problem problem = problem_of(type, {1, 1, 1, length_q, length_k, 64});
      Inputs inputs{Tensor<float, 4>(problem.shape_of_q()), Tensor<float, 4>(problem.shape_of_kv()),
                    Tensor<float, 4>(problem.shape_of_kv())};
      for (std::int64_t i = 0; i < length_q; ++i) {
        inputs.q(0, 0, i, 0) = static_cast<float>(score(i) / 10);
      }
      for (std::int64_t j = 0; j < length_k; ++j) {
        inputs.k(0, 0, j, 0) = j == heavy_key ? 80.0f : -1600.0f;
      }
      for (const Backend& backend : Tests::all()) {
        if (!backend.available || backend.kind == "watched") continue;
        for (const flash::LadderStep& step : backend.steps) {
          if (!step.supports(problem)) continue;
          const auto lse = step.run(problem, inputs).lse;
          for (std::int64_t i = 0; i < length_q; ++i) {
            CAPTURE(step.name);
            CAPTURE(i);
            // A few of the smallest steps of a float32 of this size.
            CHECK(std::abs(static_cast<double>(lse(0, 0, i)) - score(i)) < 6e-6);
          }
        }
      }
    }
  }
}

// In the watched lab; see check_watched().
lab::Coverage check_watched(const flash::LadderStep& step, Type type, const AttentionShape& shape) {
  const Problem problem = problem_of(type, shape, true);
  const auto inputs = make_inputs(problem, Values::kNormal, 1);
  return check_watched(step, problem, inputs, flash::Checker(problem, inputs));
}

TEST_CASE("the watched lab finds nothing in any step, causal or not") {
  const Backend* const watched = find_backend(Tests::all(), "watched");
  if (watched == nullptr) return;
  lab::Coverage coverage = Tests::check_all_watched(*watched);
  // Without a tile counter; each of the two blocks processes three tiles.
  for (const std::int64_t head_dim : {64, 128}) {
    coverage.add(check_watched(watched->dispatched(gpus::kH100), Type::kFloat16,
                               {1, 6, 2, 70, 290, head_dim}));
  }
  CHECK(lab::unreached_text(coverage) == kAllReached);
}

TEST_CASE("the watched lab finds nothing where the pipeline wraps around") {
  const Backend* const watched = find_backend(Tests::all(), "watched");
  if (watched == nullptr) return;
  // One of the two blocks of an observed launch draws all tiles but one.
  for (const AttentionShape& shape :
       {AttentionShape{1, 3, 1, 70, 1, 64}, AttentionShape{2, 6, 2, 40, 50, 32}}) {
    for (const flash::LadderStep& step : watched->steps) {
      if (step.tiles.front().persists) check_watched(step, Type::kFloat16, shape);
    }
  }
}

namespace {

// The finished kernels have tiles for several head dimensions, or persistent blocks.
bool is_finished(const flash::LadderStep& step) {
  return step.tiles.size() > 1 || step.tiles.front().persists;
}

void check(const Problem& problem, std::uint64_t seed) {
  REQUIRE(Tests::check_best(problem, seed, is_finished) > 0);
}

}  // namespace

FA_RANDOM_TESTS

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
