/// @file
/// Happens-before in a watched launch: after which accesses to memory a thread is ordered. Vector
/// clocks for the threads of a block and for asynchronous operations, and the order of blocks.
#pragma once

#include <algorithm>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>
#include <cstdint>
#include <cstring>
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
  std::uint32_t site : 28;     ///< see Sites
  bool atomic : 1;             ///< with atomics of other threads it is no race
  bool is_volatile : 1;
  bool of_block : 1;     ///< atomic to threads of its block only
  bool needs_value : 1;  ///< what an atomic write stores depends on what was there

  /// No access.
  Access() : Access(0, 0, 0, 0) {}
  /// With the fields of these names.
  Access(std::uint32_t by, std::uint32_t since, std::uint32_t when, std::uint32_t at,
         bool is_atomic = false, bool through_volatile = false)
      : thread(by),
        interval(since),
        time(when),
        site(at & 0xfffffff),
        atomic(is_atomic),
        is_volatile(through_volatile),
        of_block(false),
        needs_value(false) {}
};
static_assert(sizeof(Access) == 16, "each piece of memory has four");
/// Whether all of it is the same.
inline bool operator==(const Access& a, const Access& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;  // no padding
}

/// A vector clock: of each thread and agent, up to which time the clock's owner is ordered after
/// it. Copies share their times until one of them changes: the lanes of a warp mostly agree.
class VectorClock {
 public:
  /// The time for one of them.
  std::uint32_t at(std::size_t index) const {
    return times_ && index < times_->of.size() ? times_->of[index] : 0;
  }
  /// Sets the time for one of them, if it is later.
  void raise(std::size_t index, std::uint32_t time) {
    std::vector<std::uint32_t>& times = own_times();
    if (times.size() <= index) times.resize(index + 1);
    times[index] = std::max(times[index], time);
  }
  /// Takes the later time for each, of this clock and another, from one of them on.
  void join(const VectorClock& other, std::size_t first = 0);

 private:
  // Not std::shared_ptr: where a kernel's file uses it, too, the linker may take that file's
  // functions, which report their accesses as the kernel's.
  struct Times : boost::intrusive_ref_counter<Times, boost::thread_unsafe_counter> {
    std::vector<std::uint32_t> of;
  };
  std::vector<std::uint32_t>& own_times() {
    if (!times_) times_ = new Times;
    if (times_->use_count() > 1) times_ = new Times(*times_);
    return times_->of;
  }
  boost::intrusive_ptr<Times> times_;
};

/// By the first thread of each block.
using BlockClocks = std::unordered_map<std::uint32_t, VectorClock>;

/// What is known of the order of the threads of the block, or cluster, that runs.
struct OrderOfBlock {
  std::uint32_t block_ = 1;                         // number of thread 0
  std::uint32_t interval_ = 1;                      // it is in
  std::vector<std::uint32_t> times_;                // of each thread
  std::vector<std::uint32_t> first_uses_;           // of each line: the interval; 0: none yet
  std::vector<VectorClock> clocks_;                 // of each thread
  VectorClock all_;                                 // joined into each of them
  std::vector<std::vector<std::uint32_t>> fences_;  // of each thread
  std::unordered_map<const void*, std::uint32_t> agents_;
  /// What its arrivals have done.
  struct Barrier {
    VectorClock coming, ended;  // of the arrivals in this phase; in all that have ended
  };
  std::unordered_map<const void*, Barrier> barriers_;
  /// What a thread did before a fence, for threads of its block and, of a __threadfence(), for
  /// others.
  struct Fenced {
    VectorClock block, others;
    BlockClocks blocks;  // what it was ordered after in other blocks, for others
  };
  /// The clocks of flags that a thread has read, which its next fence applies.
  struct Pending {
    VectorClock block;
    BlockClocks others;
    BlockClocks polled;          // of these: flags that it has looked at until they were set
    const void* flag = nullptr;  // the last one
  };
  std::unordered_map<std::uint32_t, Fenced> at_fence_;  // of each thread, its last one
  std::unordered_map<std::uint32_t, Pending> pending_;  // of each thread
  BlockClocks met_;                                     // read before all met, for any fence
  BlockClocks order_of_block_, order_of_copies_;        // applied to it, and to its copies by TMA
  BlockClocks behind_flags_;  // of flags that it has read, whether or not a fence came behind
  // Of each thread, since the last barrier: whether it called __threadfence(), or used data.
  std::vector<bool> fenced_, used_;
  // All had fenced when they met, and used only flags until the last barrier: as in CUB's barrier of
  // a grid.
  bool all_fenced_ = false;
};

