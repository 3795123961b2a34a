/// @file
/// Sections of this lesson's program: how fast the kernels are, compared with cuBLAS; what the
/// watched lab reports about them; and the order of operations of the steps for Hopper, which shows
/// which warpgroup waits for what.
#pragma once

#include <cstdint>
#include <vector>

#include "04_tiled_matmul/src/backend.hpp"
#include "common/cli/table.hpp"
#include "common/cli/timelines.hpp"
#include "common/lab/trace.hpp"

namespace fa::tiled {

/// Times the kernels of a group, interleaved, cuBLAS first where it computes the same.
/// @param size m, n and k
/// @return a row for each kernel: time, rate, percentages of the peak and of cuBLAS, and the
///         resources of a block
/// @throws std::runtime_error when the device reports an error
std::vector<cli::Measurement> time_kernels(const Backend& backend, const Group& group,
                                           std::int64_t size);

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
std::vector<Shape<3>> watched_sizes(const Tiles& tiles);

/// Runs a kernel of the backend "watched" and watches it; none where this build has no watched lab.
/// @param sizes  m, n and k of the problems; the first one's accesses are counted
std::optional<lab::Trace> trace(const Group& group, const Kernel& kernel,
                                const std::vector<Shape<3>>& sizes);

/// The sizes of a matmul A B.
struct MatmulSizes {
  std::int64_t m, n, k;
};

/// Whose operations are shown: two tiles of C, with 8 steps along k each.
constexpr MatmulSizes kDrawn{128, 512, 512};

/// What the lab records of a step that computes A B.
/// @param step of its group "mma", for Hopper and without clusters
/// @throws std::runtime_error when the step does not compute in the lab
cli::RecordedStep recorded(const Backend& backend, const Kernel& step);

/// Prints the order of operations of the steps for Hopper without clusters.
void show_operations(const Backend& backend, const cli::TimelineOptions& options);

}  // namespace fa::tiled
