/// @file
/// Whether a launch still makes progress: it has none when all threads of all blocks that run only
/// poll flags.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/lab/crash.hpp"

namespace fa::lab {

/// For how long a thread may run without a switch, or a block repeat a loop: kLongestRun, but tests
/// shorten it.
extern std::atomic<std::chrono::seconds> longest_run;

/// The workers of a launch: threads of the operating system that run its blocks.
struct Workers {
  /// All of them have blocks.
  explicit Workers(std::int64_t count) : running(count) {}
  std::atomic<std::int64_t> running;   ///< that have blocks left
  std::atomic<std::int64_t> idle{0};   ///< in whose block threads only poll
  std::atomic<std::int64_t> woken{0};  ///< how often one was no longer idle
};

/// The progress of one worker.
class Progress {
 public:
  /// It begins.
  explicit Progress(Workers& workers) : workers_(workers) {}
  ~Progress() { made(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// A thread did more than poll.
  void made() {
    idle_rounds_ = 0;
    if (!idle_) return;
    idle_ = false;
    ++workers_.woken;
    --workers_.idle;
  }
  /// A round through all threads of the block in which each only polled.
  /// @param alone no other worker and not the host can set a flag: the blocks are observed
  /// @return whether to end the launch: the other workers do not get on either
  bool is_over(bool alone);

 private:
  Workers& workers_;
  bool idle_ = false;  // as the workers count it
  int idle_rounds_ = 0;
  std::int64_t running_then_ = 0, woken_then_ = 0;
  std::chrono::steady_clock::time_point idle_since_;
};

}  // namespace fa::lab
