/// @file
/// What a launch reports to an observer: each event that a sanitizer needs (watch.hpp is one).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/lab/crash.hpp"
#include "common/lab/thread.hpp"

namespace fa::lab {

/// An atomic operation, or an access to a `volatile` variable, as far as it orders threads.
struct AtomicUse {
  bool reads = false, writes = false;       ///< both: it changes a value
  bool acquires = false, releases = false;  ///< without a fence behind or before it
};

/// Asynchronous operations that use shared memory.
enum class AsyncUse {
  kCopy,          ///< a copy to it: tma_load(), bulk_load()
  kStore,         ///< a copy from it: tma_store(), bulk_store(), bulk_add()
  kPeerCopy,      ///< a copy from it to another block of the cluster
  kWgmma,         ///< wgmma()
  kTensorMatmul,  ///< tcgen05_mma()
};

/// What has registers of a thread until it is waited for.
enum class LentTo {
  kSums,     ///< a wgmma, which writes them
  kOperand,  ///< a wgmma, which reads them
  kLoaded,   ///< a tcgen05_ld(), which writes them
};

/// A use of columns of a block's tensor memory.
struct TensorUse {
  /// What uses them; kLeft and kSums: a matmul, as its left operand and its accumulators.
  enum class Kind { kLoad, kStore, kLeft, kSums, kFree };
  Kind kind = Kind::kLoad;
  int column = 0, columns = 0;
  int quarter = -1;             ///< of the lanes; -1: all of them
  bool reads = false;           ///< what is there
  bool writes = false;          ///< other values
  const void* agent = nullptr;  ///< of a matmul, and `when`: see Observer::async_uses()
  std::uint32_t when = 0;
};

/// What observes a launch. Launches then use one thread of the operating system. Where a function
/// names no thread, it is about the one that runs.
class Observer {
 public:
  virtual ~Observer() = default;

  /// @name Memory of the device
  /// @{

  /// It was allocated.
  virtual void allocated(const void* memory, std::size_t bytes) = 0;
  /// The host wrote it; or, with `unwritten`, declared it never written.
  virtual void host_wrote(const void* memory, std::size_t bytes, bool unwritten) = 0;
  /// It was freed.
  virtual void released(const void* memory) = 0;
  /// @}

  /// @name Launches, blocks and threads
  /// @{

  /// A kernel of the course will be launched.
  /// @throws std::runtime_error when no compiler for GPUs would take it
  virtual void will_launch(const void* kernel) = 0;
  /// A launch begins.
  virtual void launch_begins(const Launch& launch, std::uint64_t stream) = 0;
  /// The host waits for a stream; 0: for all of them.
  virtual void synchronized(std::uint64_t stream) = 0;
  /// A block begins; its dynamic shared memory is unwritten, as is all other shared memory. The
  /// blocks of a cluster begin together, in order of rank.
  virtual void block_begins(const Thread& first, const void* dynamic,
                            std::size_t dynamic_bytes) = 0;
  /// Another block, or cluster, runs from now on: after the block_begins() of the first one that is
  /// launched, and whenever one waits for others. What is known of one that has ended is forgotten.
  /// @param before null where it has ended
  /// @param now    one that ran before; null for one that begins
  virtual void switches(const void* before, const void* now) = 0;
  /// Whether it can keep the blocks of a launch apart while they run in turns.
  virtual bool can_switch() const = 0;
  /// A thread has ended.
  virtual void thread_ends(const Thread& thread) = 0;
  /// All threads of a block have ended.
  virtual void block_exits(const Thread& last) = 0;
  /// A block, or all blocks of a cluster, have ended.
  virtual void block_ends() = 0;
  /// A launch ends with an error; the memory of its blocks is still there.
  virtual void launch_fails() = 0;
  /// A thread crashed.
  /// @return "file:line" of where it did; empty where it is not known
  virtual std::string crashes(const Thread& thread, const Crash& crash) = 0;
  /// A thread repeats its last load in an endless loop.
  /// @return as crashes()
  virtual std::string spins(const Thread& thread) = 0;
  /// @}

  /// @name Order
  /// @{

