/// @file
/// Happens-before in a watched launch: which accesses to memory are over for whom. Vector clocks
/// for the threads of a block and for what runs beside them, and what blocks know of each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/lab/engine.hpp"

namespace fa::lab {

/// One access to memory, as far as its order to others matters.
struct Access {
  std::uint32_t thread = 0;    ///< Order::id() of a thread or agent; 0: none
  std::uint32_t interval = 0;  ///< between two barriers, over all blocks
  std::uint32_t time = 0;      ///< of the thread, or phase or group of the agent
  std::uint32_t site = 0;      ///< see Sites
  bool atomic = false;         ///< with atomics of other threads it is no race
};

/// What a thread knows: of each thread and agent, up to which time everything that it did is over.
class Knowledge {
 public:
  /// The time up to which it knows of one.
  std::uint32_t of(std::size_t index) const { return index < times_.size() ? times_[index] : 0; }
  /// Learns of one more.
  void learn(std::size_t index, std::uint32_t time) {
    if (times_.size() <= index) times_.resize(index + 1);
    times_[index] = std::max(times_[index], time);
  }
  /// Learns all that another knows.
  void join(const Knowledge& other);

 private:
  std::vector<std::uint32_t> times_;
};

/// The order of accesses. A thread's time advances whenever it tells others what it did: at
/// __syncthreads() all, at __syncwarp() the lanes of its mask, at an mbarrier or a named barrier
/// those that wait there, and by a __threadfence() and a counter other blocks.
///
/// Agents are what runs beside the threads: copies and wgmma. Threads and agents of all blocks of a
/// launch have numbers, counted from 1. The blocks of a cluster count as one large block, except
/// for __syncthreads().
class Order {
 public:
  /// @name Who
  /// @{

  /// The number of a thread of this block or cluster: of its Thread::place.
  std::uint32_t id(std::size_t thread) const { return block_ + static_cast<std::uint32_t>(thread); }
  /// The number of the running thread.
  std::uint32_t running() const { return id(static_cast<std::size_t>(current->place)); }
  /// The number of an agent of this block: a barrier for copies to shared memory, a thread for
  /// stores, a warp for products.
  /// @throws std::runtime_error for more than the lab counts
  std::uint32_t agent(const void* address);
  /// The place of a thread in its cluster.
  static std::uint32_t in_cluster(std::uint32_t id) { return (id - 1) % kNumbers; }
  /// The cluster of a thread or agent, counted from 0; or its block, in a launch without clusters.
  static std::uint32_t cluster_of(std::uint32_t id) { return (id - 1) / kNumbers; }
  /// The place of a thread in its block.
  std::uint32_t in_block(std::uint32_t id) const { return in_cluster(id) % of_block_; }
  /// The rank of a thread's block in its cluster.
  std::uint32_t rank_of(std::uint32_t id) const { return in_cluster(id) / of_block_; }
  /// The block of a thread, counted from 0.
  std::uint32_t block_of(std::uint32_t id) const {
    return cluster_of(id) * static_cast<std::uint32_t>(threads_ / of_block_) + rank_of(id);
  }
  /// Whether it is no thread.
  static bool is_agent(std::uint32_t id) { return in_cluster(id) >= kFirstAgent; }
  /// Whether an access was made in an earlier launch.
  bool of_other_launch(const Access& access) const { return access.interval < first_interval_; }
  /// Whether a thread or agent is of an earlier block or cluster.
  bool of_other_block(std::uint32_t id) const { return id < block_; }
  /// @}

  /// @name Asking
  /// @{

  /// An access that the running thread makes now.
  Access now(std::uint32_t site, bool atomic) const {
    return {running(), interval_, times_[static_cast<std::size_t>(current->place)], site, atomic};
  }
  /// An access of an agent, in one of its phases or groups.
  Access of_agent(std::uint32_t agent, std::uint32_t when, std::uint32_t site) const {
    return {agent, interval_, when, site, false};
  }
  /// Whether an earlier access is over for a thread of this block.
  bool ordered(const Access& before, std::uint32_t thread) const {
    if (before.thread == 0) return true;
    if (of_other_launch(before)) {
      return before.interval < in_flight_ || knows(thread, block_ + kPreviousGrids, 1);
    }
    if (before.thread == thread) return true;
    if (of_other_block(before.thread)) {
      return knows(copy_runs_ ? learnt_by_copies_ : learnt_, before);
    }
    if (passed_barrier(before) && !is_agent(before.thread)) return true;
    return knows(thread, before.thread, before.time);
  }
  /// Whether a __syncthreads() lies between an access and now. Agents do not come to it.
  bool passed_barrier(const Access& before) const { return before.interval < interval_; }
  /// Whether a thread of this block knows what another or an agent did until a time.
  bool knows(std::uint32_t thread, std::uint32_t other, std::uint32_t time) const {
    if (thread == other) return true;
    const std::size_t index = index_of(other - block_);
    return all_.of(index) >= time || known_[thread - block_].of(index) >= time;
  }
  /// Whether any lane of a thread's warp knows it.
  bool warp_knows(std::uint32_t thread, std::uint32_t other, std::uint32_t time) const;
  /// Whether this block has learnt by a counter of an access in another block. Its copies by TMA
  /// may not have.
  bool learnt(const Access& before) const { return knows(learnt_, before); }
  /// When a thread first called fence_async_proxy() at or after a time; 0: never.
  std::uint32_t fence_after(std::uint32_t thread, std::uint32_t time) const;
  /// @}

