/// @file
/// What tests do with the rungs of a ladder, forward and backward.
#pragma once

#include <optional>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "05_flash_forward/src/backend.hpp"
#include "05_flash_forward/tests/problems.hpp"
#include "common/lab/trace.hpp"

namespace fa::flash {

/// Lengths of queries and keys around the edges of tiles.
inline const std::pair<int, int> kEdgeLengths[] = {
    {1, 1},     {1, 17},    {17, 1},    {64, 64},  {65, 63},
    {113, 203}, {203, 113}, {128, 129}, {130, 257}};

/// Head dimensions at and between those that kernels are compiled for.
inline const int kHeadDims[] = {8, 32, 40, 72, 128, 136, 256};

/// Runs a rung once and checks what it returns.
template <class Rung, class Inputs, class Checker>
void check_rung(const Rung& rung, const Problem& problem,
                const Inputs& inputs, const Checker& checker) {
  const auto prepared = rung.prepare(problem, inputs);
  prepared.launch();
  for (const Verdict& verdict : checker.check(rung.name, prepared.result())) {
    CAPTURE(problem.text());
    CAPTURE(verdict.report());
    CHECK(verdict.accepted);
  }
}

/// Checks every rung that supports a problem, on all backends but the watched one.
template <class Backend, class Inputs, class Checker>
void check_everywhere(const std::vector<Backend>& backends,
                      const Problem& problem, const Inputs& inputs,
                      const Checker& checker) {
  for (const Backend& backend : backends) {
    if (!backend.available || backend.kind == "watched") continue;
    CAPTURE(backend.kind);
    for (const auto& rung : backend.rungs) {
      if (rung.supports(problem)) check_rung(rung, problem, inputs, checker);
    }
  }
}

/// Checks that a rung of the watched lab is right, with no finding.
/// @return which lines of its kernels were reached
template <class Rung, class Inputs, class Checker>
lab::Coverage check_watched(const Rung& rung, const Problem& problem,
                            const Inputs& inputs, const Checker& checker) {
  const auto seen = lab::trace({rung.name, problem.text(), {}}, [&] {
    check_rung(rung, problem, inputs, checker);
  });
  REQUIRE(seen);
  CAPTURE(rung.name);
  CAPTURE(problem.text());
  CAPTURE(seen->text);
  CHECK(seen->findings == 0);
  return seen->coverage;
}

/// Checks every rung of the watched lab so, with all problems of watched_problems().
/// @tparam Checker of the lesson
/// @param watched     the watched lab
/// @param make_inputs make_inputs(problem) of the lesson
/// @return which lines of the kernels were reached
template <class Checker, class Backend, class MakeInputs>
lab::Coverage check_all_watched(const Backend& watched,
                                MakeInputs make_inputs) {
  lab::Coverage coverage;
  for (const auto& rung : watched.rungs) {
    REQUIRE(!rung.tiles.empty());
    for (const bool causal : {false, true}) {
      for (const Problem& problem :
           watched_problems(rung, rung.types.back(), causal)) {
        const auto inputs = make_inputs(problem);
        const Checker checker(problem, inputs);
        coverage.add(check_watched(rung, problem, inputs, checker));
      }
    }
  }
  return coverage;
}

/// What lab::unreached_text() says where every line was reached.
constexpr char kAllReached[] = "Every line of the kernels was reached.\n";

/// How many random problems: FA_FUZZ_COUNT from the environment, or a hundred.
inline int fuzz_count() {
  const char* given = std::getenv("FA_FUZZ_COUNT");
  return given != nullptr ? std::atoi(given) : 100;
}

/// Calls check(problem, seed) for random problems: see fuzz_seed(). Those beyond the first hundred are short:
/// the checker takes most of the time.
template <class Check>
void for_each_random_problem(bool on_gpu, Check check) {
  const std::uint64_t seed = fuzz_seed();
  MESSAGE("FA_FUZZ_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < fuzz_count(); ++i) {
    const Problem problem = random_problem(
        random, on_gpu && i < 100 ? 700 : 150, on_gpu ? 256 : 128);
    CAPTURE(seed);
    CAPTURE(i);
    check(problem, random());
  }
}

}  // namespace fa::flash
