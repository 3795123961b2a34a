/// @file
/// A progress line for work that takes longer than two seconds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace fa::cli {

/// Counts finished steps and, after two seconds, prints the percentage done and the time left on
/// standard error. On a terminal the line is redrawn; elsewhere one line is written every ten
/// seconds. Several threads may call step() at once.
class Progress {
 public:
  /// @param title what is being done, "attention over 65536 keys"
  /// @param total number of steps, at least 1
  /// @param delay how long to wait before the first line
  Progress(std::string title, std::int64_t total,
           std::chrono::milliseconds delay = std::chrono::seconds(2));
  /// Clears the line on a terminal.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Counts one finished step.
  /// @param note appended to the line, "loss 2.31"; may be empty
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
