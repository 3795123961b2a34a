/// @file
/// A CUDA thread as the lab runs it: its fiber, what it waits for, what it has in flight; and what
/// the engine does about a mistake of it: a finding for the observer, or an exception that ends the
/// launch.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/lab/bulk_copy.hpp"
#include "common/lab/fiber.hpp"
#include "common/lab/observer.hpp"
#include "common/lab/thread.hpp"

namespace fa::lab {

class Block;

/// What a thread does.
enum class State {
  kReady,
  kPolling,
  kAtBarrier,
  kAtMbarrier,
  kAtNamedBarrier,
  kAtCluster,
  kInExchange,
  kEnded
};

/// A cp.async.
struct ThreadCopy {
  void* destination;
  const void* source;  ///< null: zeros
  std::size_t size;
  SourceLocation location;
};

/// A CUDA thread.
struct LabThread : Thread {
  Block* block = nullptr;
  State state = State::kEnded;
  SourceLocation location;        ///< where it waits
  unsigned waits_for = 0;         ///< lanes, when in an exchange
  const void* barrier = nullptr;  ///< at which it waits: an mbarrier or a NamedBarrier
  int parity = 0;                 ///< of the phase, at an mbarrier
  const void* polled = nullptr;   ///< the last flag that it read
  const void* entered = nullptr;  ///< the stack frame of the lab's function that it called
  bool in_cluster_phase = false;  ///< has arrived at the cluster's barrier; others are missing
  bool cluster_wait_due = false;  ///< has arrived there and has not waited
  std::vector<const void*> lent;  ///< registers that wgmma may have
  Stores stores;
  std::vector<ThreadCopy> open_copies;
  std::vector<std::vector<ThreadCopy>> committed_copies;
  Fiber fiber;  // last: what it unwinds may use all else

  /// Its warp, counted through the cluster.
  std::size_t warp() const { return static_cast<std::size_t>(place / kWarpSize); }
  /// Waits until another thread makes it ready; `at` is an mbarrier or named barrier.
  void wait(State why, const SourceLocation& where, const void* at = nullptr) {
    state = why;
    location = where;
    barrier = at;
    fiber.yield();
    barrier = nullptr;
  }
  /// Forgets the last block.
  void begin() {
    state = State::kReady;
    barrier = polled = nullptr;
    in_cluster_phase = cluster_wait_due = false;
    lent.clear();
    stores.open.clear();  // a new one would allocate memory
    stores.groups.clear();
    stores.ended = 0;
    stores.arrived = true;
    open_copies.clear();
    committed_copies.clear();
  }
};

/// The threads of a block or cluster, block after block.
using Threads = std::vector<LabThread>;

/// The thread that runs now.
inline LabThread& this_thread() {
  return static_cast<LabThread&>(const_cast<Thread&>(*current));
}

/// The same in a function that a kernel calls and that may wait: the function's frame holds all
/// registers of its caller, so that below it nothing is the kernel's.
[[gnu::always_inline]] inline LabThread& calling_thread() {
  __builtin_unwind_init();
  LabThread& thread = this_thread();
  thread.entered = __builtin_frame_address(0);
  return thread;
}

/// Lets those threads continue that wait in a state and meet a condition.
template <class Condition>
void wake(Threads& threads, State waiting, Condition condition) {
  for (LabThread& thread : threads) {
    if (thread.state == waiting && condition(thread)) thread.state = State::kReady;
  }
}

/// "file:line".
inline std::string text_of(const SourceLocation& location) {
  return fmt::format("{}:{}", location.file, location.line);
}

/// Ends the launch.
/// @throws std::runtime_error "file:line: message"
template <class... Arguments>
[[noreturn]] void fail(const SourceLocation& location, fmt::format_string<Arguments...> message,
                       Arguments&&... arguments) {
  throw std::runtime_error(text_of(location) + ": " +
                           fmt::format(message, std::forward<Arguments>(arguments)...));
}

/// Reports a finding if there is an observer; see Observer::finds().
inline void note_finding(const char* kind, const SourceLocation& location,
                         const SourceLocation& other, const std::string& message) {
  if (observer != nullptr) observer->finds(kind, location, other, message);
}

/// Reports a finding; ends the launch if there is no observer.
/// @throws std::runtime_error
void finding_or_fail(const char* kind, const SourceLocation& location, const SourceLocation& other,
                     const std::string& message);

}  // namespace fa::lab
