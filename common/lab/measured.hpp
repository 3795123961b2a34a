/// @file
/// Timelines of what a GPU did, from stamps: see common/gpu/stamps.hpp.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/gpu/stamps.hpp"
#include "common/lab/timeline.hpp"

namespace fa::lab {

/// What a GPU did in one launch of a kernel.
struct StampedRun {
  std::string kernel;               ///< name of its file
  double milliseconds = 0;          ///< median time without stamps
  double stamped_milliseconds = 0;  ///< with them
  std::vector<Stamp> stamps;        ///< of the last launch, on one SM
};

/// A file of runs: where they are from, and the runs.
struct StampedRuns {
  std::string source;            ///< the GPU, one line
  std::vector<StampedRun> runs;  ///< in their order

  /// The run of a kernel; null when there is none.
  const StampedRun* find(const std::string& kernel) const;
};

/// The text of such a file: lines of words with tabs between.
std::string stamps_text(const StampedRuns& runs);
/// Reads it.
/// @throws std::runtime_error when the file cannot be read, or is another one
StampedRuns read_stamps(const std::filesystem::path& file);

/// The timeline of one SM. A matmul is drawn from its issue, or from the end of the one before it,
/// to the end of the wait for it; a copy from its issue to the end of the first wait at its
/// barrier, a store to the end of the wait for it. What lies between a wait and the next event is
/// work. Tensors are counted by first appearance.
/// @param stamps of the blocks of one kernel, with kernels before and after that have no matmuls
Timeline timeline_of_stamps(std::vector<Stamp> stamps);

}  // namespace fa::lab
