/// @file
/// The decode kernels as the program and the tests see them: from host tensors to host tensors, on
/// each backend that this build has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "05_flash_forward/src/checker.hpp"
#include "common/attention/host/ladder.hpp"

namespace fa::flash::decode {

/// Queries, and a cache of keys and values. The problem's length_k is the most that a sequence can
/// have.
struct DecodeInputs : Inputs {
  /// Keys of each sequence; empty: all have length_k. A kernel takes the nearest length that is
  /// allowed, 0 to length_k.
  std::vector<std::int32_t> lengths_k;
  int page_size = 16;  ///< of kernels with a paged cache
};

/// One step of the ladder of decode kernels.
using LadderStep = attention::LadderStep<DecodeInputs, Outputs>;

/// What runs decode kernels.
using Backend = LadderBackend<LadderStep>;

/// The backends of this build: the lab first.
std::vector<Backend> backends();

/// Random inputs of a problem.
DecodeInputs decode_inputs(const Problem& problem, Values values, std::uint64_t seed);

/// Checks O and LSE against lesson 01.
class DecodeChecker {
 public:
  /// Computes lesson 01 in float64, and in the problem's type.
  /// @throws std::invalid_argument as naive::forward()
  DecodeChecker(const Problem& problem, const DecodeInputs& inputs);
  /// The verdicts on O and LSE.
  /// @throws std::invalid_argument when one has another shape
  std::vector<Verdict> check(const std::string& name, const Outputs& outputs) const;

 private:
  Type type_;
  naive::Forward<double> ref_;
  Outputs plain_;
  double score_magnitude_ = 0;
};

/// The section "decode": every step is checked on small problems and, on a GPU, timed on the caches
/// that a server has: a step that --kernel names, or those that read lengths from the device.
/// @param options with --kernel and --results
/// @throws std::invalid_argument when no step is wanted
/// @throws std::runtime_error when the device reports an error, or the record cannot be written
void show_decode(cli::Program& program, const cli::KernelOptions& options);

}  // namespace fa::flash::decode