  /// @name What happens, in a launch and to the running thread. See Observer.
  /// @{
  /// A launch of blocks of so many threads, in clusters of so many blocks. With `with_pdl` it may
  /// begin before the launch before it has ended.
  void launch_begins(std::int64_t threads, int cluster, bool with_pdl);
  /// A block, or a cluster.
  void block_begins();
  /// __syncwarp() of a mask; `first` is lane 0.
  void warp_meets(std::size_t first, unsigned mask);
  /// __syncthreads().
  void block_meets();
  /// It comes to a barrier.
  void releases(const void* barrier);
  /// All have come to a barrier.
  void phase_ends(const void* barrier);
  /// It has waited at a barrier.
  void acquires(const void* barrier);
  /// __threadfence(); `arrived`: no bulk store of it is in flight.
  void memory_fenced(bool arrived);
  /// It changes or reads a counter.
  void counts(const void* counter, CounterUse use);
  /// grid_dependency_wait()
  void grid_waited();
  /// fence_async_proxy().
  void async_fenced();
  /// fence_async_proxy_global().
  void async_fenced_globally() { learnt_by_copies_ = learnt_; }
  /// A thread of this block knows that phases or groups of an agent are over.
  void async_ends(std::uint32_t thread, std::uint32_t agent, std::uint32_t when) {
    known_[thread - block_].learn(index_of(agent - block_), when);
  }
  /// Whether a copy by TMA makes the accesses that come now.
  void copy_runs(bool runs) { copy_runs_ = runs; }
  /// @}

 private:
  static constexpr std::uint32_t kFirstAgent = 8 * kMaxThreads;  // as many blocks in a cluster
  static constexpr std::uint32_t kNumbers = 16 * kMaxThreads;    // of a cluster
  // The agent of all launches before this one that may be in flight.
  static constexpr std::uint32_t kPreviousGrids = kFirstAgent;
  // By the first thread of each block.
  using OfBlocks = std::unordered_map<std::uint32_t, Knowledge>;

  // Threads come first, then agents.
  std::size_t index_of(std::uint32_t number) const {
    return number < kFirstAgent ? number : number - kFirstAgent + threads_;
  }
  static bool knows(const OfBlocks& learnt, const Access& before) {
    const std::uint32_t number = in_cluster(before.thread);
    const auto of = learnt.find(before.thread - number);
    return of != learnt.end() && of->second.of(number) >= before.time;
  }
  void tell(std::size_t thread, Knowledge& to) {
    to.join(known_[thread]);
    to.learn(thread, times_[thread]++);
  }

  std::uint32_t interval_ = 1,
                first_interval_ = 1;          // the latter of this launch
  std::uint32_t in_flight_ = 1;               // of the first launch that may be in flight
  std::uint32_t block_ = 1, next_block_ = 1;  // numbers of thread 0
  bool copy_runs_ = false;

  // In this block or cluster.
  std::size_t threads_ = 0;
  std::uint32_t of_block_ = 1;                      // of these
  std::vector<std::uint32_t> times_;                // of each thread
  std::vector<Knowledge> known_;                    // by each thread
  Knowledge all_;                                   // by all of them
  std::vector<std::vector<std::uint32_t>> fences_;  // of each thread
  std::unordered_map<const void*, std::uint32_t> agents_;
  struct Barrier {
    Knowledge coming, ended;  // brought in this phase; in all that have ended
  };
  std::unordered_map<const void*, Barrier> barriers_;

  // Between blocks: what a thread knew at its last __threadfence(), by threads of this block; who
  // has counted after one, by counters; what a thread has seen of that, and will know at its next
  // fence; what this block has learnt by it; and what of that its copies by TMA know.
  std::unordered_map<std::uint32_t, Knowledge> at_fence_;
  std::unordered_map<const void*, std::vector<std::pair<std::uint32_t, Knowledge>>> counted_by_;
  std::unordered_map<std::uint32_t, OfBlocks> seen_;
  OfBlocks learnt_, learnt_by_copies_;
};

}  // namespace fa::lab
