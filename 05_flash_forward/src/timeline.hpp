/// @file
/// Who waits for whom in the rungs for Hopper: time lines of a multiprocessor, from a run in the lab and a model of what
/// things cost.
#pragma once

#include <string>
#include <vector>

#include "05_flash_forward/src/backend.hpp"
#include "common/cli/timelines.hpp"
#include "common/lab/replay.hpp"

namespace fa::flash {

/// What is drawn of a rung: two blocks of queries of one head, and 512 keys. Of rung 15, which is about the mask, with
/// it and with head_dim 64, where it has three consumers; else without it and with head_dim 128.
Problem drawn_problem(const Rung& rung);

/// A rung on one multiprocessor.
/// @param rung    of the machine "lab", from rung 09 on
/// @param problem that it computes
/// @param costs   of the model
/// @throws std::runtime_error when the rung does not compute in the lab
lab::Timeline timeline_of(const Rung& rung, const Problem& problem,
                          const lab::Costs& costs = {});

/// Prints how busy tensor cores are in each rung of the lab, and what its consumers do; draws it if asked.
/// @param machine the lab
/// @param options of the program
/// @throws std::runtime_error when a file cannot be written
void show_timelines(const Backend& backend,
                    const cli::TimelineOptions& options);

}  // namespace fa::flash
