/// @file
/// The tests of a ladder's steps that are the same forward and backward.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/attention/host/step.hpp"
#include "common/attention/tests/problems.hpp"
#include "common/lab/trace.hpp"

namespace fa::attention {

/// Lengths of queries and keys around the edges of tiles.
inline const std::pair<int, int> kEdgeLengths[] = {
    {1, 1}, {1, 17}, {17, 1}, {64, 64}, {65, 63}, {113, 203}, {203, 113}, {128, 129}, {130, 257}};

using lab::kAllReached;

/// Runs a step once and checks what it returns.
template <class LadderStep, class Inputs, class Checker>
void check_step(const LadderStep& step, const Problem& problem, const Inputs& inputs,
                const Checker& checker) {
  check_result(checker, problem, step.name, step.run(problem, inputs));
}

/// Checks that a step of the watched lab is right, with no finding.
/// @return which lines of its kernels were reached
template <class LadderStep, class Inputs, class Checker>
lab::Coverage check_watched(const LadderStep& step, const Problem& problem, const Inputs& inputs,
                            const Checker& checker) {
  const auto seen = lab::trace({step.name, problem.text(), {}},
                               [&] { check_step(step, problem, inputs, checker); });
  REQUIRE(seen);
  CAPTURE(step.name);
  CAPTURE(problem.text());
  CAPTURE(seen->text);
  CHECK(seen->findings == 0);
  return seen->coverage;
}

/// Launches a step several times and checks that the results are the same.
/// @param same whether two results are: same(first, again)
template <class LadderStep, class Inputs, class Same>
void check_repeats(const LadderStep& step, const Problem& problem, const Inputs& inputs, int runs,
                   Same same) {
  const auto prepared = step.prepare(problem, inputs);
  prepared.launch();
  const auto first = prepared.result();
  for (int run = 1; run < runs; ++run) {
    prepared.launch();
    CAPTURE(step.name);
    CAPTURE(run);
    REQUIRE(same(first, prepared.result()));
  }
}

/// The tests of a lesson.
/// @tparam make_inputs make_inputs(problem, values, seed) of the lesson
template <class Checker, auto backends, auto make_inputs>
struct StepTests {
  using Backends = decltype(backends());
  using Backend = typename Backends::value_type;
  using Inputs = decltype(make_inputs(Problem(), Values::kNormal, 1));

  /// The lesson's backends.
  static const Backends& all() {
    static const Backends result = backends();
    return result;
  }
  /// The backend for tests with many problems: the GPU where there is one, else the lab.
  static const Backend& best() {
    for (const Backend& backend : all()) {
      if (backend.kind == "gpu" && backend.available) return backend;
    }
    return all().front();
  }
  static bool on_gpu() { return best().kind == "gpu"; }

  /// Checks the steps of a backend that support a problem and are wanted: wanted(step).
  template <class Wanted>
  static int check_steps(const Backend& backend, const Problem& problem, const Inputs& inputs,
                         const Checker& checker, Wanted wanted) {
    CAPTURE(backend.kind);
    int checked = 0;
    for (const auto& step : backend.steps) {
      if (!wanted(step) || !step.supports(problem)) continue;
      check_step(step, problem, inputs, checker);
      ++checked;
    }
    return checked;
  }
  /// Checks them on the best backend, with normal inputs.
  template <class Wanted>
  static int check_best(const Problem& problem, std::uint64_t seed, Wanted wanted) {
    const Inputs inputs = make_inputs(problem, Values::kNormal, seed);
    return check_steps(best(), problem, inputs, Checker(problem, inputs), wanted);
  }
  /// Checks them on all backends but the watched one.
  /// @param least that a backend which runs the whole ladder must have: a name that selects no step
  ///   is a mistake of the test
  template <class Wanted>
  static void check_everywhere(const Problem& problem, const Inputs& inputs, int least,
                               Wanted wanted) {
    const Checker checker(problem, inputs);
    for (const Backend& backend : all()) {
      if (!backend.available || backend.kind == "watched") continue;
      const int checked = check_steps(backend, problem, inputs, checker, wanted);
      CAPTURE(backend.kind);
      CAPTURE(problem.text());
      if (backend.left_out.empty()) REQUIRE(checked >= least);
    }
  }
  /// Checks every step that supports a problem so; there must be one.
  static void check_everywhere(const Problem& problem, Values values = Values::kNormal) {
    check_everywhere(problem, make_inputs(problem, values, 1), 1, [](const auto&) { return true; });
  }

