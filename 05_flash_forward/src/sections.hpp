/// @file
/// Sections of this lesson's program that no other lesson has: global memory traffic by formulas
/// and by counting, and timelines of an SM.
#pragma once

#include <string>

#include "05_flash_forward/src/backend.hpp"
#include "common/attention/host/ladder.hpp"
#include "common/attention/tile_scheduler.cuh"
#include "common/cli/timelines.hpp"

namespace fa::flash {

/// Matmuls of the forward pass that rates count.
constexpr int kMatmuls = 2;

/// Random inputs of a problem, for all sections.
Inputs random_inputs(const Problem& problem);

/// The section "traffic": formulas, counts, and a check that they are equal.
void show_traffic(const Lesson<Backend>& lesson, const Backend& watched);

/// What is drawn of a step: two blocks of queries of one head, and 512 keys. Of step 15, which is
/// about the mask, with it and with head_dim 64, where it has three consumers; else without it and
/// with head_dim 128.
Problem drawn_problem(const LadderStep& step);

/// What the lab records of a step.
/// @param step of the backend "lab", from step 09 on
/// @throws std::runtime_error when the step does not compute in the lab
cli::RecordedStep recorded(const LadderStep& step, const Problem& problem);

/// Prints the order of operations of the lab's steps from 09 on; or, with stamps, shows what a GPU
/// did.
/// @throws std::runtime_error when a file cannot be written
void show_timelines(const Backend& backend, const cli::TimelineOptions& options);

/// What a schedule costs.
struct Schedule {
  std::int64_t bytes_read;  ///< from global memory
  double idle;              ///< share of the time for which SMs have no tile, 0 to 1
};

/// Simulates persistent blocks of 128 queries and 128 keys under the causal mask, one on each SM,
/// and a cache of all SMs that evicts what was used longest ago. Time is counted in tiles of keys.
Schedule simulate_schedule(const on_lab::TileScheduler& scheduler, int sms,
                           std::int64_t cache_bytes);

/// The scheduler of an H100 for 16,384 tokens in sequences of a length, with 16 heads of 128
/// columns.
on_lab::TileScheduler modelled_scheduler(int length);

/// The section "schedule": bytes and idle time for several numbers of heads together.
void show_schedule();

}  // namespace fa::flash
