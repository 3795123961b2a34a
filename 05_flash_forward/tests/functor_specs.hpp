/// @file
/// The functors that kernels are tested with, forward and backward; as a program in C gives them,
/// too.
#pragma once

#include <cfloat>
#include <cmath>
#include <functional>
#include <vector>

#include "05_flash_forward/interface/flash_attention.h"
#include "common/attention/functor_spec.hpp"
#include "common/attention/tests/step_tests.hpp"

namespace fa {

/// A functor with a window and no other parameters.
inline FunctorSpec of_kind(FunctorKind kind, int left = -1, int right = -1) {
  FunctorSpec spec;
  spec.kind = kind;
  spec.left = left;
  spec.right = right;
  return spec;
}

/// Every kind, and what its parameters can be.
inline std::vector<FunctorSpec> all_specs() {
  std::vector<FunctorSpec> all{
      of_kind(FunctorKind::kPlain),         of_kind(FunctorKind::kCausal),
      of_kind(FunctorKind::kWindow, 70, 0), of_kind(FunctorKind::kWindow, 3, 40),
      of_kind(FunctorKind::kWindow, -1, 9), of_kind(FunctorKind::kDocuments),
      of_kind(FunctorKind::kAlibi, -1, 0),  of_kind(FunctorKind::kSinks, 20, 0),
      of_kind(FunctorKind::kBits),          of_kind(FunctorKind::kDocuments, -1, 0)};
  all.push_back(of_kind(FunctorKind::kPrefix));
  all.back().prefix = 37;
  all.push_back(of_kind(FunctorKind::kSoftCap, -1, 0));
  all.back().cap = 1.25f;
  all.push_back(of_kind(FunctorKind::kBlockSparse));
  all.back().block_size = 40;
  all.push_back(of_kind(FunctorKind::kBias));
  all.push_back(of_kind(FunctorKind::kBias, -1, 0));
  all.back().bias_head = all.back().bias_batch = 1;
  all.push_back(of_kind(FunctorKind::kBias));  // a mask of padding
  all.back().bias_batch = 1;
  all.back().bias_query = -1;
  return all;
}

/// The same functor, for a C interface.
/// @param spec with pointers of the device
inline fa_functor given_functor(const FunctorSpec& spec) {
  fa_functor functor{};
  functor.size = sizeof functor;
  functor.kind = static_cast<std::int32_t>(spec.kind);
  functor.left = spec.left;
  functor.right = spec.right;
  functor.prefix = spec.prefix;
  functor.block_size = spec.block_size;
  functor.cap = spec.cap;
  functor.bias_per_batch = spec.bias_batch != 0 ? 1 : 0;
  functor.bias_per_head = spec.bias_head != 0 ? 1 : 0;
  functor.bias_same_rows = spec.kind == FunctorKind::kBias && spec.bias_query == 0 ? 1 : 0;
  functor.documents = spec.documents;
  functor.slopes = spec.slopes;
  functor.sinks = spec.sinks;
  functor.bias = spec.bias;
  functor.blocks = spec.blocks;
  functor.bits = spec.bits;
  return functor;
}

/// The tests of kernels with functors, forward and backward.
/// @tparam functor_inputs functor_inputs(problem, spec, values, seed, change) of the lesson
template <class Checker, auto backends, auto functor_inputs>
struct FunctorTests {
  using Problem = attention::Problem;
  using Type = attention::Type;
  using Values = attention::Values;
  static auto plain_inputs(const Problem& problem, Values values, std::uint64_t seed) {
    return functor_inputs(problem, FunctorSpec{}, values, seed, {});
  }
  using Tests = attention::StepTests<Checker, backends, plain_inputs>;

