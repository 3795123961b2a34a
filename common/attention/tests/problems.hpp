/// @file
/// Problems that kernels are tested with, forward and backward.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "common/attention/host/problem.hpp"

namespace fa::attention {

/// How much the tests of many problems do: all of the matrix, a thinner one, or half of that. With
/// `./learn test --all` that is all on a GPU and the thinner one in the lab, else a step less.
enum class Extent { kAll, kThin, kFew };

/// Whether contributors' tests are wanted: FA_TESTS=all, as `./learn test --all` sets it.
inline bool wants_all_tests() {
  const char* const given = std::getenv("FA_TESTS");
  return given != nullptr && std::string(given) == "all";
}

/// Into how many tests, and so processes, the matrix is divided, by head dimensions.
constexpr std::size_t kMatrixParts = 3;

/// Calls check(problem, seed) for head dimensions x masks x groups x lengths x dropout. The 16-bit
/// types have more head dimensions: kernels are compiled for 96 and 192, too, and a multiple of 8
/// below each is padded.
///
/// The thinner matrix has two of the eight settings of mask, groups and dropout with each size,
/// which differ in all three; with the next size another two. So each head dimension and each pair
/// of lengths meets all settings of any two of the three, and with each other both of each. Half of
/// that has one of the two.
/// @param part 0 to kMatrixParts - 1
template <class Check>
void for_each_of_matrix(Type type, Extent extent, std::size_t part, Check check) {
  const bool all = extent == Extent::kAll;
  using Lengths = std::vector<std::pair<std::int64_t, std::int64_t>>;
  std::vector<std::int64_t> head_dims = all ? std::vector<std::int64_t>{32, 40, 64, 72, 128, 256}
                                            : std::vector<std::int64_t>{40, 64, 128};
  if (type != Type::kFloat32) {
    for (const int head_dim : {80, 96, 160, 192}) {
      if (all || head_dim % 96 == 0) head_dims.push_back(head_dim);
    }
  }
  const Lengths lengths = all ? Lengths{{1, 1}, {17, 17}, {113, 203}, {1023, 1024}, {799, 3}}
                              : Lengths{{17, 17}, {113, 203}, {199, 3}};
  const std::int64_t heads = all ? 4 : 2;
  std::uint64_t seed = 1000 * part;
  for (std::size_t d = part; d < head_dims.size(); d += kMatrixParts) {
    for (const bool causal : {false, true}) {
      for (std::int64_t kv_heads = heads; kv_heads > 0; kv_heads /= 2) {
        for (std::size_t l = 0; l < lengths.size(); ++l) {
          for (const double dropout : {0.0, 0.17}) {
            ++seed;
            const bool grouped = kv_heads != heads;
            const bool drops = dropout != 0;
            const std::size_t opposites = (causal != grouped ? 2 : 0) + (causal != drops ? 1 : 0);
            if (!all && opposites != (lengths.size() * d + l) % 4) continue;
            if (extent == Extent::kFew && drops != (d + l) % 2) continue;
            const auto& [length_q, length_k] = lengths[l];
            Problem problem =
                problem_of(type, {1, heads, kv_heads, length_q, length_k, head_dims[d]}, causal);
            problem.dropout = dropout;
            problem.seed = seed;
            check(problem, seed);
          }
        }
      }
    }
  }
}

/// FA_FUZZ_SEED from the environment, or 1. In float32 about one problem in 5000 has a row whose
/// error is more than twice the textbook's by chance, so a test that drew other problems in each
/// run would fail now and then.
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
