// Every step on every backend of this build that can run here: types, sizes, masks, layouts, hard
// inputs; and the finished kernels on random problems.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "05_flash_forward/src/checker.hpp"
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

FA_STEP_TESTS

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
  for (const bool causal : {false, true}) {
    for (const int head_dim : {64, 128}) {  // persistent blocks, and two tiles of dQ
      Tests::check_choice(
          gpus::kH100, problem_of(Type::kFloat16, {1, 4, 2, 200, 300, head_dim}, causal),
          [](const Backend& backend) { return backend.dispatched(true, gpus::kH100); });
    }
  }
}

// Checks the steps for wide heads alone, on all backends but the watched one.
void check_wide(const Problem& problem, Values values = Values::kNormal) {
  Tests::check_everywhere(problem, backward::make_inputs(problem, values, 3),
                          problem.shape.head_dim <= 192 ? 4 : 2,
                          [](const backward::LadderStep& step) { return step.min_head_dim > 128; });
}

TEST_CASE("wide heads: lengths around the edges of the tiles, and scores of +-1e4") {
  for (const auto& [length_q, length_k] : kEdgeLengths) {
    for (const bool causal : {false, true}) {
      for (const Values values : {Values::kNormal, Values::kLarge}) {
        check_wide(problem_of(causal ? Type::kBFloat16 : Type::kFloat16,
                              {1, 1, 1, length_q, length_k, 136}, causal),
                   values);
      }
    }
  }
}

TEST_CASE("wide heads: many tiles, fully masked rows, and keys that no row sees") {
  check_wide(problem_of(Type::kFloat16, {1, 2, 1, 330, 60, 200}));
  check_wide(problem_of(Type::kFloat16, {1, 1, 1, 60, 470, 200}));
  check_wide(problem_of(Type::kBFloat16, {1, 2, 2, 400, 420, 256}, true));
  check_wide(problem_of(Type::kFloat16, {1, 2, 1, 300, 5, 136}, true));
  check_wide(problem_of(Type::kBFloat16, {1, 2, 1, 5, 300, 136}, true));
  check_wide(problem_of(Type::kBFloat16, {1, 2, 1, 270, 70, 256}, true));
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

namespace {

// The finished kernels: of the slow ones those for float32 with tiles in dynamic shared memory.
bool is_finished(const backward::LadderStep& step) {
  return !step.slow || (step.types.front() == Type::kFloat32 && step.shared_bytes);
}

void check(const Problem& problem, std::uint64_t seed) {
  // 192 and 128 columns: steps 13, 18 and 20
  REQUIRE(Tests::check_best(problem, seed, is_finished) >= (problem.head_dim_v ? 3 : 2));
}

}  // namespace

FA_RANDOM_TESTS

namespace {

// dV by lesson 01, in T.
template <class T>
Tensor<T, 4> textbook_d_v(const Problem& problem, const backward::Inputs& in) {
  Tensor<std::uint8_t, 4> keep;
  const auto q = converted<T>(in.forward.q), k = converted<T>(in.forward.k),
             v = converted<T>(in.forward.v), d_o = converted<T>(in.d_o);
  return naive::backward<T>(q.view(), k.view(), v.view(), d_o.view(),
                            flash::options_of(problem, keep))
      .d_v;
}

}  // namespace

TEST_CASE("float32: dV is as exact as by the textbook formulas, with scores of 1 to 1e4") {
  // Checker also allows what follows from a rounded LSE; here nothing but the textbook's own error
  // counts, three times.
  std::mt19937_64 random(18);
  std::map<std::string, std::vector<double>> ratios;  // error / limit
  const int problems = 200;
  for (int i = 0; i < problems; ++i) {
    // Small, on a GPU as well: steps 01 and 02 sum up a long row one by one,
    // which the textbook does not. In the lab few heads, since an error is that of one row.
    Problem problem = random_problem(random, 70, 128, Tests::on_gpu() ? 18 : 2);
    if (!Tests::on_gpu()) {
      problem.shape.batch = problem.shape.kv_heads = 1;
      problem.shape.heads = 1 + problem.shape.heads % 2;
    }
    problem.type = Type::kFloat32;
    Inputs qkv = make_inputs(problem, Values::kNormal, random());
    const double size = std::pow(1e4, static_cast<double>(i) / problems);
    for (std::int64_t e = 0; e < qkv.q.count(); ++e) qkv.q.data()[e] *= static_cast<float>(size);
    backward::Inputs inputs = backward::with_forward(problem, std::move(qkv), random());
    if (i % 2 == 0) {  // else the exact ones, rounded
      auto [o, lse] = Tests::best().forward(problem, inputs.forward);
      inputs.o = std::move(o);
      inputs.lse = std::move(lse);
    }
    const auto ref = textbook_d_v<double>(problem, inputs);
    const auto plain = textbook_d_v<float>(problem, inputs);
    for (const backward::LadderStep& step : Tests::best().steps) {
      if (!step.supports(problem)) continue;
      ratios[step.name].push_back(error_over_tolerance(
          accept("d_v", step.run(problem, inputs).d_v, ref, plain, kGradientFactor)));
    }
  }
  REQUIRE(ratios.size() == 5);
  for (auto& one : ratios) {
    std::vector<double>& of_step = one.second;
    CAPTURE(one.first);
    REQUIRE(of_step.size() == problems);
    std::sort(of_step.begin(), of_step.end());
    CAPTURE(of_step.back());
    CHECK(of_step[problems / 2] < 0.5);  // 1/3: an error as large as plain's
    // A few by chance: where one row has two scores that nearly tie, it makes all of the error,
    // and plain may be lucky.
    CHECK(of_step[problems * 95 / 100] <= 1);
  }
}
