/// @file
/// Lesson 06: sections of the program, in the files that narrate them; timelines of an SM, traffic
/// and timing of the steps.
#pragma once

#include <vector>

#include "06_flash_backward/src/backend.hpp"
#include "common/attention/host/timing.hpp"
#include "common/cli/program.hpp"
#include "common/cli/timelines.hpp"

namespace fa::backward {

/// From the derivative to gradients by tiles (derivation_sections.cpp).
void add_derivation(cli::Program& program);

/// The kernels (kernel_sections.cpp). Adds options, too.
void add_kernels(cli::Program& program, const std::vector<Backend>& backends);

/// The tape and training (training_sections.cpp).
/// @param backends with the lab; must outlive the program
void add_training(cli::Program& program, const std::vector<Backend>& backends);

/// What the float32 steps ask of global memory, by their own formulas and as the watched lab counts
/// it, and that both are equal.
void show_traffic(const Lesson<Backend>& lesson, const Backend& watched);

/// What is timed: one head, which stands for all heads of all sequences.
/// @param backend computes o and lse
/// @param problem what is timed; its type is one of the backend's forward pass
Inputs timed_inputs(const Backend& backend, const Problem& problem);

/// Times the steps on one group, five matmuls counted, lesson 05's forward pass on its problems
/// before; see attention::time_steps(). Steps 01 to 05 are slow.
std::vector<cli::Measurement> time_steps(const Backend& backend, const TimedGroup& group);

/// Random inputs of a problem, for all sections.
Inputs random_inputs(const Problem& problem);

/// What is drawn of a step: 256 keys of one head and 256 queries, without a mask; head_dim 128, or
/// 256 of step 13.
Problem drawn_problem(const LadderStep& step);

/// What the lab records of a step, without the kernels before and after.
/// @param step of the backend "lab", from step 08 on
/// @throws std::runtime_error when the step does not compute in the lab
cli::RecordedStep recorded(const LadderStep& step, const Problem& problem);

/// Prints the order of operations of the lab's steps from 08 on; or, with stamps, shows what a GPU
/// did.
/// @throws std::runtime_error when a file cannot be written
void show_timelines(const Backend& backend, const cli::TimelineOptions& options);

}  // namespace fa::backward
