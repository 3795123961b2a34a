/// @file
/// What the warps of a kernel do one after the other, recorded while the lab runs it: copies,
/// barriers, wgmma, and the arithmetic between them. The lab has no clock: a record has an order
/// and no times.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/lab/thread.hpp"

namespace fa::lab {

struct BulkCopy;

/// Something that a warp does. Lane 0 speaks for its warp; arrivals and copies are recorded for
/// any lane.
struct Step {
  /// What it is.
  enum class Kind {
    kWork,          ///< arithmetic: exponentials, exchanges
    kInit,          ///< an mbarrier, for so many arrivals
    kArrive,        ///< at an mbarrier, which is to expect bytes
    kWait,          ///< at an mbarrier, until so many phases have ended
    kLoad,          ///< issues a copy that reports to an mbarrier
    kStore,         ///< issues a copy to global memory
    kAdd,           ///< adds floats there by atomics: so many bytes
    kWrite,         ///< writes there with its own stores: so many bytes
    kLook,          ///< reads a flag in global memory, and waits for its value
    kCommitStores,  ///< closes a group of bulk stores
    kWaitStores,    ///< for all groups but the youngest to be read
    kWaitArrivals,  ///< for the same to be in global memory
    kMeet,          ///< __syncthreads()
    kNamedArrive,   ///< at a named barrier, without waiting
    kNamedWait,     ///< at a named barrier, until all have arrived
    kWgmma,         ///< issues a wgmma
    kCommit,        ///< closes a group of wgmma
    kWaitWgmma      ///< for all groups but the youngest
  };
  Kind kind = Kind::kWork;
  int barrier = 0;                ///< which: mbarriers are counted, or its number
  std::int64_t bytes = 0;         ///< of a copy, a store; that an arrival adds to those expected
  int tensor = 0;                 ///< of a copy: counted by first appearance; -1 of a run
  int count = 0;                  ///< arrivals, phases, threads, or groups left
  int columns = 0;                ///< n of a wgmma of 64 x n x 16
  bool from_registers = false;    ///< its left operand
  bool by_columns = false;        ///< its right operand: neighbours in memory are of a row
  bool adds = false;              ///< the copy, floats to a sum
  std::int64_t exponentials = 0;  ///< of a lane
  std::int64_t exchanges = 0;     ///< of the warp's lanes: shuffles and votes
};

/// What the warps of a block have done, in their order.
struct BlockRecord {
  std::vector<std::vector<Step>> warps;  ///< steps of each

  /// The warps with a step of a kind.
  std::set<std::size_t> warps_with(Step::Kind kind) const {
    std::set<std::size_t> found;
    for (std::size_t w = 0; w < warps.size(); ++w) {
      for (const Step& step : warps[w]) {
        if (step.kind == kind) found.insert(w);
      }
    }
    return found;
  }
};

/// Records what some work launches. Its blocks run one after the other, and the lab says that it
/// has one SM.
/// @param work launches kernels of the machine "lab"
/// @return its blocks, in their order
/// @throws what the work throws
/// @throws std::logic_error while another record is made
std::vector<BlockRecord> record(const std::function<void()>& work);

/// Collects the steps; for the lab.
class Recorder {
 public:
  /// A block begins.
  void block_begins(std::size_t warps);
  /// A warp does something. Arithmetic since its last step comes first.
  void add(std::size_t warp, const Step& step);
  /// Lane 0 computes an exponential.
  void exponential(std::size_t warp) { ++work_[warp].exponentials; }
  /// The lanes of a warp exchange something.
  void exchange(std::size_t warp) { ++work_[warp].exchanges; }
  /// Lane 0 adds floats to global memory or stores there (kAdd, kWrite), and so do the others: so
  /// many bytes in all.
  void change(std::size_t warp, Step::Kind kind, std::int64_t bytes);
  /// The number of an mbarrier of this block.
  int number_of(const void* barrier);
  /// The number of a tensor.
  int tensor_of(const void* data);
  /// All blocks so far; the recorder is empty afterwards.
  std::vector<BlockRecord> take();

 private:
  void flush(std::size_t warp);
  std::vector<BlockRecord> blocks_;
  // Of each warp, since its last step: arithmetic, and bytes that were added or stored in between,
  // which its kind says.
  std::vector<Step> work_;
  std::vector<const void*> barriers_, tensors_;
};

/// The recorder of all launches; null without one.
extern Recorder* recorder;

/// @name What the engine reports; nothing without a recorder
/// @{

/// A step of any lane.
void record_step(const Thread& thread, Step::Kind kind, int count = 0, int barrier = 0);
/// A step that all lanes of a warp do: counted once.
inline void record_for_warp(const Thread& thread, Step::Kind kind, int count = 0, int barrier = 0) {
  if (recorder != nullptr && thread.lane == 0) record_step(thread, kind, count, barrier);
}
/// A step at an mbarrier.
void record_mbarrier(const Thread& thread, Step::Kind kind, const void* barrier, int count,
                     std::int64_t bytes = 0);
/// A copy. Loads report to an mbarrier; for stores it is null.
void record_copy(const Thread& thread, Step::Kind kind, const BulkCopy& copy, const void* barrier);

/// exp2_approx()
inline void note_exponential() {
  if (recorder != nullptr && current->lane == 0) {
    recorder->exponential(static_cast<std::size_t>(current->number) / kWarpSize);
  }
}
/// atomicAdd() and store2(): kAdd or kWrite, and the bytes of a lane.
inline void note_change(Step::Kind kind, std::int64_t bytes) {
  if (recorder != nullptr && current->lane == 0) {
    recorder->change(static_cast<std::size_t>(current->number) / kWarpSize, kind,
                     bytes * kWarpSize);
  }
}
/// load_acquire(), and atomicAdd() or atomic_add_acquire() of 0, which only read a value.
inline void note_look() {
  if (recorder != nullptr) record_step(*current, Step::Kind::kLook);
}
/// @}

/// @name A record in words, without times: operations.cpp
/// @{

/// record() without the blocks that do not multiply: those of kernels before and after.
std::vector<BlockRecord> record_matmuls(const std::function<void()>& work);

/// The cycles that the matmuls of some blocks take, one block after the other on an SM, at the peak
/// of its tensor cores: 4096 FLOPs a cycle in 16 bits (NVIDIA's white paper on the H100).
double peak_cycles(const std::vector<BlockRecord>& blocks);

/// The steps of blocks in words, a line for each. What a warp does several times in a row stands
/// there once, below "4 times"; warps that do the same, and blocks that follow each other and do
/// the same, stand there together. Of a warp that does most of what the first one of its warpgroup
/// does only the difference is said.
///
/// An mbarrier has the name of what copies bring there most often ("K", "A, B"); or of what a
/// warp that waited there copies next ("room for K"); or its number in the block.
/// @param tensors names, by Step::tensor
std::string operations_text(const std::vector<BlockRecord>& blocks,
                            const std::vector<std::string>& tensors);
/// @}

}  // namespace fa::lab
