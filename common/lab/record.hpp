/// @file
/// What the warps of a kernel do one after the other, recorded while the lab runs it: copies,
/// barriers, products, and the arithmetic between them. The lab has no clock; replay.hpp gives the
/// record one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/lab/engine.hpp"

namespace fa::lab {

/// Something that a warp does. Lane 0 speaks for its warp; arrivals and copies are taken down for
/// any lane.
struct Step {
  /// What it is.
  enum class Kind {
    kWork,          ///< arithmetic: exponentials, exchanges
    kInit,          ///< an mbarrier, for so many arrivals
    kArrive,        ///< at an mbarrier, which is to expect bytes
    kWait,          ///< at an mbarrier, until so many phases have ended
    kLoad,          ///< begins a copy that reports to an mbarrier
    kStore,         ///< begins a copy to global memory
    kAdd,           ///< adds floats there by atomics: so many bytes
    kWrite,         ///< writes there with its own stores: so many bytes
    kLook,          ///< asks what stands in global memory, and waits
    kCommitStores,  ///< closes a group of them
    kWaitStores,    ///< for all groups but the youngest to be read
    kWaitArrivals,  ///< for the same to be in global memory
    kMeet,          ///< __syncthreads()
    kNamedArrive,   ///< at a barrier with a number, and goes on
    kNamedWait,     ///< at a barrier with a number, until all have come
    kProduct,       ///< begins a product
    kCommit,        ///< closes a group of products
    kWaitProducts   ///< for all groups but the youngest
  };
  Kind kind = Kind::kWork;        ///< see there
  int barrier = 0;                ///< which: mbarriers are counted, or its number
  std::int64_t bytes = 0;         ///< of a copy, a store; an arrival announces
  int tensor = 0;                 ///< of a copy: counted by first appearance; -1 of a run
  int count = 0;                  ///< arrivals, phases, threads, or groups left
  int columns = 0;                ///< of a product of 64 x 16 and 16 x columns
  bool from_registers = false;    ///< the product's left operand
  bool by_columns = false;        ///< its right one: neighbours are of a row
  bool adds = false;              ///< the copy, floats to a sum
  std::int64_t exponentials = 0;  ///< of a lane
  std::int64_t exchanges = 0;     ///< of the warp's lanes: shuffles and votes
};

/// What the warps of a block have done, in their order.
struct BlockRecord {
  std::vector<std::vector<Step>> warps;  ///< steps of each
};

/// Records what some work launches. Its blocks run one after the other, and the lab says that it
/// has one SM.
/// @param work launches kernels of the machine "lab"
/// @return its blocks, in their order
/// @throws what the work throws
/// @throws std::logic_error while another record is made
std::vector<BlockRecord> record(const std::function<void()>& work);

/// Takes the steps down; for the lab.
class Recorder {
 public:
  /// A block begins.
  void block_begins(std::size_t warps);
  /// A warp does something. Arithmetic since its last step comes first.
  void add(std::size_t warp, const Step& step);
  /// Lane 0 computes an exponential.
  void exponential(std::size_t warp);
  /// Lane 0 adds floats to global memory or stores there, and so do the others.
  /// @param warp  theirs
  /// @param kind  Step::Kind::kAdd or kWrite
  /// @param bytes of all lanes
  void change(std::size_t warp, Step::Kind kind, std::int64_t bytes);
  /// The lanes of a warp exchange something.
  void exchange(std::size_t warp);
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

/// exp2_approx(): counted while a recorder is set.
inline void note_exponential() {
  if (recorder != nullptr && current->lane == 0) {
    recorder->exponential(static_cast<std::size_t>(current->number) / kWarpSize);
  }
}

/// atomicAdd() and store2(): their bytes are counted while a recorder is set.
/// @param kind  Step::Kind::kAdd or kWrite
/// @param bytes of a lane
inline void note_change(Step::Kind kind, std::int64_t bytes) {
  if (recorder != nullptr && current->lane == 0) {
    recorder->change(static_cast<std::size_t>(current->number) / kWarpSize, kind,
                     bytes * kWarpSize);
  }
}

/// load_acquire(), and atomicAdd() or atomic_add_acquire() of 0, which only read a value:
/// taken down while a recorder is set.
inline void note_look() {
  if (recorder == nullptr) return;
  Step step;
  step.kind = Step::Kind::kLook;
  recorder->add(static_cast<std::size_t>(current->number) / kWarpSize, step);
}

}  // namespace fa::lab