/// The order of accesses. A thread's time advances at each operation that orders others after it:
/// at __syncthreads() all, at __syncwarp() the lanes of its mask, at an mbarrier or a named barrier
/// those that wait there, and by a fence and a flag those that read the flag.
///
/// Agents are asynchronous operations: copies and wgmma. Threads and agents of all blocks of a
/// launch have numbers, counted from 1. The blocks of a cluster count as one large block, except
/// for __syncthreads().
class Order : private OrderOfBlock {
 public:
  /// Another block runs: exchanges what is known of the running one for what is known of that.
  void exchange(OrderOfBlock& other) { std::swap(static_cast<OrderOfBlock&>(*this), other); }

  /// @name Threads and agents
  /// @{

  /// The number of a thread of this block or cluster: of its Thread::place.
  std::uint32_t id(std::size_t thread) const { return block_ + static_cast<std::uint32_t>(thread); }
  /// The number of the running thread.
  std::uint32_t running() const { return id(static_cast<std::size_t>(current->place)); }
  /// The number of an agent of this block: a barrier for copies to shared memory, a thread for
  /// stores, a warp for wgmma.
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
  /// Whether that launch was on another stream, and nothing orders this one after it.
  bool of_unordered_stream(const Access& access) const;
  /// Whether the host has waited for no launch since the one that made an access.
  bool host_has_not_waited_for(const Access& access) const;
  /// Whether a thread or agent is of another block or cluster.
  bool of_other_block(std::uint32_t id) const { return cluster_of(id) != cluster_of(block_); }
  /// @}

  /// @name Asking
  /// @{

  /// An access that the running thread makes now.
  Access now(std::uint32_t site, bool atomic, bool is_volatile = false) const {
    return {running(), interval_, times_[static_cast<std::size_t>(current->place)],
            site,      atomic,    is_volatile};
  }
  /// An access of an agent, in one of its phases or groups.
  Access of_agent(std::uint32_t agent, std::uint32_t when, std::uint32_t site) const {
    return {agent, interval_, when, site};
  }
  /// Whether a thread of this block is ordered after an earlier access.
  bool ordered(const Access& before, std::uint32_t thread) const {
    if (before.thread == 0) return true;
    if (of_other_launch(before)) {
      if (of_unordered_stream(before)) return false;
      return before.interval < in_flight_ || ordered_after(thread, block_ + kPreviousGrids, 1);
    }
    if (before.thread == thread) return true;
    if (of_other_block(before.thread)) {
      return ordered_after(copy_runs_ ? order_of_copies_ : order_of_block_, before);
    }
    if (passed_barrier(before) && !is_agent(before.thread)) return true;
    return ordered_after(thread, before.thread, before.time);
  }
  /// What the running thread is ordered after now, for a later question.
  struct Snapshot {
    std::uint32_t interval = 0;
    VectorClock clock;
  };
  Snapshot snapshot() const {
    Snapshot result{interval_, clocks_[static_cast<std::size_t>(current->place)]};
    result.clock.join(all_);
    return result;
  }
  /// Whether a thread of this block was ordered after an earlier access in it at that moment.
  bool ordered(const Access& before, const Snapshot& then) const {
    if (before.interval < then.interval && !is_agent(before.thread)) return true;
    return then.clock.at(index_of(before.thread - block_)) >= before.time;
  }
  /// Whether a __syncthreads() lies between an access and now. Agents do not arrive at it.
  bool passed_barrier(const Access& before) const { return before.interval < interval_; }
  /// Whether a thread of this block is ordered after what another or an agent did until a time.
  bool ordered_after(std::uint32_t thread, std::uint32_t other, std::uint32_t time) const {
    if (thread == other) return true;
    const std::size_t index = index_of(other - block_);
    return all_.at(index) >= time || clocks_[thread - block_].at(index) >= time;
  }
  /// Whether what has arrived at a barrier is ordered after an access in this block.
  bool arrivals_ordered_after(const void* barrier, const Access& before) const {
    if (passed_barrier(before)) return true;
    const auto found = barriers_.find(barrier);
    const std::size_t index = index_of(before.thread - block_);
    return all_.at(index) >= before.time ||
           (found != barriers_.end() && found->second.coming.at(index) >= before.time);
  }
  /// Notes that a thread of this block executes a line.
  void uses_line(std::uint32_t site) {
    if (first_uses_.size() <= site) first_uses_.resize(site + 1);
    if (first_uses_[site] == 0) first_uses_[site] = interval_;
  }
  /// The interval in which each line was first executed by this block; 0: not yet.
  const std::vector<std::uint32_t>& first_uses() const { return first_uses_; }
  /// Whether any lane of a thread's warp is.
  bool warp_ordered_after(std::uint32_t thread, std::uint32_t other, std::uint32_t time) const;
  /// Whether a counter orders this block after an access in another block. Its copies by TMA may
  /// not be.
  bool ordered_by_counter(const Access& before) const {
    return ordered_after(order_of_block_, before);
  }
  /// Whether this block has read a flag that was set behind an access in another block and a fence;
  /// or the running thread one behind an access in its block. Without a fence of its own it is not
  /// ordered after the access.
  bool has_read_flag_after(const Access& before) const {
    if (of_other_block(before.thread)) return ordered_after(behind_flags_, before);
    const auto pending = pending_.find(static_cast<std::uint32_t>(current->place));
    return pending != pending_.end() &&
           pending->second.block.at(index_of(before.thread - block_)) >= before.time;
  }
  /// When a thread first called fence_async_proxy() at or after a time; 0: never.
  std::uint32_t fence_after(std::uint32_t thread, std::uint32_t time) const;
  /// @}

