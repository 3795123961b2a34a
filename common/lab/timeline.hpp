/// @file
/// Time lines of replay.hpp for people: drawn, in words, as JSON.
#pragma once

#include <string>
#include <vector>

#include "common/lab/replay.hpp"

namespace fa::lab {

/// A time line with its name.
struct NamedTimeline {
  std::string name;   ///< of the kernel, and what else distinguishes it
  Timeline timeline;  ///< what happened
};

/// A warpgroup, which one of its warps stands for.
struct Lane {
  std::string name;  ///< "producer", "consumer 0"
  int warp = 0;      ///< its first one
};

/// The warpgroups that multiply, "consumers", before those that only copy, "producers".
std::vector<Lane> lanes_of(const Timeline& timeline);

/// What things cost in the model: lines of text.
std::string costs_text(const Costs& costs);

/// Draws time lines below one another, with the same scale: copies, the warpgroups, the tensor cores.
/// @param timelines at least one
/// @param tensors   names of what is copied, by the numbers of Step::tensor
/// @param cycles    that the width stands for at least: drawings with the same number have the same scale
/// @return SVG
std::string draw_timelines(const std::vector<NamedTimeline>& timelines,
                           const std::vector<std::string>& tensors,
                           double cycles = 0);

/// The same for programs: an array of objects with name, cycles, tensor_busy and spans.
/// @param timelines as drawn
/// @param tensors   names of what is copied
std::string timelines_json(const std::vector<NamedTimeline>& timelines,
                           const std::vector<std::string>& tensors);

}  // namespace fa::lab
