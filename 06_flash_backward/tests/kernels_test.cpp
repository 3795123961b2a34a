// Every step on every backend of this build that can run here: types, sizes, masks, layouts, hard
// inputs.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "06_flash_backward/src/backend.hpp"
#include "common/attention/tests/step_tests.hpp"
#include "common/gpu/tests/gpus.hpp"

using namespace fa;
using namespace fa::attention;
using backward::Backend;
using backward::Gradients;

namespace {

// What lessons 05 and 06 test alike.
using Tests = StepTests<backward::Checker, backward::backends, backward::make_inputs>;

}  // namespace

TEST_CASE("odd lengths, around the edges of the tiles, causal or not") {
  Tests::check_edge_lengths();
}

TEST_CASE("head dimensions that are not a power of two are padded") {
  Tests::check_padded_head_dims();
}

TEST_CASE("192 columns of q and k, 128 of v and o: wide heads") {
  Tests::check_mla();
}

TEST_CASE("192 columns of q and k, 128 of v and o: the chosen kernels") {
  // Lengths around its tiles, of 64 queries and 96 keys.
  const std::pair<int, int> lengths[] = {{1, 1},   {1, 97},   {63, 95},  {64, 96},
                                         {65, 97}, {130, 60}, {191, 193}};
  for (const Backend& backend : Tests::all()) {
    if (!backend.available || !can_run(backend.properties, kNeedsHopper)) {
      continue;
    }
    const bool watched = backend.kind == "watched";
    for (const auto& [length_q, length_k] : lengths) {
      if (watched && length_q < 130) continue;
      for (const bool causal : {false, true}) {
        Problem problem = problem_of(causal ? Type::kFloat16 : Type::kBFloat16,
                                     {2, 4, 2, length_q, length_k, kMlaHeadDim}, causal);
        if (watched) problem.type = Type::kFloat16;
        problem.head_dim_v = kMlaHeadDimV;
        problem.layout = causal ? Layout::kLengthFirst : Layout::kHeadsFirst;
        const auto inputs = backward::make_inputs(problem, Values::kNormal, 1);
        const backward::Checker checker(problem, inputs);
        const auto step = backend.dispatched(false, gpus::kH100);
        if (watched) {
          check_watched(step, problem, inputs, checker);
        } else {
          check_step(step, problem, inputs, checker);
        }
      }
    }
  }
}

TEST_CASE("grouped-query attention: dK and dV are sums over the heads of a group") {
  for (const Type type : kTypes) {
    Tests::check_everywhere(problem_of(type, {2, 6, 2, 40, 50, 32}));
    Tests::check_everywhere(problem_of(type, {2, 4, 1, 70, 50, 32}, true));
  }
}

TEST_CASE("tensors with layout [batch, length, heads, head_dim]") {
  Tests::check_length_first();
}

TEST_CASE("scores of +-1e4, and row maxima that rise from tile to tile") {
  Tests::check_large_and_rising_scores();
}

TEST_CASE("keys beyond length_k stay masked where all scores are far below 0") {
  // Their zeros would be the largest scores by far, and their probabilities infinite.
  for (const Type type : kTypes) {
    Tests::check_everywhere(problem_of(type, {1, 2, 1, 70, 1, 64}), Values::kLarge);
  }
}

TEST_CASE(
    "keys beyond length_k stay masked in every tile of queries where all scores are far below 0") {
  // Without a mask the blocks of step 12 begin with different tiles.
  for (const int head_dim : {64, 128}) {  // tiles of 128 queries, and of 64
    const Problem problem = problem_of(Type::kBFloat16, {1, 1, 1, 300, 150, head_dim});
    Inputs inputs = make_inputs(problem, Values::kNormal, 1);
    const auto set = [](Tensor<float, 4>& x, float factor) {
      for (std::int64_t i = 0; i < x.count(); ++i) {
        x.data()[i] = factor * (1 + std::abs(x.data()[i]));
      }
    };
    set(inputs.q, 1);
    set(inputs.k, -8);
    const backward::Inputs with_o = backward::with_forward(problem, std::move(inputs), 2);
    Tests::check_everywhere(problem, with_o, 3, [](const auto&) { return true; });
  }
}

TEST_CASE("fully masked rows, and a last row that sees all keys") {
  for (const Type type : kTypes) {
    Tests::check_everywhere(problem_of(type, {1, 1, 1, 300, 5, 64}, true));
    Tests::check_everywhere(problem_of(type, {1, 1, 1, 5, 300, 64}, true));
  }
}