  /// @name What happens, in a launch and to the running thread. See Observer.
  /// @{
  /// A launch of blocks of so many threads, in clusters of so many blocks. With `with_pdl` it may
  /// begin before the launch before it has ended.
  void launch_begins(std::int64_t threads, int cluster, bool with_pdl, std::uint64_t stream);
  /// The host waits for a stream; 0: for all of them.
  void synchronized(std::uint64_t stream);
  /// The same for what was launched before a time(), as by an event.
  void waited_until(std::uint64_t stream, std::uint32_t time);
  /// After all accesses until now.
  std::uint32_t time() const { return last_interval_ + 1; }
  /// A block, or a cluster.
  void block_begins();
  /// __syncwarp() of a mask; `first` is lane 0.
  void warp_meets(std::size_t first, unsigned mask);
  /// __syncthreads().
  void block_meets();
  /// It arrives at a barrier.
  void releases(const void* barrier);
  /// tcgen05_commit() arrives at one for it: it releases the order after agents only.
  void commits(const void* barrier);
  /// A barrier's phase is complete.
  void phase_ends(const void* barrier);
  /// It has waited at a barrier.
  void acquires(const void* barrier);
  /// __threadfence(), or __threadfence_block(); `arrived`: no bulk store of it is in flight.
  void memory_fenced(bool arrived, bool for_all_blocks);
  /// It reads or changes a flag: any memory that it uses atomically. `of_block`: only for threads
  /// of its block.
  void uses_flag(const void* flag, const AtomicUse& use, bool of_block);
  /// Whether a volatile store is to set a flag, as behind a fence of its own.
  bool all_fenced() const {
    return all_fenced_ && !used_[static_cast<std::size_t>(current->place)];
  }
  /// It uses memory that is no flag.
  void uses_data() { used_[static_cast<std::size_t>(current->place)] = true; }
  /// grid_dependency_wait()
  void grid_waited();
  /// fence_async_proxy().
  void async_fenced();
  /// fence_async_proxy_global().
  void async_fenced_globally() { order_of_copies_ = order_of_block_; }
  /// A thread of this block has waited for phases or groups of an agent.
  void async_ends(std::uint32_t thread, std::uint32_t agent, std::uint32_t when) {
    clocks_[thread - block_].raise(index_of(agent - block_), when);
  }
  /// Whether a copy by TMA makes the accesses that come now.
  void copy_runs(bool runs) { copy_runs_ = runs; }
  /// @}

 private:
  static constexpr std::uint32_t kFirstAgent = 8 * kMaxThreads;  // as many blocks in a cluster
  static constexpr std::uint32_t kNumbers = 16 * kMaxThreads;    // of a cluster
  // The agent of all launches before this one that may be in flight.
  static constexpr std::uint32_t kPreviousGrids = kFirstAgent;
  // Threads come first, then agents.
  std::size_t index_of(std::uint32_t number) const {
    return number < kFirstAgent ? number : number - kFirstAgent + threads_;
  }
  static bool ordered_after(const BlockClocks& clocks, const Access& before) {
    const std::uint32_t number = in_cluster(before.thread);
    const auto of = clocks.find(before.thread - number);
    return of != clocks.end() && of->second.at(number) >= before.time;
  }
  void release(std::size_t thread, VectorClock& to) {
    to.join(clocks_[thread]);
    to.raise(thread, times_[thread]++);
  }

  std::uint32_t last_interval_ = 1, first_interval_ = 1;  // of all blocks; of this launch
  std::uint32_t in_flight_ = 1;   // of the first launch that may be in flight
  std::uint32_t next_block_ = 1;  // the number of its thread 0
  bool copy_runs_ = false;

  // Launches on different streams: the first interval and the stream of each that may matter; all
  // before `joined_` are ordered before what is launched now, and those on a stream before its
  // `waited_for_`.
  struct OnStream {
    std::uint32_t first_interval;
    std::uint64_t stream;
  };
  std::vector<OnStream> launches_;
  const OnStream* launch_of(const Access& access) const;
  std::uint32_t joined_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> waited_for_;

  std::size_t threads_ = 0;     // of a block or cluster
  std::uint32_t of_block_ = 1;  // of these
  // For each flag what its writers did before a fence, by the first thread of their block.
  std::unordered_map<const void*, std::unordered_map<std::uint32_t, Fenced>> raised_by_;
};

}  // namespace fa::lab
