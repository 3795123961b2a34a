#include "common/cli/progress.hpp"

#include <cstdio>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace fa::cli {
namespace {
constexpr std::chrono::milliseconds kTerminalPeriod{200}, kLogPeriod{10000};
}  // namespace

Progress::Progress(std::string title, std::int64_t total, std::chrono::milliseconds delay)
    : title_(std::move(title)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      next_report_(start_ + delay) {}

Progress::~Progress() {
  if (shown_ && terminal_) fmt::print(stderr, "\r\033[K");
}

void Progress::step(const std::string& note) {
  const std::int64_t done = ++done_;
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock) return;  // another thread is reporting
  const auto now = Clock::now();
  if (now < next_report_) return;
  next_report_ = now + (terminal_ ? kTerminalPeriod : kLogPeriod);
  shown_ = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const auto total = static_cast<double>(total_), finished = static_cast<double>(done);
  fmt::print(stderr, "{}{}: {:.0f} %, about {:.0f} s left{}{}{}", terminal_ ? "\r" : "", title_,
             100.0 * finished / total, elapsed * (total - finished) / finished,
             note.empty() ? "" : ", ", note, terminal_ ? "\033[K" : "\n");
  std::fflush(stderr);
}

}  // namespace fa::cli
