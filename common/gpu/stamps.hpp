/// @file
/// Stamps: when a warp came to the events that a timeline shows, by the clock of its SM. A build
/// with FA_STAMPS has them in the wrappers of hopper.cuh, and where a kernel marks with FA_STAMP()
/// which matmul it issues; every other build compiles them to nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace fa {

/// What a stamp marks. A wait has two: the second one is kEnd.
enum class StampKind : std::uint32_t {
  kNone,
  kBlock,           ///< fence_barrier_init(): a block begins
  kIssueScores,     ///< a kernel's mark: both operands are read by rows
  kIssueByColumns,  ///< a kernel's mark: the right operand is read by columns
  kIssueOutput,     ///< a kernel's mark: the left operand is in registers
  kCommit,          ///< wgmma_commit()
  kWaitBarrier,     ///< Mbarrier::wait(); the detail is the barrier's address
  kWaitNamed,       ///< named_barrier_wait()
  kWaitMatmuls,     ///< wgmma_wait(); the detail is the number of groups that may be in flight
  kWaitStores,      ///< bulk_wait(), bulk_wait_read()
  kWaitCounter,     ///< load_acquire()
  kEnd,             ///< of the wait that has begun
  kLoad,            ///< tma_load(); the detail names barrier and tensor
  kLoadBytes,       ///< bulk_load(); the detail is the barrier's address
  kStore,           ///< tma_store(); the detail names the tensor
  kStoreFloats      ///< bulk_store(), bulk_add()
};

/// One stamp: `what` has the kind in its lowest 8 bits and the detail above.
struct Stamp {
  int warp = 0;             ///< of the block
  std::uint32_t clock = 0;  ///< cycles of the SM
  std::uint32_t what = 0;   ///< see there

  /// @{ The parts of `what`. Barriers and tensors are numbers that tell them apart.
  StampKind kind() const { return static_cast<StampKind>(what & 0xff); }
  std::uint32_t detail() const { return what >> 8; }
  std::uint32_t barrier() const { return detail() & 0x7fff; }
  std::uint32_t tensor() const { return detail() >> 15; }
  /// @}
};

}  // namespace fa
