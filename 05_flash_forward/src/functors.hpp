/// @file
/// The kernels with functors as the program and the tests see them: inputs with the functor's
/// parameters on the host, the functor for lesson 01, and a check of what a kernel returns.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "01_naive_attention/score_functor.hpp"
#include "05_flash_forward/src/checker.hpp"
#include "common/attention/functor_spec.hpp"
#include "common/attention/host/step.hpp"

namespace fa::flash::functors {

/// Inputs of attention with a functor.
struct FunctorInputs : Inputs {
  FunctorSpec spec;  ///< without pointers
  FunctorTables tables;
};

/// One kernel with functors.
using LadderStep = attention::LadderStep<FunctorInputs, Outputs>;
/// What runs them.
struct Backend : LadderBackend<LadderStep> {};

/// The backends of this build: the lab first.
std::vector<Backend> backends();

/// Where the document of each token begins and ends, from where the documents of a sequence begin.
/// @throws std::invalid_argument unless they rise from 0 to `tokens`
std::vector<std::int32_t> documents_of(const std::vector<std::int32_t>& cu_seqlens,
                                       std::int64_t tokens);

/// Random tables of a problem for a spec, whose strides of the bias are set: documents of random
/// lengths, slopes as in ALiBi's paper, and a mask of random blocks or of a random tree.
/// @param spec on return with strides
FunctorTables random_tables(const Problem& problem, FunctorSpec& spec, std::uint64_t seed);

/// What a test changes in random tables.
using ChangeTables = std::function<void(FunctorTables&)>;
/// Random inputs of a problem with a functor.
FunctorInputs functor_inputs(const Problem& problem, const FunctorSpec& spec, Values values,
                             std::uint64_t seed, const ChangeTables& change = {});

/// The functor in float64, for lesson 01.
/// @param spec with pointers of the host, which must outlive the result
/// @throws std::invalid_argument for an unknown kind
ScoreFunctor reference_functor(const FunctorSpec& spec, const AttentionShape& shape);

/// The tiles of scores of one head of the first sequence, by their kinds, and its visible scores.
struct TileCounts {
  std::int64_t skipped = 0, partial = 0, whole = 0;
  std::int64_t visible_scores = 0;
  /// All tiles.
  std::int64_t all() const { return skipped + partial + whole; }
};
/// Counts tiles of block_m queries and block_n keys.
/// @param spec with pointers of the host
TileCounts count_tiles(const FunctorSpec& spec, const AttentionShape& shape, int block_m,
                       int block_n);

/// A functor that is timed, on a problem with 16 heads of 128 columns.
struct TimedFunctor {
  std::string name;
  Problem problem;
  FunctorSpec spec;  ///< without pointers
  FunctorTables tables;
};
/// All of them.
std::vector<TimedFunctor> timed_functors();

/// Checks O and LSE against lesson 01 with the functor.
struct FunctorChecker : Checker {
  /// Computes lesson 01 in float64, and in the problem's type.
  FunctorChecker(const Problem& problem, const FunctorInputs& inputs);
};

}  // namespace fa::flash::functors
