/// @file
/// Problems that kernels are tested with, forward and backward.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/attention/host/problem.hpp"

namespace fa::attention {

/// Whether contributors' tests are wanted: FA_TESTS=all, as `./learn test --all` sets it.
inline bool wants_all_tests() {
  const char* const given = std::getenv("FA_TESTS");
  return given != nullptr && std::string(given) == "all";
}

/// FA_FUZZ_SEED from the environment, or 1. About one problem in 5000 in float32, and one in 1500 in
/// 8 bits, has a row whose error is more than twice the textbook's by chance, so a test that drew
/// other problems in each run would fail now and then.
inline std::uint64_t fuzz_seed() {
  const char* given = std::getenv("FA_FUZZ_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
}

/// A problem of random type, sizes, layout, mask and dropout.
/// @param max_head_dim a multiple of 8
/// @param few          with more heads in the whole batch, sequences are at most half as long: each
///   head takes as long as another, and shows little that they do not
inline Problem random_problem(std::mt19937_64& random, std::uint64_t longest,
                              std::int64_t max_head_dim, std::int64_t few = 18) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const std::int64_t kv_heads = 1 + below(3);
  const Type type = kTypes[below(3)];
  const std::int64_t batch = 1 + below(2), heads = kv_heads * (1 + below(3));
  if (batch * heads > few) longest /= 2;
  const std::int64_t length_q = 1 + below(longest), length_k = 1 + below(longest);
  const std::int64_t head_dim = 8 * (1 + below(static_cast<std::uint64_t>(max_head_dim / 8)));
  Problem problem =
      problem_of(type, {batch, heads, kv_heads, length_q, length_k, head_dim}, below(2) == 0);
  problem.layout = below(2) == 0 ? Layout::kHeadsFirst : Layout::kLengthFirst;
  problem.dropout = below(2) == 0 ? 0 : 0.01 * static_cast<double>(below(90));
  problem.seed = random();
  return problem;
}

/// Checks what lesson 01 says of a result.
inline void check_accepted(const std::vector<Verdict>& verdicts) {
  CHECK(!verdicts.empty());
  for (const Verdict& verdict : verdicts) {
    CAPTURE(verdict.report());
    CHECK(verdict.accepted);
  }
}
/// Checks what a kernel returned.
template <class Checker, class Result>
void check_result(const Checker& checker, const Problem& problem, const std::string& name,
                  const Result& result) {
  CAPTURE(problem.text());
  check_accepted(checker.check(name, result));
}

}  // namespace fa::attention
