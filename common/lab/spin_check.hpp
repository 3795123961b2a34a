/// @file
/// Threads that repeat the same loads: they may wait for a flag that another thread sets.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/lab/watched.hpp"

namespace fa::lab {

/// What each thread has read since it last wrote, if that was always the same.
class SpinCheck {
 public:
  /// No loads.
  explicit SpinCheck(Watched& watched) : w_(&watched) {}
  /// A block or cluster begins.
  void block_begins() { loops_.assign(w_->threads, {}); }
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
  Watched* w_;
  std::vector<Loop> loops_;  // of each thread
};

inline void SpinCheck::access(const std::byte* address, bool write, std::uint32_t site) {
  Loop& loop = loops_[this_place()];
  loop.site = site;
  if (write) {
    loop.known = 0;
    loop.loads = 0;
    return;
  }
  const auto end = loop.addresses.begin() + loop.known;
  if (std::find(loop.addresses.begin(), end, address) != end) {
    ++loop.loads;
    return;
  }
  if (loop.known == loop.addresses.size()) loop.known = 0;
  loop.addresses[loop.known++] = address;
  loop.loads = 0;
}

inline bool SpinCheck::spins_now() {
  constexpr int enough = 100;
  int& loads = loops_[this_place()].loads;
  if (loads < enough) return false;
  loads = 0;
  return true;
}

inline std::string SpinCheck::report(const Thread& thread) {
  const std::uint32_t site = loops_[static_cast<std::size_t>(thread.place)].site;
  if (site == 0) return "";
  w_->findings.add(
      "spin", site, 0,
      fmt::format("warp {} spins: {} reads a flag again and again that no other thread "
                  "can change any more; they have ended, or wait for this one, or are "
                  "in a block that comes later",
                  thread.number / kWarpSize, w_->name_of(thread)));
  return w_->sites.line(site);
}

}  // namespace fa::lab