TEST_CASE("dropout drops the elements that the forward pass dropped") {
  Tests::check_dropout();
}

TEST_CASE("every run gives the same bits: of dK and dV, and of dQ in the deterministic steps") {
  for (const Backend& backend : Tests::all()) {
    if (!backend.available || backend.kind == "watched") continue;
    const bool gpu = backend.kind == "gpu";
    const int runs = gpu ? 250 : 3;
    const AttentionShape shape =
        gpu ? AttentionShape{2, 4, 2, 300, 257, 64} : AttentionShape{1, 2, 1, 70, 130, 64};
    for (const backward::LadderStep& step : backend.steps) {
      const auto same = [&](const Gradients& a, const Gradients& b) {
        return (!step.deterministic || same_bits(a.d_q, b.d_q)) && same_bits(a.d_k, b.d_k) &&
               same_bits(a.d_v, b.d_v);
      };
      Problem problem = problem_of(step.types.front(), shape, true);
      problem.shape.head_dim = step.head_dim_near(shape.head_dim);
      const auto check = [&] {
        check_repeats(step, problem, backward::make_inputs(problem, Values::kNormal, 1), runs,
                      same);
      };
      check();
      if (!step.supports_mla) continue;
      problem.shape.head_dim = kMlaHeadDim;
      problem.head_dim_v = kMlaHeadDimV;
      check();
    }
  }
}

TEST_CASE("the watched lab finds nothing in any step, causal or not") {
  const Backend* const watched = find_backend(Tests::all(), "watched");
  if (watched == nullptr) return;
  lab::Coverage coverage = Tests::check_all_watched(*watched);
  const auto add = [&](const backward::LadderStep& step, Type type, const AttentionShape& shape) {
    const Problem problem = problem_of(type, shape);
    const auto inputs = backward::make_inputs(problem, Values::kNormal, 1);
    coverage.add(check_watched(step, problem, inputs, backward::Checker(problem, inputs)));
  };
  // So many keys that row sums are left out; so many queries that heads are cut into slices.
  add(find_step(*watched, "17_split_tf32"), Type::kFloat32, {1, 1, 1, 64, 1040, 32});
  add(find_step(*watched, "19_split_groups"), Type::kFloat16, {1, 2, 1, 1024, 8, 64});
  // V in registers.
  add(find_step(*watched, "12_store_then_reduce"), Type::kFloat16, {1, 1, 1, 130, 150, 96});
  // Parts that are added in a fixed order.
  DeviceProperties device = gpus::kH100;
  device.sm_count = 132;
  add(watched->dispatched(true, device), Type::kFloat16, {1, 2, 1, 200, 150, 64});
  CHECK(lab::unreached_text(coverage) == kAllReached);
}

TEST_CASE("the deterministic kernels for Hopper add to dQ in order") {
  for (const Backend& backend : Tests::all()) {
    if (!backend.available || backend.kind == "gpu") continue;
    const backward::LadderStep step = backend.dispatched(true, gpus::kH100);
    for (const bool causal : {false, true}) {
      for (const int head_dim : {64, 128}) {  // step 14, and two tiles of dQ
        const Problem problem = problem_of(Type::kFloat16, {1, 4, 2, 200, 300, head_dim}, causal);
        const auto inputs = backward::make_inputs(problem, Values::kNormal, 1);
        const backward::Checker checker(problem, inputs);
        if (backend.kind == "watched") {
          check_watched(step, problem, inputs, checker);
        } else {
          check_step(step, problem, inputs, checker);
        }
      }
    }
  }
}

// Checks steps 13, 16 and 18 on a problem with a wide head, on all backends but the watched one.
void check_wide(const Problem& problem, Values values = Values::kNormal) {
  const std::set<std::string> wide{"13_wide_heads", "16_transposed_gradients", "18_block_pairs"};
  Tests::check_everywhere(
      problem, backward::make_inputs(problem, values, 3), problem.shape.head_dim <= 192 ? 3 : 1,
      [&](const backward::LadderStep& step) { return wide.count(step.name) > 0; });
}

TEST_CASE("wide heads: lengths around the edges of the tiles, in blocks of keys and of queries") {
  for (const auto& [length_q, length_k] : kEdgeLengths) {
    for (const bool causal : {false, true}) {
      check_wide(problem_of(causal ? Type::kBFloat16 : Type::kFloat16,
                            {1, 1, 1, length_q, length_k, 136}, causal));
    }
  }
}

