/// @file
/// Threads that repeat the same loads: they may wait for a flag that another thread sets.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "common/lab/watched.hpp"

namespace fa::lab {

/// What each thread has read since it last wrote, if that was always the same.
class SpinCheck {
 public:
  /// No loads.
  explicit SpinCheck(Watched& watched) : w_(watched) {}
  /// A block or cluster begins.
  void block_begins() { loops_.assign(w_.threads, {}); }
  /// Exchanges what is known of the running block for what another one knows of its own.
  void exchange(SpinCheck& other) { loops_.swap(other.loops_); }
  /// The running thread reads or writes.
  void access(const std::byte* address, bool write, std::uint32_t site);
  /// Whether the running thread only repeats loads, and the others should run.
  bool spins_now();
  /// No other thread can end a thread's loop: a finding.
  /// @return its line; empty where it is not known
  std::string report(const Thread& thread);

 private:
  struct Loop {
    std::array<const std::byte*, 4> addresses{};
    std::size_t known = 0;  // of these
    int loads = 0;          // of these alone
    std::uint32_t site = 0;
  };
  Watched& w_;
  std::vector<Loop> loops_;  // of each thread
};

}  // namespace fa::lab