  /// @{ Problems for every step.
  static void check_edge_lengths() {
    for (const Type type : kTypes) {
      for (const auto& [length_q, length_k] : kEdgeLengths) {
        for (const bool causal : {false, true}) {
          check_everywhere(problem_of(type, {1, 2, 2, length_q, length_k, 64}, causal));
        }
      }
    }
  }
  static void check_padded_head_dims() {
    for (const Type type : kTypes) {
      for (const int head_dim : {8, 32, 40, 72, 96, 104, 136, 192, 200}) {
        check_everywhere(problem_of(type, {1, 1, 1, 70, 90, head_dim}, true));
      }
    }
  }
  static void check_mla() {
    for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
      for (const auto& [length_q, length_k] : kEdgeLengths) {
        for (const bool causal : {false, true}) {
          Problem problem = problem_of(type, {1, 4, 2, length_q, length_k, kMlaHeadDim}, causal);
          problem.head_dim_v = kMlaHeadDimV;
          problem.layout = causal ? Layout::kLengthFirst : Layout::kHeadsFirst;
          check_everywhere(problem);
        }
      }
    }
  }
  static void check_groups() {
    for (const Type type : kTypes) {
      check_everywhere(problem_of(type, {2, 6, 2, 40, 50, 32}));
      check_everywhere(problem_of(type, {2, 4, 1, 70, 50, 32}, true));
    }
  }
  static void check_masked_rows() {
    for (const Type type : kTypes) {
      check_everywhere(problem_of(type, {1, 1, 1, 300, 5, 64}, true));
      check_everywhere(problem_of(type, {1, 1, 1, 5, 300, 64}, true));
    }
  }
  static void check_length_first() {
    for (const Type type : kTypes) {
      Problem problem = problem_of(type, {2, 4, 2, 70, 75, 40}, true);
      problem.layout = Layout::kLengthFirst;
      check_everywhere(problem);
    }
  }
  static void check_large_and_rising_scores() {
    for (const Type type : kTypes) {
      for (const Values values : {Values::kLarge, Values::kRising}) {
        for (const bool causal : {false, true}) {
          check_everywhere(problem_of(type, {1, 2, 1, 70, 300, 64}, causal), values);
        }
      }
    }
  }
  static void check_dropout() {
    for (const Type type : kTypes) {
      for (const bool causal : {false, true}) {
        Problem problem = problem_of(type, {2, 2, 1, 70, 131, 64}, causal);
        problem.dropout = 0.17;
        problem.seed = 0x123456789abcdef;
        check_everywhere(problem);
      }
    }
  }
  /// @}

  /// Checks every step of the watched lab with all problems of watched_problems().
  /// @return which lines of the kernels were reached
  static lab::Coverage check_all_watched(const Backend& watched) {
    lab::Coverage coverage;
    for (const auto& step : watched.steps) {
      REQUIRE(!step.tiles.empty());
      for (const bool causal : {false, true}) {
        for (const Problem& problem : watched_problems(step, step.types.back(), causal)) {
          const Inputs inputs = make_inputs(problem, Values::kNormal, 1);
          coverage.add(check_watched(step, problem, inputs, Checker(problem, inputs)));
        }
      }
    }
    return coverage;
  }

  /// Whether tests of many problems take the fewest: in the lab, without `--all`.
  static bool few() { return !on_gpu() && !wants_all_tests(); }
  /// A problem with the head dimensions of MLA in its place, if a step supports that.
  static Problem with_mla(Problem problem) {
    const Problem given = problem;
    problem.shape.head_dim = kMlaHeadDim;
    problem.head_dim_v = kMlaHeadDimV;
    for (const auto& step : best().steps) {
      if (step.supports(problem)) return problem;
    }
    return given;
  }
  /// Into how many tests, and so processes, the random problems are divided; odd, see with_mla().
  static constexpr int kParts = 7;
  /// Calls check(problem, seed) for a part of the random problems: FA_FUZZ_COUNT of the environment,
  /// or as many as the machine does soon; see fuzz_seed(). On a GPU those beyond the first hundred
  /// are short: the checker takes most of the time.
  template <class Check>
  static void for_each_random_problem(int part, Check check) {
    const char* const given = std::getenv("FA_FUZZ_COUNT");
    const int usual = few() ? 140 : 420;
    const int count = given != nullptr ? std::atoi(given) : usual;
    const std::uint64_t seed = fuzz_seed();
    MESSAGE("FA_FUZZ_SEED=" << seed);
    std::mt19937_64 random(seed);
    for (int i = 0; i < count; ++i) {
      Problem problem = on_gpu() ? random_problem(random, i < 100 ? 700 : 150, 256)
                                 : random_problem(random, 150, i % 8 == 1 ? 256 : 128, 4);
      if (i % 4 == 0) problem = with_mla(problem);
      const std::uint64_t values = random();
      if (i % kParts != part) continue;
      CAPTURE(seed);
      CAPTURE(i);
      check(problem, values);
    }
  }

