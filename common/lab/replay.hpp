/// @file
/// A record of the lab with a clock: what one SM would take for it if things cost what a few
/// numbers say. A model, not a measurement: it shows what waits for what, not how fast a kernel is.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/lab/record.hpp"

namespace fa::lab {

/// Sub-partitions of an SM. Each has a tensor core and runs every fourth warp.
inline constexpr int kSubPartitions = 4;

/// What things cost, in clock cycles of one SM with four quarters. A warp belongs to the quarter of
/// its number modulo 4, and the warps of a quarter share what it has.
///
/// The numbers are those of a GPU of the Hopper architecture. Source: NVIDIA, CUDA C++ Programming
/// Guide, throughput of arithmetic instructions for compute capability 9.0; where there is none,
/// ours.
struct Costs {
  /// Operations of tensor cores in a cycle, of the whole SM: NVIDIA's white paper on the H100.
  int flops = 4096;
  /// For 32 lanes: 16 results a cycle are 4 of a quarter.
  int exponential = 8;
  /// For 32 lanes, all else that is done with a score: ours. A maximum (2), a multiplication with
  /// addition (1), an addition (1), half a conversion of two numbers (1).
  int rest_of_score = 5;
  /// A shuffle or a vote, of which one waits for another: ours.
  int exchange = 25;
  /// Bytes in a cycle that copies load, and as many that copies, additions and stores write.
  /// 5120 for all SMs (of the A100; NVIDIA's white paper on it), by 132.
  int copied_bytes = 39;
  /// From the beginning of a copy to its landing, beside that; from a look at global memory to its
  /// answer, and from the end of a store to its arrival there: ours.
  int copy_latency = 800;
  /// From the end of a block to the first step of the next one on the SM: ours.
  int next_block = 1000;
  /// Matmuls of a warp that can wait for the tensor cores; before it begins more, it waits itself.
  /// No source says how many: without a limit they are done in the order in which they were begun,
  /// with 1 those of two warps alternate.
  int waiting_matmuls = std::numeric_limits<int>::max();
};

/// A stretch of time.
struct Span {
  /// What is done, or waited for.
  enum class Kind {
    kWork,             ///< arithmetic
    kWaitsForCopy,     ///< at an mbarrier that copies report to
    kWaitsForOthers,   ///< at another barrier
    kWaitsForMatmuls,  ///< its own, or to begin them
    kWaitsForStores,   ///< copies to global memory
    kAdds,             ///< by atomics, to global memory
    kWrites,           ///< there, with its own stores
    kScores,           ///< a matmul whose operands are in shared memory
    kByColumns,        ///< the same; the right one is read by its columns
    kOutput,           ///< a matmul with an operand in registers
    kLoad,             ///< a copy, from its turn to its landing
    kStore,            ///< a copy to global memory, from its turn on
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
  std::vector<Span> matmuls;   ///< on the tensor cores of quarter 0
  std::vector<Span> copies;    ///< in their order
  double tensor_busy = 0;      ///< cycles in which quarter 0 multiplies

  /// Share of the time in which the tensor cores are busy.
  double tensor_share() const { return cycles > 0 ? tensor_busy / cycles : 0; }
};

/// Plays blocks one after the other, as record() returns them, on one SM.
///
/// A quarter's tensor cores do one matmul at a time, first come, first served; of a warp the next
/// one comes as soon as costs.waiting_matmuls allows. Warps that compute at the same time on a
/// quarter share it evenly. Copies come one after the other, each warp's steps too; what is not
/// named in Costs takes no time. A warp that adds by atomics, or stores, waits until its bytes
/// have left.
/// @throws std::runtime_error when warps wait for what never comes: the record is of another
/// kernel, or not whole
Timeline replay(const std::vector<BlockRecord>& blocks, const Costs& costs);

/// The same for what some work launches: of its blocks those that multiply, without kernels before
/// and after. The work prepares and launches kernels of the machine "lab": a persistent grid is as
/// large as the device, which has one SM there.
/// @throws what the work throws
Timeline replayed(const std::function<void()>& work, const Costs& costs);

}  // namespace fa::lab