TEST_CASE("wide heads: groups of heads, in all layouts") {
  for (const int head_dim : {136, 192, 256}) {
    Problem problem = problem_of(Type::kBFloat16, {2, 4, 2, 140, 150, head_dim}, true);
    check_wide(problem);
    problem.layout = Layout::kLengthFirst;
    problem.type = Type::kFloat16;
    check_wide(problem);
    problem.causal = false;
    problem.shape.kv_heads = 1;
    check_wide(problem);
  }
}

TEST_CASE("wide heads: many tiles, of queries and of keys") {
  check_wide(problem_of(Type::kFloat16, {1, 2, 1, 330, 60, 200}));
  check_wide(problem_of(Type::kFloat16, {1, 1, 1, 60, 470, 200}));
  check_wide(problem_of(Type::kBFloat16, {1, 2, 2, 400, 420, 256}, true));
}

TEST_CASE("wide heads: fully masked rows, and keys that no row sees") {
  check_wide(problem_of(Type::kFloat16, {1, 2, 1, 300, 5, 136}, true));
  check_wide(problem_of(Type::kBFloat16, {1, 2, 1, 5, 300, 136}, true));
  check_wide(problem_of(Type::kBFloat16, {1, 2, 1, 270, 70, 256}, true));
}

TEST_CASE("wide heads: scores of +-1e4") {
  for (const bool causal : {false, true}) {
    check_wide(problem_of(Type::kFloat16, {1, 1, 1, 70, 150, 136}, causal), Values::kLarge);
  }
  check_wide(problem_of(Type::kFloat16, {1, 2, 1, 70, 1, 136}), Values::kLarge);
}

TEST_CASE("step 13 supports wide heads only, in 16 bits and without dropout") {
  for (const Backend& backend : Tests::all()) {
    for (const backward::LadderStep& step : backend.steps) {
      if (step.name != "13_wide_heads") continue;
      Problem problem = problem_of(Type::kFloat16, {1, 1, 1, 8, 8, 136});
      CHECK(step.supports(problem));
      problem.dropout = 0.1;
      CHECK_FALSE(step.supports(problem));
      problem = problem_of(Type::kFloat16, {1, 1, 1, 8, 8, 128});
      CHECK_FALSE(step.supports(problem));
      const std::string types = backend.kind == "watched" ? "float16" : "float16 or bfloat16";
      const std::string refusal = "13_wide_heads supports " + types +
                                  " with a head_dim that is a multiple of 8 from 136 up to 256, "
                                  "not float16 with 128";
      CHECK_THROWS_WITH(step.check(problem), refusal.c_str());
      problem.shape.head_dim = 264;
      CHECK_FALSE(step.supports(problem));
      CHECK(step.head_dim_near(64) == 136);
      CHECK(step.head_dim_near(200) == 200);
      CHECK(step.head_dim_near(512) == 256);
    }
  }
}

namespace {

// Gradients of a problem, by the steps for float32 with tiles in dynamic shared memory, on each
// backend but the watched one.
template <class Work>
void with_float_gradients(const Problem& problem, const backward::Inputs& inputs, Work work) {
  for (const Backend& backend : Tests::all()) {
    if (!backend.available || backend.kind == "watched") continue;
    for (const backward::LadderStep& step : backend.steps) {
      if (!step.shared_bytes || !step.supports(problem)) continue;
      CAPTURE(backend.kind);
      CAPTURE(step.name);
      work(step, step.run(problem, inputs));
    }
  }
}

}  // namespace

TEST_CASE("float32: of the only key of a row P is 1 and dS is 0, whatever the scores are") {
  for (const Values values : {Values::kNormal, Values::kLarge}) {
    for (const double dropout : {0.0, 0.3}) {
      const Problem problem = problem_of(Type::kFloat32, {1, 4, 2, 150, 1, 40}, false, dropout);
      const auto inputs = backward::make_inputs(problem, values, 1);
      auto without_scores = inputs;
      without_scores.forward.k = Tensor<float, 4>(problem.shape_of_kv());
      without_scores.lse = Tensor<float, 3>(inputs.lse.shape());
      with_float_gradients(problem, inputs, [&](const auto& step, const Gradients& gradients) {
        CHECK(same_bits(gradients.d_v, step.run(problem, without_scores).d_v));
        for (const auto* tensor : {&gradients.d_q, &gradients.d_k}) {
          CHECK(std::all_of(tensor->data(), tensor->data() + tensor->count(),
                            [](float x) { return x == 0; }));
        }
      });
    }
  }
  // Query 20 sees one key, those before it none.
  const Problem problem = problem_of(Type::kFloat32, {1, 2, 1, 60, 40, 64}, true);
  const auto inputs = backward::make_inputs(problem, Values::kNormal, 1);
  with_float_gradients(problem, inputs, [&](const auto&, const Gradients& gradients) {
    for (std::int64_t i = 0; i < 64; ++i) CHECK(gradients.d_q(0, 1, 20, i) == 0);
    CHECK(gradients.d_q(0, 1, 21, 0) != 0);
  });
}

