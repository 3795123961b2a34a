/// @file
/// Timelines of replay.hpp for people: drawn, in words, as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/lab/replay.hpp"

namespace fa::lab {

/// A timeline with its name.
struct NamedTimeline {
  std::string name;       ///< of the kernel, and what else distinguishes it
  Timeline timeline;      ///< what happened
  bool measured = false;  ///< on a GPU, see measured.hpp; else in the model
};

/// What a drawing says in words.
struct Legend {
  std::vector<std::string> tensors;  ///< that are copied, by Step::tensor
  /// What is meant by a colour, in their order. A colour without words is not explained.
  std::vector<std::pair<Span::Kind, std::string>> colours;
};

/// A warpgroup, which one of its warps stands for; or a warp that adds to global memory for others.
struct Lane {
  std::string name;  ///< "producer", "consumer 0", "adder 0"
  int warp = 0;      ///< its first one
};

/// The warpgroups that only copy, "producers", before those that multiply, "consumers", and warps
/// of others that have copies add, "adders".
std::vector<Lane> lanes_of(const Timeline& timeline);

/// Draws timelines below one another, with the same scale: copies, the warpgroups, the tensor
/// cores. The width stands for at least so many cycles: drawings with the same number have the same
/// scale. Where one is measured, only first blocks are drawn, as large as the width allows. The
/// legend names the colours that can be seen.
/// @return SVG
std::string draw_timelines(const std::vector<NamedTimeline>& timelines, const Legend& legend,
                           double cycles = 0);

/// The same for programs: an array of objects with name, cycles, tensor_busy and spans.
std::string timelines_json(const std::vector<NamedTimeline>& timelines,
                           const std::vector<std::string>& tensors);

}  // namespace fa::lab
