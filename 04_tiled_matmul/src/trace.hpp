/// @file
/// What the watched lab reports about a kernel of this lesson.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "04_tiled_matmul/src/backend.hpp"
#include "common/lab/trace.hpp"

namespace fa::tiled {

/// The sizes [m, n, k] with which a kernel is watched. They are chosen so that every branch is
/// taken:
/// - one element less than a tile in each direction: guards within the first tile, a pipeline that
///   is never full;
/// - whole tiles, with two more along k than there are stages: no guard applies, every stage is
///   used again;
/// - one vector more than whole tiles in each direction, and one tile more along k than there are
///   stages: the last tile of each direction is ragged. Rows then end where the next ones begin, so
///   that an index that goes one vector too far leaves its row, and in the last row the matrix;
/// - for persistent blocks: three tiles for each of kWatchedBlocks blocks, and one more.
inline std::vector<Shape<3>> watched_sizes(const Tiles& t) {
  constexpr std::int64_t kWatchedBlocks = 2;
  const auto below = [](std::int64_t tile) { return std::max<std::int64_t>(1, tile - 1); };
  std::vector<Shape<3>> sizes{
      {below(t.block_m), below(t.block_n), below(t.block_k)},
      {t.block_m, t.block_n, (t.stages + 2) * t.block_k},
      {t.block_m + t.vector, t.block_n + t.vector, t.stages * t.block_k + t.vector}};
  if (t.persistent) {
    sizes.push_back(
        {3 * kWatchedBlocks * t.block_m + t.vector, t.block_n - t.vector, t.block_k + t.vector});
  }
  return sizes;
}

/// A size in words: "132 x 128 x 40".
inline std::string words_of(const Shape<3>& size) {
  return fmt::format("{} x {} x {}", size[0], size[1], size[2]);
}

/// Runs a kernel of the backend "watched" and watches it; none where this build has no watched lab.
/// @param sizes  m, n and k of the problems; the first one's accesses are counted
inline std::optional<lab::Trace> trace(const Group& group, const Kernel& kernel,
                                       const std::vector<Shape<3>>& sizes) {
  lab::TraceName name{kernel.name, group.title, {}};
  std::vector<lab::TracedProblem> problems;
  for (const Shape<3>& size : sizes) {
    const Inputs inputs = group.inputs(size[0], size[1], size[2]);
    if (problems.empty()) {
      for (const auto& input : inputs) {
        name.inputs.push_back({input.size(0), input.size(1)});
      }
    }
    problems.push_back({words_of(size), [&kernel, inputs] {
                          const Prepared prepared = kernel.prepare(inputs);
                          prepared.launch();
                          prepared.result();
                        }});
  }
  return lab::trace(name, problems);
}

}  // namespace fa::tiled
