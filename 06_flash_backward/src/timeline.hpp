/// @file
/// Who waits for whom in this lesson's rungs for Hopper: time lines of a multiprocessor, from a
/// run in the lab and lesson 05's model of what things cost.
#pragma once

#include "06_flash_backward/src/backend.hpp"
#include "common/cli/timelines.hpp"
#include "common/lab/replay.hpp"

namespace fa::backward {

/// What is drawn of a rung: 256 keys of one head and 256 queries, without a mask; head_dim 128, or
/// 256 of rung 13.
Problem drawn_problem(const Rung& rung);

/// A rung on one multiprocessor, without the kernels before and after. What costs.rest_of_score
/// stands for is charged where P is computed: a multiplication with addition, delta subtracted,
/// the product with P, and half a conversion of two numbers each for P and dS.
/// @param rung    of the machine "lab", from rung 08 on
/// @param problem that it computes
/// @param costs   of the model
/// @throws std::runtime_error when the rung does not compute in the lab
lab::Timeline timeline_of(const Rung& rung, const Problem& problem,
                          const lab::Costs& costs = {});

/// Prints how busy tensor cores are in each rung of the lab, and what its warpgroups do; draws it
/// if asked.
/// @param machine the lab
/// @param options of the program
/// @throws std::runtime_error when a file cannot be written
void show_timelines(const Backend& backend,
                    const cli::TimelineOptions& options);

}  // namespace fa::backward
