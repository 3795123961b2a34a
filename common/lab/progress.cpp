#include "common/lab/progress.hpp"

#include <algorithm>
#include <ctime>
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

namespace {

// Yields of one thread within which a repeated loop comes back to its stacks.
constexpr int kCompared = 64;

std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Registers that a function saves below the address of its frame.
#if defined(__x86_64__)
constexpr std::ptrdiff_t kSavedBelow = 5;
#else
constexpr std::ptrdiff_t kSavedBelow = 0;
#endif

// A hash of what a kernel has on a thread's stack, and of another hash. Not of what the lab has
// there: its functions leave times and pointers in words that they do not use.
__attribute__((no_sanitize("address"))) std::uint64_t hash(const LabThread& thread,
                                                           std::uint64_t result = 0) {
  auto [begin, end] = thread.fiber.used_stack();
  const auto* const entered = static_cast<const std::uint64_t*>(thread.entered);
  if (begin < entered && entered < end) begin = std::max(begin, entered - kSavedBelow);
  for (const std::uint64_t* word = begin; word < end; ++word) {
    result = (result ^ *word) * 0x9e3779b97f4a7c15u;
    result ^= result >> 29;
  }
  return result;
}

// The same of all threads that have not ended.
std::uint64_t hash(const Threads& threads) {
  std::uint64_t result = 0;
  for (const LabThread& thread : threads) {
    if (thread.state != State::kEnded) result = hash(thread, result);
  }
  return result;
}

}  // namespace

bool Repetition::choose(const Threads& threads, const LabThread& yielded) {
  chosen_ = &yielded;
  left_ = kCompared;
  stack_ = hash(yielded);
  stacks_ = hash(threads);
  return false;
}

bool Repetition::compare(const Threads& threads) {
  const bool same = hash(*chosen_) == stack_ && hash(threads) == stacks_;
  if (!same && --left_ > 0) return false;
  chosen_ = nullptr;
  const std::chrono::nanoseconds now = processor_time();
  if (same && repeats_) return now - since_ >= longest_run.load();
  repeats_ = same;
  since_ = now;
  return false;
}

}  // namespace fa::lab
