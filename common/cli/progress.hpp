/// @file
/// A progress line for work that takes longer than two seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

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
           std::chrono::milliseconds delay = std::chrono::seconds(2))
      : title_(std::move(title)), total_(total), next_report_(start_ + delay) {}
  /// Clears the line on a terminal.
  ~Progress() {
    if (shown_ && terminal_) fmt::print(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Counts one finished step.
  void step() {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto done = static_cast<double>(++done_);
    const auto now = Clock::now();
    if (now < next_report_) return;
    next_report_ = now + std::chrono::milliseconds(terminal_ ? 200 : 10000);
    shown_ = true;
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    const auto total = static_cast<double>(total_);
    fmt::print(stderr, "{}{}: {:.0f} %, about {:.0f} s left{}", terminal_ ? "\r" : "", title_,
               100.0 * done / total, elapsed * (total - done) / done, terminal_ ? "\033[K" : "\n");
    std::fflush(stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::string title_;
  std::int64_t total_, done_ = 0;
  bool terminal_ = isatty(STDERR_FILENO) != 0, shown_ = false;
  Clock::time_point start_ = Clock::now(), next_report_;
  std::mutex mutex_;
};

}  // namespace fa::cli
