/// @file
/// Warp operations: each lane of a mask brings some bytes, and all of them get all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/lab/engine.hpp"
#include "common/lab/lab_thread.hpp"
#include "common/lab/observer.hpp"

namespace fa::lab {

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
