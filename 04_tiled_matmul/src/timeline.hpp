/// @file
/// Who waits for whom in the rungs for Hopper: time lines of a multiprocessor, from a run in the lab and a model of what
/// things cost.
#pragma once

#include <cstdint>

#include "04_tiled_matmul/src/backend.hpp"
#include "common/cli/timelines.hpp"
#include "common/lab/replay.hpp"

namespace fa::tiled {

/// A product A B.
struct ProductSizes {
  std::int64_t rows;   ///< of A and C
  std::int64_t cols;   ///< of B and C
  std::int64_t depth;  ///< columns of A, rows of B
};

/// What is drawn: two tiles of C, for each of which the sums take 8 steps.
constexpr ProductSizes kDrawn{128, 512, 512};

/// A rung on one multiprocessor, which computes A B.
/// @param machine the lab
/// @param rung    of its group "mma", from rung 19 on
/// @param sizes   of the product
/// @param costs   of the model
/// @throws std::runtime_error when the rung does not compute in the lab
lab::Timeline timeline_of(const Backend& backend, const Kernel& rung,
                          const ProductSizes& sizes,
                          const lab::Costs& costs = {});

/// Prints how busy tensor cores are in each rung of the lab, and what its warpgroups do; draws it if asked.
/// @param machine the lab
/// @param options of the program
/// @throws std::runtime_error when a file cannot be written
void show_timelines(const Backend& backend,
                    const cli::TimelineOptions& options);

}  // namespace fa::tiled
