/// @file
/// Checks of what only Hopper has: mbarriers that copies must see, waits that a phase may overtake,
/// registers that a wgmma or a tcgen05_ld() uses, and
/// shared memory of another block that may have ended.
#pragma once

#include <unordered_map>
#include <vector>

#include "common/lab/watched.hpp"

namespace fa::lab {

/// Whether threads and copies see that an mbarrier was initialised.
class MbarrierCheck {
 public:
  /// No mbarriers.
  explicit MbarrierCheck(Watched& watched) : w_(&watched) {}
  /// A block or cluster begins.
  void block_begins() { states_.clear(); }
  /// The running thread initialises one.
  void made(const void* barrier, std::uint32_t site);
  /// It calls fence_barrier_init().
  void fenced();
  /// It uses one.
  void used(const void* barrier, bool by_copy, std::uint32_t site);

 private:
  struct State {
    Access made;
    bool fenced = false;  // is visible to copies
  };
  Watched* w_;
  std::unordered_map<const void*, State> states_;
};

/// Waits at mbarriers. A wait knows a phase by its parity: a thread that looks only after the next
/// phase has ended, too, waits for ever. So the next phase must need an arrival that comes after
/// the thread has seen its own. Lanes of a warp need not leave a wait together.
class PhaseCheck {
 public:
  /// No waits.
  explicit PhaseCheck(Watched& watched) : w_(&watched) {}
  /// A block or cluster begins.
  void block_begins() { states_.clear(); }
  /// The running thread has seen the end of a phase.
  void seen(const void* barrier, std::uint32_t phase, std::uint32_t site);
  /// A phase ends with what the running thread does.
  void ends(const void* barrier, std::uint32_t phase, std::uint32_t site);

 private:
  // Of a barrier: its last phase that has ended, by what line, and who has seen it.
  struct State {
    std::uint32_t phase = 0, site = 0;
    std::vector<Access> seen;
  };
  void report(const Access& wait, std::uint32_t next);
  Watched* w_;
  std::unordered_map<const void*, State> states_;
};

/// Registers that a wgmma or a tcgen05_ld() in flight has.
class RegisterCheck {
 public:
  /// No registers.
  explicit RegisterCheck(Watched& watched) : w_(&watched) {}
  /// A block or cluster begins.
  void block_begins() { lent_.assign(w_->threads, {}); }
  /// See Observer::registers_lent().
  void lend(int thread, const void* address, std::size_t size, LentTo as, const void* agent,
            std::uint32_t when, std::uint32_t site);
  /// See Observer::registers_changed().
  void changed(std::uint32_t site, const std::string& message);
  /// See Observer::async_ends().
  void give_back(std::uint32_t thread, const void* agent, std::uint32_t when);
  /// The running thread uses memory that may be such registers.
  void access(const std::byte* address, std::size_t size, bool write, std::uint32_t site) {
    if (!lent_[this_place()].empty()) check(address, size, write, site);
  }

 private:
  void check(const std::byte* address, std::size_t size, bool write, std::uint32_t site);
  struct Lent {
    const std::byte* begin;
    std::size_t size;
    LentTo as;
    const void* agent;
    std::uint32_t when, site;
  };
  Watched* w_;
  std::vector<std::vector<Lent>> lent_;  // of each thread
};

/// Uses of a block's shared memory by others of the cluster: the block must not end before them.
class PeerCheck {
 public:
  /// No uses.
  explicit PeerCheck(Watched& watched) : w_(&watched) {}
  /// A block or cluster begins.
  void block_begins() {
    uses_.assign(w_->cluster, {});
    exited_.assign(w_->cluster, false);
  }
  /// The running thread, or an agent that it started, uses shared memory of the block of a rank.
  void uses(int rank, const Access& use);
  /// All threads of a block have ended.
  void block_exits(int rank);

 private:
  void report(int rank, const Access& use);
  Watched* w_;
  // The last use by each thread and agent, by block.
  std::vector<std::unordered_map<std::uint32_t, Access>> uses_;
  std::vector<bool> exited_;
};

}  // namespace fa::lab
