/// @file
/// Checks the order of tcgen05 operations on tensor memory.
///
/// They are asynchronous: neither the order of a thread's instructions nor a barrier alone orders
/// them. What does, by the PTX ISA 9.0, section 9.7.16.6, "Memory Consistency Model for 5th
/// generation of TensorCore operations", and those on the instructions:
/// - A tcgen05_mma() follows another one of the same thread on the same accumulators, with the same
///   shape (9.7.16.6.2, "Pipelined tcgen05 Instructions").
/// - A warp's loads and stores end at its tcgen05_wait_ld() and tcgen05_wait_st() ("tcgen05.wait").
/// - A thread's tcgen05_mma() end at the arrival of its tcgen05_commit(), which implies
///   tcgen05_fence_before() ("tcgen05.commit").
/// - What has ended is ordered before operations of other threads by tcgen05_fence_before(), a
///   barrier, and tcgen05_fence_after() there (its canonical patterns, and "tcgen05.fence").
///   tcgen05_dealloc() is synchronous (9.7.16.6.1) and needs no fence before it.
/// - A tcgen05_mma() is ordered behind a wait, for a copy of its operand for instance, by a
///   tcgen05_fence_after() between them (9.7.16.6.3). RaceCheck asks for it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/lab/observer.hpp"
#include "common/lab/watched.hpp"

namespace fa::lab {

/// The check, of all blocks of a cluster.
class TensorCheck {
 public:
  /// No operations.
  explicit TensorCheck(Watched& watched) : w_(&watched) {}
  /// A block or cluster begins.
  void block_begins();
  /// @{ See Observer.
  void allocated(int column, int columns);
  void uses(const TensorUse& use, std::uint32_t site);
  void waited(bool stores);
  void fenced(bool before);
  /// @}
  /// What the running thread's last tcgen05_fence_after() came after.
  const Order::Snapshot& last_fence() const { return threads_[this_place()].after; }

 private:
  struct Use {
    TensorUse what;
    std::uint32_t thread = 0;  // its place
    std::uint32_t site = 0;
    Access access;            // of a matmul, by its agent
    std::uint64_t ended = 0;  // of others: when the warp had waited for it; 0: it has not
  };
  // A column in a quarter of the lanes: numbers of its last write, 0 for none, and of what has read
  // it since.
  struct Cell {
    std::uint32_t write = 0;
    std::vector<std::uint32_t> reads;
  };
  struct OfThread {
    std::vector<std::pair<std::uint64_t, Access>> before;  // its fences
    Order::Snapshot after;                                 // at its last one
  };
  struct OfWarp {
    std::vector<std::uint32_t> loads, stores;  // that it has not waited for
  };
  Cell& cell(int quarter, int column);
  std::string missing(const Use& before, const Use& now) const;
  std::string name_of(const Use& use) const;
  bool report(const Use& before, const Use& now, int quarter, int column);

  Watched* w_;
  std::vector<Cell> cells_;  // of each block
  std::vector<Use> uses_;    // all; the first is none
  std::vector<OfThread> threads_;
  std::vector<OfWarp> warps_;
  std::uint64_t time_ = 0;  // counts waits and fences
};

}  // namespace fa::lab