  /// Checks what is chosen for a GPU, on every backend that can run it; in the watched lab on a
  /// smaller problem and with no finding.
  /// @param dispatched the choice as a step of a backend: dispatched(backend)
  template <class Dispatched>
  static void check_choice(const DeviceProperties& gpu, const Problem& problem,
                           Dispatched dispatched) {
    CAPTURE(gpu.name);
    const Needs kernels = can_run(gpu, kNeedsHopper)    ? kNeedsHopper
                          : gpu.compute_capability < 80 ? Needs{}
                                                        : kNeedsMma;
    for (const Backend& backend : all()) {
      if (!backend.available || !can_run(backend.properties, kernels)) continue;
      const bool watched = backend.kind == "watched";
      Problem fitting = problem;
      if (watched) {
        fitting.shape = {1, 2, 1, 37, 39, problem.shape.head_dim};
        if (fitting.type == Type::kBFloat16) fitting.type = Type::kFloat16;  // which it has
      }
      const Inputs inputs = make_inputs(fitting, Values::kNormal, 1);
      const Checker checker(fitting, inputs);
      if (watched) {
        check_watched(dispatched(backend), fitting, inputs, checker);
      } else {
        check_step(dispatched(backend), fitting, inputs, checker);
      }
    }
  }
  /// Checks that the blocks of what is chosen for a GPU are within its shared memory.
  /// @param dispatched the choice as a step of the lab: dispatched(lab, gpu)
  template <class Dispatched>
  static void check_shared_memory(const std::vector<DeviceProperties>& gpus,
                                  Dispatched dispatched) {
    const Backend& lab = all().front();
    for (const DeviceProperties& gpu : gpus) {
      for (const Type type : kTypes) {
        for (const int head_dim : {32, 64, 128, 256}) {
          const Problem problem = problem_of(type, {1, 1, 1, 9, 8, head_dim});
          const auto prepared =
              dispatched(lab, gpu).prepare(problem, make_inputs(problem, Values::kNormal, 1));
          for (const KernelResources& takes : lab.resources(prepared.launch)) {
            CAPTURE(gpu.name);
            CAPTURE(problem.text());
            CHECK(takes.shared_bytes <= gpu.shared_bytes);
          }
        }
      }
    }
  }
};

// The problems for every step; Tests is a StepTests.
#define FA_STEP_TEST(what, check) \
  TEST_CASE(what) {               \
    Tests::check();               \
  }
#define FA_STEP_TESTS                                                                            \
  FA_STEP_TEST("odd lengths, around the edges of the tiles, causal or not", check_edge_lengths)  \
  FA_STEP_TEST("head dimensions that are not a power of two are padded", check_padded_head_dims) \
  FA_STEP_TEST("192 columns of q and k, 128 of v and o", check_mla)                              \
  FA_STEP_TEST("grouped-query attention: heads share keys and values", check_groups)             \
  FA_STEP_TEST("fully masked rows, and a last row that sees all keys", check_masked_rows)        \
  FA_STEP_TEST("tensors with layout [batch, length, heads, head_dim]", check_length_first)       \
  FA_STEP_TEST("scores of +-1e4, and row maxima that rise from tile to tile",                    \
               check_large_and_rising_scores)                                                    \
  FA_STEP_TEST("dropout drops the elements of the reference mask", check_dropout)

// The random problems; Tests is a StepTests, and check(problem, seed) checks the finished kernels.
#define FA_RANDOM_TEST(part)                               \
  TEST_CASE("random problems, part " #part " of 0 to 6") { \
    Tests::for_each_random_problem(part, check);           \
  }
#define FA_RANDOM_TESTS \
  FA_RANDOM_TEST(0)     \
  FA_RANDOM_TEST(1)     \
  FA_RANDOM_TEST(2)     \
  FA_RANDOM_TEST(3)     \
  FA_RANDOM_TEST(4)     \
  FA_RANDOM_TEST(5)     \
  FA_RANDOM_TEST(6)

}  // namespace fa::attention
