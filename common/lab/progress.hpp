/// @file
/// Whether a launch still makes progress: it has none when all threads of all blocks that run only
/// poll flags, or when the threads of a block repeat a loop in which they still yield.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "common/lab/crash.hpp"
#include "common/lab/lab_thread.hpp"

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

/// Whether the threads of a block do the same again and again: for longest_run the kernel's
/// stack frames and registers have returned to the same values within a few of their steps.
class Repetition {
 public:
  /// A block begins, or waits for another one.
  void forget() {
    chosen_ = nullptr;
    repeats_ = false;
  }
  /// A thread has yielded.
  /// @return whether to end the launch
  bool is_endless(const Threads& threads, const LabThread& yielded) {
    if (chosen_ == nullptr) return ++yields_ % kBetween == 0 && choose(threads, yielded);
    return &yielded == chosen_ && compare(threads);
  }
  /// The same of a thread that is about to yield.
  /// @return whether there is nothing to look at when it has
  bool passes(const LabThread& yields) {
    if (chosen_ != nullptr) return &yields != chosen_;
    if ((yields_ + 1) % kBetween == 0) return false;
    ++yields_;
    return true;
  }

 private:
  static constexpr std::int64_t kBetween = 1 << 20;  // yields from one look to the next
  bool choose(const Threads& threads, const LabThread& yielded);
  bool compare(const Threads& threads);

  std::int64_t yields_ = 0;
  const LabThread* chosen_ = nullptr;  // after whose next yields stacks are compared
  int left_ = 0;                       // of these
  std::uint64_t stack_ = 0;            // when it was chosen: of its own
  std::uint64_t stacks_ = 0;           // and of all
  bool repeats_ = false;
  std::chrono::nanoseconds since_{};  // time of this processor
};

}  // namespace fa::lab
