/// @file
/// Kernels that crash or never yield: both end their fiber instead of the program. (Not with
/// AddressSanitizer, which handles crashes itself.)
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <pthread.h>
#include <vector>

namespace fa::lab {

/// Time of a processor that a fiber may run without a switch to another one.
inline constexpr std::chrono::seconds kLongestRun{10};

/// How the fibers on one thread of the operating system get on.
struct Heartbeat {
  std::atomic<std::int64_t> switches{0};  ///< from a fiber to another one
  std::atomic<bool> stuck{false};         ///< the watchdog has left the fiber that ran too long

  /// Counts a switch. One thread only does.
  void beat() {
    switches.store(switches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

/// What the processor tells of a bad access to memory.
struct Crash {
  const void* address = nullptr;  ///< what was accessed; null where the processor does not tell
  std::uintptr_t code = 0;        ///< the instruction; 0 where that is not known
};
/// The last one of this thread of the operating system.
Crash last_crash();

/// A stack for the handler of crashes on this thread of the operating system, so that a fiber may
/// overflow its own.
class HandlerStack {
 public:
  HandlerStack();
  ~HandlerStack();
  HandlerStack(const HandlerStack&) = delete;
  HandlerStack& operator=(const HandlerStack&) = delete;

 private:
  std::vector<char> memory_;
  [[maybe_unused]] stack_t before_{};
};

/// While one lives, a bad access to memory in a fiber leaves that fiber: see Fiber::left().
class CrashHandler {
 public:
  CrashHandler();
  ~CrashHandler();
  CrashHandler(const CrashHandler&) = delete;
  CrashHandler& operator=(const CrashHandler&) = delete;
};

/// Leaves the fiber that runs: the launch ends with this message. May be called by a signal
/// handler. The text must live as long as the program.
void leave_kernel(const char* message);
/// What the fiber that was left last was left with; null: it crashed or was stuck.
extern const char* left_with;
/// Set by a signal handler: the launch ends with this message when its watched code continues.
extern std::atomic<const char*> launch_must_end;

/// While it lives, a fiber of this thread of the operating system that runs for longer than
/// kLongestRun is left, and Heartbeat::stuck is set. Needs a CrashHandler; Linux only.
class Watchdog {
 public:
  /// Begins to look at this thread of the operating system.
  explicit Watchdog(Heartbeat& heartbeat);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct All;
  static All& all();
  static void look();

  Heartbeat& heartbeat_;
  [[maybe_unused]] pthread_t worker_;
  [[maybe_unused]] std::int64_t switches_ = -1;  // when it was looked at last
  std::chrono::seconds since_{};                 // time of the worker's processor
};

}  // namespace fa::lab
