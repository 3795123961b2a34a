/// @file
/// Timelines of an SM for this lesson's Hopper rungs: which warps wait, and for what. From a run in
/// the lab and lesson 05's cost model.
#pragma once

#include "06_flash_backward/src/backend.hpp"
#include "common/cli/timelines.hpp"
#include "common/lab/replay.hpp"

namespace fa::backward {

/// Random inputs of a problem, for all sections.
Inputs random_inputs(const Problem& problem);

/// What is drawn of a rung: 256 keys of one head and 256 queries, without a mask; head_dim 128, or
/// 256 of rung 13.
Problem drawn_problem(const Rung& rung);

/// The timeline of a rung on one SM, without the kernels before and after. What costs.rest_of_score
/// stands for is charged where P is computed: a fused multiply-add, the subtraction of
/// delta, the multiplication by P, and half a conversion of two elements each for P and dS.
/// @param rung    of the backend "lab", from rung 08 on
/// @throws std::runtime_error when the rung does not compute in the lab
lab::Timeline timeline_of(const Rung& rung, const Problem& problem, const lab::Costs& costs = {});

/// Prints how busy tensor cores are in each rung of the lab, and what its warpgroups do; draws it
/// if asked.
/// @throws std::runtime_error when a file cannot be written
void show_timelines(const Backend& backend, const cli::TimelineOptions& options);

}  // namespace fa::backward