TEST_CASE("float32: gradients where one of many keys has nearly all of the probability") {
  // Scores of about 7.8, for which step 17 leaves the row sums out, and of 100.
  for (const double score : {7.8, 100.0}) {
    const Problem problem = problem_of(Type::kFloat32, {1, 1, 1, 128, 1100, 32});
    auto forward = backward::make_inputs(problem, Values::kNormal, 1).forward;
    for (std::int64_t i = 0; i < 128; ++i) {
      for (std::int64_t c = 0; c < 32; ++c) {
        forward.q(0, 0, i, c) = c == 0 ? 4 : 0.3f * forward.q(0, 0, i, c);
      }
    }
    for (std::int64_t j = 0; j < 1100; ++j) {
      forward.k(0, 0, j, 0) = static_cast<float>((j == 3 ? score : -10) * std::sqrt(32.0) / 4);
      for (std::int64_t c = 1; c < 32; ++c) forward.k(0, 0, j, c) *= 0.1f;
    }
    const auto inputs = backward::with_forward(problem, forward, 7);
    // dV of this key has no more error than rounding of scores of 7.8 leaves in P.
    const auto &q = inputs.forward.q, &k = inputs.forward.k, &d_o = inputs.d_o;
    std::vector<double> exact(32);
    for (std::int64_t i = 0; i < 128; ++i) {
      std::vector<double> s(1100);
      for (std::int64_t j = 0; j < 1100; ++j) {
        for (std::int64_t c = 0; c < 32; ++c) s[j] += double{q(0, 0, i, c)} * k(0, 0, j, c);
      }
      double sum = 0;
      for (const double x : s) sum += std::exp((x - s[3]) / std::sqrt(32.0));
      for (std::int64_t c = 0; c < 32; ++c) exact[c] += d_o(0, 0, i, c) / sum;
    }
    with_float_gradients(problem, inputs, [&](const auto& step, const Gradients& gradients) {
      check_result(backward::Checker(problem, inputs), problem, step.name, gradients);
      for (std::int64_t c = 0; c < 32; ++c) {
        CHECK(gradients.d_v(0, 0, 3, c) == doctest::Approx(exact[c]).epsilon(2e-6).scale(4));
      }
    });
  }
}

TEST_CASE("the checker refuses gradients with a small error") {
  const Backend& lab = Tests::all().front();
  for (const auto& [type, factor] :
       {std::pair{Type::kFloat32, 1.0001f}, {Type::kFloat16, 1.01f}, {Type::kBFloat16, 1.05f}}) {
    const Problem problem = problem_of(type, {1, 2, 1, 40, 60, 32}, true);
    const auto inputs = backward::make_inputs(problem, Values::kNormal, 1);
    const backward::Checker checker(problem, inputs);
    const auto step = std::find_if(lab.steps.begin(), lab.steps.end(),
                                   [&](const auto& r) { return r.supports(problem); });
    REQUIRE(step != lab.steps.end());
    const Gradients right = step->run(problem, inputs);
    const auto accepted = [&](const Gradients& gradients) {
      int count = 0;
      for (const Verdict& verdict : checker.check("", gradients)) {
        count += verdict.accepted ? 1 : 0;
      }
      return count;
    };
    CAPTURE(problem.text());
    CHECK(accepted(right) == 3);
    for (Tensor<float, 4> Gradients::*part : {&Gradients::d_q, &Gradients::d_k, &Gradients::d_v}) {
      Gradients wrong = right;
      for (std::int64_t i = 0; i < (wrong.*part).count(); ++i) {
        (wrong.*part).data()[i] *= factor;
      }
      CHECK(accepted(wrong) == 2);
      wrong = right;
      (wrong.*part).data()[7] = NAN;
      CHECK(accepted(wrong) == 2);
    }
  }
}
