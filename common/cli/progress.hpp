/// @file
/// A sign of life for work that takes longer than two seconds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace fa::cli {

/// Counts finished steps and, once two seconds have passed, says on standard error how far the work
/// is and how long the rest will take. On a terminal the line is redrawn; elsewhere one line is
/// written every ten seconds. step() is safe to call from several threads.
class Progress {
 public:
  /// @param title    what is being done, "attention over 65536 keys"
  /// @param total    number of steps, at least 1
  /// @param patience how long to say nothing
  Progress(std::string title, std::int64_t total,
           std::chrono::milliseconds patience = std::chrono::seconds(2));
  /// Clears the line on a terminal.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// One more step is done.
  /// @param note added to the line, "loss 2.31"; empty: nothing
  void step(const std::string& note = {});

 private:
  using Clock = std::chrono::steady_clock;
  std::string title_;
  std::int64_t total_;
  std::atomic<std::int64_t> done_{0};
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_, next_report_;
  std::mutex mutex_;
};

}  // namespace fa::cli
