#include "common/lab/progress.hpp"

#include <thread>

namespace fa::lab {

std::atomic<std::chrono::seconds> longest_run{kLongestRun};

namespace {
// Rounds before a worker counts as idle, and before a launch of idle workers is ended. A worker
// that the operating system does not run needs time besides, and the host may set a flag.
constexpr int kIdleRounds = 1000;
constexpr std::chrono::seconds kIdleTime{2};
}  // namespace

bool Progress::is_over(bool alone) {
  if (!idle_ && ++idle_rounds_ < kIdleRounds) return false;
  const auto now = std::chrono::steady_clock::now();
  if (!idle_) {
    idle_ = true;
    ++workers_.idle;
  }
  const std::int64_t running = workers_.running, woken = workers_.woken;
  if (workers_.idle < running || running != running_then_ || woken != woken_then_) {
    running_then_ = running;
    woken_then_ = woken;
    idle_rounds_ = 0;
    idle_since_ = now;
  } else if (++idle_rounds_ > kIdleRounds && (alone || now - idle_since_ > kIdleTime)) {
    return true;
  }
  if (running > 1) std::this_thread::yield();
  return false;
}

}  // namespace fa::lab