  /// Checks every step with a functor, on all backends but the watched one.
  static void check(const Problem& problem, const FunctorSpec& spec,
                    Values values = Values::kNormal,
                    const std::function<void(attention::FunctorTables&)>& change = {}) {
    CAPTURE(static_cast<int>(spec.kind));
    Tests::check_everywhere(problem, functor_inputs(problem, spec, values, 1, change), 1,
                            [](const auto&) { return true; });
  }
  /// A bias that masks, with -infinity and with finite numbers: the last keys, the first ones of
  /// some queries, all after the query's place, and here and there; with -infinity also whole rows.
  static void check_masking_biases() {
    using Masks = bool (*)(int query, int key);
    const Masks last_keys = [](int, int key) { return key >= 70; };
    const Masks first_keys = [](int query, int key) { return query < 70 && key < 140; };
    const Masks causal = [](int query, int key) { return key > query + 170; };
    const Masks scattered = [](int query, int key) { return (7 * query + 5 * key) % 11 < 4; };
    const Masks rows = [](int query, int) { return query % 9 == 0 || (64 <= query && query < 80); };
    const Masks all = [](int, int) { return true; };
    for (const int right : {-1, 0}) {
      const FunctorSpec spec = of_kind(FunctorKind::kBias, -1, right);
      for (const Masks masks : {last_keys, first_keys, causal, scattered, rows, all}) {
        for (const float masked : {-INFINITY, -1e4f, -1e9f, -FLT_MAX}) {
          if ((masks == rows || masks == all) && std::isfinite(masked)) continue;
          CAPTURE(masked);
          for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
            const Problem problem = problem_of(type, {1, 2, 1, 130, 300, 64});
            check(problem, spec, Values::kNormal, [&](attention::FunctorTables& tables) {
              for (int i = 0; i < 130 * 300; ++i) {
                if (masks(i / 300, i % 300)) tables.bias[static_cast<std::size_t>(i)] = masked;
              }
            });
          }
        }
      }
    }
  }
  /// Calls work(step, problem, inputs, masked) for every step that runs a problem whose scores are
  /// all the same negative number.
  template <class Work>
  static void with_equal_scores(Work work) {
    for (const float masked : {-1e4f, -1e7f, -1e9f, -FLT_MAX / 2, -FLT_MAX}) {
      for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
        const Problem problem = problem_of(type, {1, 1, 1, 70, 133, 64});
        auto inputs = functor_inputs(problem, of_kind(FunctorKind::kBias), Values::kNormal, 1,
                                     [&](attention::FunctorTables& tables) {
                                       for (float& bias : tables.bias) bias = masked;
                                     });
        CAPTURE(masked);
        for (const auto& backend : Tests::all()) {
          if (!backend.available || backend.kind == "watched") continue;
          for (const auto& step : backend.steps) {
            CAPTURE(step.name);
            if (step.supports(problem)) work(step, problem, inputs, masked);
          }
        }
      }
    }
  }
  /// Odd lengths, groups, rows without keys.
  static void check_sizes(const FunctorSpec& spec) {
    for (const Type type : {Type::kFloat16, Type::kBFloat16}) {
      check(problem_of(type, {2, 4, 2, 113, 203, 64}), spec);
      check(problem_of(type, {1, 2, 1, 203, 113, 40}), spec);
      check(problem_of(type, {1, 2, 2, 130, 257, 128}), spec);
      check(problem_of(type, {1, 1, 1, 1, 17, 72}), spec);
      check(problem_of(type, {1, 1, 1, 17, 1, 64}), spec);
    }
  }
  /// Windows around the edges of tiles.
  static void check_windows(const AttentionShape& shape) {
    for (const int left : {-1, 0, 1, 31, 32, 63, 64, 95, 96, 127, 128, 129}) {
      for (const int right : {-1, 0, 33, 64}) {
        check(problem_of(Type::kBFloat16, shape), of_kind(FunctorKind::kWindow, left, right));
      }
    }
  }
  /// Layout [batch, length, heads, head_dim]; scores of +-1e4, maxima that rise from key to key.
  static void check_layouts_and_scores() {
    for (const FunctorSpec& spec : all_specs()) {
      Problem problem = problem_of(Type::kBFloat16, {2, 4, 2, 70, 75, 40});
      problem.layout = attention::Layout::kLengthFirst;
      check(problem, spec);
      for (const Values values : {Values::kLarge, Values::kRising}) {
        check(problem_of(Type::kBFloat16, {1, 2, 1, 70, 300, 64}), spec, values);
      }
    }
  }
  /// The watched lab finds nothing and reaches every line.
  static void check_watched(const std::vector<AttentionShape>& shapes) {
    const auto* const watched = find_backend(Tests::all(), "watched");
    if (watched == nullptr) return;
    lab::Coverage coverage;
    for (const auto& step : watched->steps) {
      for (const FunctorSpec& spec : all_specs()) {
        for (const AttentionShape& shape : shapes) {
          const Problem problem = problem_of(step.types.back(), shape);
          const auto inputs = functor_inputs(problem, spec, Values::kNormal, 1, {});
          coverage.add(attention::check_watched(step, problem, inputs, Checker(problem, inputs)));
        }
      }
    }
    CHECK(lab::unreached_text(coverage) == attention::kAllReached);
  }
};

}  // namespace fa
