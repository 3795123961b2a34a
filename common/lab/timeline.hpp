/// @file
/// Timelines of one SM of a GPU, made from stamps by measured.hpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fa::lab {

/// A stretch of time.
struct Span {
  /// What is done, or waited for.
  enum class Kind {
    kWork,             ///< arithmetic
    kWaitsForCopy,     ///< at an mbarrier that copies report to
    kWaitsForOthers,   ///< at another barrier
    kWaitsForMatmuls,  ///< its own
    kWaitsForStores,   ///< copies to global memory
    kScores,           ///< a matmul whose operands are in shared memory
    kByColumns,        ///< the same; the right one is read by its columns
    kOutput,           ///< a matmul with an operand in registers
    kLoad,             ///< a copy
    kStore,            ///< a copy to global memory
    kBulkAdd           ///< one that adds to a sum, or stores its first part
  };
  Kind kind = Kind::kWork;  ///< see there
  double begin = 0;         ///< in cycles
  double end = 0;           ///< in cycles
  int warp = 0;             ///< whose it is
  int tensor = 0;           ///< of a copy; -1: of a run of bytes
};

/// What happened when.
struct Timeline {
  double cycles = 0;           ///< until the last warp of the last block
  std::vector<double> blocks;  ///< when each block begins
  std::vector<Span> warps;     ///< of all warps, as they end
  std::vector<Span> matmuls;   ///< of the warps of one quarter of the SM
  std::vector<Span> copies;    ///< in their order
};

/// A timeline with its names.
struct NamedTimeline {
  std::string name;                  ///< of the kernel, and what else distinguishes it
  Timeline timeline;                 ///< what happened
  double peak_cycles = 0;            ///< that its matmuls take at the peak of the tensor cores
  std::vector<std::string> tensors;  ///< that are copied, by Span::tensor

  /// Those cycles in percent of the timeline's.
  double percent_of_peak() const {
    return timeline.cycles > 0 ? 100 * peak_cycles / timeline.cycles : 0;
  }
};

/// A warpgroup, which one of its warps stands for; or a warp that adds to global memory for others.
struct Lane {
  std::string name;  ///< "producer", "consumer 0", "adder 0"
  int warp = 0;      ///< its first one
};

/// The warpgroups that only copy, "producers", before those that multiply, "consumers", and warps
/// of others that have copies add, "adders".
std::vector<Lane> lanes_of(const Timeline& timeline);

/// The timelines as a trace file in the Trace Event Format, which Perfetto (ui.perfetto.dev) and
/// chrome://tracing open: a process for each timeline, a thread for the copies, the doings and the
/// matmuls of each warp. A microsecond there is a cycle. The name of a process comes with its
/// cycles and those at the peak.
std::string trace_events(const std::vector<NamedTimeline>& timelines);

}  // namespace fa::lab
