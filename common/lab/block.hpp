/// @file
/// One block, or the blocks of one cluster: its threads, its shared memory, and what its threads
/// synchronise with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/lab/address_space.hpp"
#include "common/lab/barriers.hpp"
#include "common/lab/crash.hpp"
#include "common/lab/lab_thread.hpp"
#include "common/lab/mbarrier.hpp"
#include "common/lab/progress.hpp"
#include "common/lab/tensor_memory.hpp"
#include "common/lab/wgmma.hpp"

namespace fa::lab {

/// Blocks of an observed launch that may run at once, in turns: as many as an H200 has room for,
/// but no more than 32,768 threads.
std::int64_t blocks_at_once(const Launch& launch);

/// What setmaxnreg asks for in a block.
class RegisterBudget {
 public:
  /// A thread asks for so many registers.
  /// `warps` are those of the block or cluster.
  /// @throws std::runtime_error for a number that PTX does not allow
  void set(const LabThread& thread, std::size_t warps, int registers,
           const SourceLocation& location);
  /// Checks that all warps together ask for no more than the block was launched with.
  /// @throws std::runtime_error
  void check(std::size_t warps_of_block, int cluster) const;
  /// Of a thread of each warp, once one asks; 0: this one did not.
  const std::vector<int>& of_warps() const { return of_warps_; }
  /// Forgets all.
  void clear() { of_warps_.clear(); }

 private:
  std::vector<int> of_warps_;
  SourceLocation location_;
};

/// The threads of one block at a time, or of the blocks of one cluster; reused from one to the
/// next. The functions that take a thread are called by this thread while it runs.
class Block {
 public:
  /// Threads that have not begun.
  Block(const Launch& launch, const std::function<void()>& kernel, Workers& workers);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// The block with this index in the grid begins, and the others of its cluster.
  void begin(std::int64_t index);
  /// Runs it to its end, or until its threads only read flags that another block may set.
  /// @param others whether another block can run then; without one it is a deadlock
  /// @return whether it has ended
  /// @throws what the kernel throws; std::runtime_error for a deadlock, a crash, an endless loop
  bool run(bool others);
  /// Whether it is block 0, or has it in its cluster.
  bool is_first() const { return is_first_; }
  /// Whether a thread did more than read flags in the last run().
  bool has_progressed() const { return has_progressed_; }

  /// The dynamic shared memory of a block of the cluster.
  std::byte* shared(int rank) { return blocks_[static_cast<std::size_t>(rank)].shared.get(); }
  /// Blocks of it.
  int cluster() const { return launch_.cluster; }
  /// Its shape.
  Size cluster_size() const { return launch_.cluster_size(); }
  /// Bytes of a block's dynamic shared memory.
  std::size_t shared_bytes() const { return launch_.shared_bytes; }
  /// Where something in a block's dynamic shared memory lies in another block of the cluster.
  /// @throws std::runtime_error for other memory, and where there is no such block
  std::byte* of_peer(const LabThread& thread, const void* pointer, int rank,
                     const SourceLocation& location);

  /// Issues a copy to the block's own shared memory.
  void load(const LabThread& thread, const BulkCopy& copy, void* barrier);
  /// The same to that of several blocks.
  void load_multicast(const LabThread& thread, const BulkCopy& copy, void* barrier,
                      unsigned blocks);
  /// Issues a copy from the block's shared memory.
  void store(LabThread& thread, const BulkCopy& copy);

  /// __syncthreads()
  void sync(LabThread& thread, const SourceLocation& location) {
    of(thread).barrier.sync(threads_, thread, location);
  }
  /// The named barriers of the thread's block.
  NamedBarriers& named(const LabThread& thread) { return of(thread).named; }
  /// setmaxnreg
  void set_registers(const LabThread& thread, int registers, const SourceLocation& location) {
    registers_.set(thread, warps_.size(), registers, location);
  }
  /// See Warp::exchange().
  template <class Last>
  const Deposits& exchange(LabThread& thread, unsigned mask, const void* bytes, std::size_t size,
                           const SourceLocation& location, bool orders, Last last) {
    return warps_[thread.warp()].exchange(threads_, thread, mask, bytes, size, location, orders,
                                          last, [&] { yield_to_warp(thread); });
  }
  /// What a thread's warp has in flight.
  WgmmaQueue& wgmma(const LabThread& thread) { return wgmma_[thread.warp()]; }
  /// What it needs of this block.
  WgmmaQueue::Setting wgmma_setting(const LabThread& thread);

  /// Tensor memory of the thread's block.
  TensorMemory& tensor(const LabThread& thread) { return of(thread).tensor; }

  /// @{ The parts of a block.
  Threads& threads() { return threads_; }
  Mbarriers& mbarriers() { return mbarriers_; }
  ClusterBarrier& cluster_barrier() { return cluster_barrier_; }
  Heartbeat& heartbeat() { return heartbeat_; }
  const RegisterBudget& registers() const { return registers_; }
  /// @}

 private:
  // What each block of the cluster has for itself.
  struct OfBlock {
    std::unique_ptr<std::byte, UnmapMemory> shared;
    BlockBarrier barrier;
    NamedBarriers named;
    TensorMemory tensor;
  };
  OfBlock& of(const Thread& thread) { return blocks_[static_cast<std::size_t>(thread.rank)]; }

  void live(LabThread& thread);
  LabThread& run(LabThread& thread);
  bool run_ready_threads();
  void yield_to_warp(LabThread& thread);
  void end(LabThread& thread);
  void check_end();
  void check_end(const LabThread& thread);
  std::string deadlock() const;
  [[noreturn]] void end_repetition() const;
  std::string where(const LabThread& thread, const std::string& last_load) const;

  const Launch launch_;
  const std::function<void()>& kernel_;
  Progress progress_;
  Heartbeat heartbeat_;
  Repetition repetition_;
  std::vector<OfBlock> blocks_;
  std::vector<Warp> warps_;
  std::vector<WgmmaQueue> wgmma_;  // of each warp
  ClusterBarrier cluster_barrier_;
  RegisterBudget registers_;
  std::exception_ptr error_;
  int alive_ = 0;
  bool is_first_ = false, has_progressed_ = false;
  // Whether ready threads run, in their order; else one that polls.
  bool runs_ready_ = false;
  Threads threads_;  // last but what refers to it: fibers that are unwound may use all else
  Mbarriers mbarriers_{threads_};
};

}  // namespace fa::lab
