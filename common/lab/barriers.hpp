/// @file
/// Where threads meet: __syncthreads(), the 16 named barriers of a block, the barrier of a cluster,
/// and warp operations, in which each lane of a mask brings some bytes and all of them get all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/lab/engine.hpp"
#include "common/lab/lab_thread.hpp"
#include "common/lab/observer.hpp"

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

/// The exchanges of one warp.
class Warp {
 public:
  /// A lane takes part in an exchange, and waits until all lanes of the mask have that exist and
  /// have not returned. `orders` says that it is a __syncwarp(), which orders memory. `last` is
  /// called with the deposits when all have arrived, before any lane continues; `wait` lets other
  /// threads run until this one is ready.
  /// @return valid until this lane's next exchange but one
  /// @throws std::runtime_error if the lane is not in the mask
  template <class Last, class Wait>
  const Deposits& exchange(Threads& threads, LabThread& thread, unsigned mask, const void* bytes,
                           std::size_t size, const SourceLocation& location, bool orders, Last last,
                           Wait wait) {
    Exchange& now = arrive(thread, mask, bytes, size, location, orders);
    if (!all_there(now, mask)) {
      thread.waits_for = mask;
      thread.state = State::kInExchange;
      thread.location = location;
      wait();
    }
    if (!now.complete) {  // the lane that arrived last; or the first after another has returned
      now.complete = true;
      if (observer != nullptr) observer->warp_meets(thread, now.deposits.lanes, orders);
      last(now.deposits);
      continue_others(threads, thread, mask);
    }
    return now.deposits;
  }
  /// A lane has returned: those that waited for it alone continue.
  void lane_ended(Threads& threads, const LabThread& thread);
  /// Forgets all exchanges.
  /// @param lanes of the warp that exist
  void begin(unsigned lanes) {
    for (const auto& of : exchanges_) {
      of->which.fill(0);
      for (Exchange& exchange : of->exchanges) exchange.clear();
    }
    alive_ = lanes;
  }

 private:
  struct Exchange {
    Deposits deposits;
    SourceLocation first;  // where the first lane arrived
    bool orders = false;
    bool complete = false;  // all lanes are there, and the results

    void clear() {
      complete = false;
      deposits.lanes = 0;
    }
  };
  // Two exchanges alternate: a fast lane may arrive at the next one before a slow lane has read the
  // results of this one.
  struct OfMask {
    unsigned mask;
    std::array<std::uint8_t, kWarpSize> which{};  // of each lane: 0 or 1
    std::array<Exchange, 2> exchanges;
  };
  OfMask& of_mask(unsigned mask) {
    for (const auto& known : exchanges_) {
      if (known->mask == mask) return *known;
    }
    return add(mask);
  }
  OfMask& add(unsigned mask);
  Exchange& arrive(const LabThread& thread, unsigned mask, const void* bytes, std::size_t size,
                   const SourceLocation& location, bool orders);
  bool all_there(const Exchange& exchange, unsigned mask) const {
    return (mask & alive_ & ~exchange.deposits.lanes) == 0;
  }
  static void continue_others(Threads& threads, const LabThread& thread, unsigned mask);

  unsigned alive_ = 0;  // lanes
  std::vector<std::unique_ptr<OfMask>> exchanges_;
};

/// Visits the lanes of a thread's warp.
template <class Visit>
void for_warp(Threads& threads, const Thread& thread, Visit visit) {
  const auto first = static_cast<std::size_t>(thread.place - thread.lane);
  for (std::size_t i = first; i < first + kWarpSize && i < threads.size(); ++i) visit(threads[i]);
}

}  // namespace fa::lab