  /// All lanes of a mask have reached a warp operation. __syncwarp() orders memory.
  virtual void warp_meets(const Thread& last, unsigned mask, bool orders_memory) = 0;
  /// All threads of a block have reached __syncthreads(), `ended` of them have ended without. They
  /// wait at the line `first`; if not at the `same_line`, some wait at `second`.
  virtual void block_meets(const SourceLocation& first, const SourceLocation& second,
                           bool same_line, int ended) = 0;
  /// An mbarrier is initialised.
  virtual void barrier_made(const void* barrier, const SourceLocation& location) = 0;
  /// The name of an mbarrier, as "full[1]"; empty where none is known.
  virtual std::string barrier_name(const void* barrier) = 0;
  /// fence_barrier_init()
  virtual void barriers_fenced() = 0;
  /// An mbarrier is arrived at, waited for, or used by a copy that begins.
  virtual void barrier_used(const void* barrier, bool by_copy, const SourceLocation& location) = 0;
  /// The thread arrives at a barrier, mbarrier or named: threads that wait for the phase are
  /// ordered after everything that it did so far.
  virtual void releases(const void* barrier) = 0;
  /// The thread has waited for a phase of an mbarrier, counted from 1, or has seen at once that it
  /// had ended.
  virtual void phase_seen(const void* barrier, std::uint32_t phase,
                          const SourceLocation& location) = 0;
  /// A phase of an mbarrier, counted from 1, ends with what the line does.
  virtual void mbarrier_phase_ends(const void* barrier, std::uint32_t phase,
                                   const SourceLocation& location) = 0;
  /// A barrier's phase is complete.
  virtual void phase_ends(const void* barrier) = 0;
  /// The thread has waited at a barrier: it is ordered after all arrivals of its last phase.
  virtual void acquires(const void* barrier) = 0;
  /// fence_async_proxy()
  virtual void async_fenced() = 0;
  /// fence_async_proxy_global()
  virtual void async_fenced_globally() = 0;
  /// grid_dependency_wait()
  virtual void grid_waited() = 0;
  /// __threadfence(), or with less scope __threadfence_block(): orders the thread after those whose
  /// flags it has read, and what it did so far before its next flag. Unless its bulk stores have
  /// `arrived` it orders nothing for others.
  virtual void memory_fenced(bool arrived, bool for_all_blocks) = 0;
  /// @}

  /// @name Accesses
  /// @{

  /// The thread reads or writes.
  virtual void accesses(const void* address, std::size_t size, bool write,
                        const SourceLocation& location) = 0;
  /// A cp.async is queued; until it is complete its destination must not be read.
  virtual void copy_begins(const void* destination, std::size_t size,
                           const SourceLocation& location) = 0;
  /// It is complete.
  virtual void copy_ends(const void* destination, std::size_t size,
                         const SourceLocation& location) = 0;
  /// An asynchronous operation uses pieces of `size` bytes of shared memory from now on. It is
  /// complete at the end of the phase or group `when`, counted from 1, of an agent: a barrier for
  /// copies to shared memory, a thread for stores, a warp for wgmma, a queue for tcgen05.
  virtual void async_uses(const void* agent, AsyncUse use, std::uint32_t when,
                          const std::vector<const void*>& pieces, std::size_t size,
                          const SourceLocation& location) = 0;
  /// The thread, or its whole warp, has waited for the phases or groups of an agent up to `when`.
  virtual void async_ends(const void* agent, std::uint32_t when, bool whole_warp) = 0;
  /// Registers of the thread at a place in the cluster belong to an operation until it is waited
  /// for. `agent` and `when` are those of async_uses().
  virtual void registers_lent(int thread, const void* address, std::size_t size, LentTo as,
                              const void* agent, std::uint32_t when,
                              const SourceLocation& location) = 0;
  /// A thread has changed registers of a wgmma in flight; at which line is not known.
  virtual void registers_changed(const SourceLocation& wgmma, const std::string& message) = 0;
  /// Columns of the block's tensor memory are allocated: what is in them is unwritten.
  virtual void tensor_allocated(int column, int columns) = 0;
  /// The thread, or its warp, uses some.
  virtual void tensor_uses(const TensorUse& use, const SourceLocation& location) = 0;
  /// The thread's warp has waited for its loads, or stores, of tensor memory.
  virtual void tensor_waited(bool stores) = 0;
  /// tcgen05_fence_before() or tcgen05_fence_after()
  virtual void tensor_fenced(bool before) = 0;
  /// tcgen05_commit() arrives at an mbarrier: of what the thread has seen to end, copies and
  /// matmuls, threads that wait for the phase have seen the end, too.
  virtual void commits(const void* barrier) = 0;
  /// A bulk copy of rows of `size` bytes reads, writes or (`atomic`) adds to global memory.
  virtual void moves(const std::vector<const void*>& address, std::size_t size, bool write,
                     bool atomic, const SourceLocation& location) = 0;
  /// @}

  /// What was found so far, for people; empty for nothing.
  virtual std::string found() = 0;
  /// The engine itself has found something; see Finding. `other` has line 0 where there is none.
  virtual void finds(const std::string& kind, const SourceLocation& location,
                     const SourceLocation& other, const std::string& message) = 0;
};
/// The observer of all launches; null without one.
extern Observer* observer;

}  // namespace fa::lab
