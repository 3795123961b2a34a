/// @file
/// Barriers without a state in memory: __syncthreads(), the 16 named barriers of a block, and the
/// barrier of a cluster.
#pragma once

#include <array>
#include <string>

#include "common/lab/lab_thread.hpp"

namespace fa::lab {

/// __syncthreads() of one block: waits for all threads that have not ended.
class BlockBarrier {
 public:
  /// A block of so many threads begins.
  void begin(int threads) {
    alive_ = threads;
    arrived_ = 0;
  }
  /// A thread arrives, and waits.
  void sync(Threads& threads, LabThread& thread, const SourceLocation& location);
  /// A thread of the block has ended.
  void thread_ended(Threads& threads, int rank);
  /// Threads that have not ended.
  int alive() const { return alive_; }

 private:
  void release(Threads& threads, int rank);
  int alive_ = 0, arrived_ = 0;
};

/// A named barrier.
struct NamedBarrier {
  int threads = 0;       ///< of a phase, as the first thread said
  int arrived = 0;       ///< of these
  SourceLocation first;  ///< where the first one arrived
};

/// The named barriers of one block.
class NamedBarriers {
 public:
  /// Forgets all arrivals.
  void clear() { barriers_ = {}; }
  /// A thread arrives at a barrier 0 to 15, of whose phases each has `count` threads, a multiple of
  /// 32. With `waits` it waits for the end of the phase.
  /// @throws std::runtime_error for other numbers, and if threads disagree about the count
  void arrive(Threads& threads, LabThread& thread, int id, int count, bool waits,
              const SourceLocation& location);
  /// "named barrier 2, file:line, with 32 of 64 threads there", for a thread that waits in a line.
  std::string text_of(const NamedBarrier& barrier, const SourceLocation& where) const;

 private:
  NamedBarrier& checked(int id, int count, const SourceLocation& location);
  std::array<NamedBarrier, 16> barriers_;
};

/// The barrier of all threads of a cluster that have not ended.
class ClusterBarrier {
 public:
  /// A cluster of so many threads begins.
  void begin(int threads) {
    alive_ = threads;
    arrived_ = 0;
  }
  /// A thread arrives.
  /// @throws std::runtime_error if arrivals and waits do not alternate
  void arrive(Threads& threads, LabThread& thread, const SourceLocation& location);
  /// A thread waits for the phase at which it has arrived; see arrive().
  void wait(LabThread& thread, const SourceLocation& location) const;
  /// A thread of the cluster has ended.
  void thread_ended(Threads& threads, LabThread& thread);
  /// Threads that have not ended.
  int alive() const { return alive_; }
  /// Those of them that have arrived.
  int arrived() const { return arrived_; }

 private:
  void end_phase(Threads& threads);
  int alive_ = 0, arrived_ = 0;
};

}  // namespace fa::lab
