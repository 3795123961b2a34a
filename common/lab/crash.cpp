#include "common/lab/crash.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <mutex>
#include <thread>
#include <time.h>
#include <vector>

#include "common/lab/fiber.hpp"

#ifndef __has_feature  // Clang's word
#define __has_feature(feature) 0
#endif

namespace fa::lab {

const char* left_with = nullptr;
std::atomic<const char*> launch_must_end{nullptr};

void leave_kernel(const char* message) {
  left_with = message;
  Fiber::running()->leave();
}

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
CrashHandler::CrashHandler() = default;
CrashHandler::~CrashHandler() = default;
#define FA_NO_WATCHDOG
#else
namespace {

__thread const Heartbeat* heartbeat_here = nullptr;  // of this thread of the operating system

// SIGURG is the watchdog's.
constexpr std::array<int, 3> kSignals{SIGSEGV, SIGBUS, SIGURG};

std::mutex handlers_mutex;
int handlers = 0;
std::array<struct sigaction, kSignals.size()> actions_before;

void handle(int signal, siginfo_t*, void*) {
  Fiber* const fiber = Fiber::running();
  if (signal == SIGURG) {
    if (fiber != nullptr && heartbeat_here != nullptr && heartbeat_here->stuck) fiber->leave();
    return;
  }
  if (fiber != nullptr) fiber->leave();
  // Not in a kernel: the access is repeated, and handled as it was before.
  sigaction(signal, &actions_before[signal == kSignals[0] ? 0 : 1], nullptr);
}

}  // namespace

CrashHandler::CrashHandler() {
  const std::lock_guard lock(handlers_mutex);
  if (handlers++ > 0) return;
  struct sigaction action = {};
  action.sa_sigaction = &handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &actions_before[i]);
  }
}

CrashHandler::~CrashHandler() {
  const std::lock_guard lock(handlers_mutex);
  if (--handlers > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &actions_before[i], nullptr);
  }
}
#ifndef __linux__
#define FA_NO_WATCHDOG
#endif
#endif

#ifdef FA_NO_WATCHDOG
Watchdog::Watchdog(Heartbeat& heartbeat) : heartbeat_(heartbeat), worker_(pthread_self()) {}
Watchdog::~Watchdog() = default;
#else
struct Watchdog::All {
  std::mutex mutex;
  std::vector<Watchdog*> watchdogs;
};

// Never destroyed: its thread does not end before the program.
Watchdog::All& Watchdog::all() {
  static All* const result = new All;
  return *result;
}

Watchdog::Watchdog(Heartbeat& heartbeat) : heartbeat_(heartbeat), worker_(pthread_self()) {
  static const bool started = [] {
    std::thread([] {
      for (;; std::this_thread::sleep_for(std::chrono::seconds(1))) look();
    }).detach();
    return true;
  }();
  (void)started;
  heartbeat_here = &heartbeat;
  const std::lock_guard lock(all().mutex);
  all().watchdogs.push_back(this);
}

Watchdog::~Watchdog() {
  const std::lock_guard lock(all().mutex);
  auto& list = all().watchdogs;
  list.erase(std::find(list.begin(), list.end(), this));
  heartbeat_here = nullptr;
}

void Watchdog::look() {
  const std::lock_guard lock(all().mutex);
  for (Watchdog* const one : all().watchdogs) {
    clockid_t clock;
    timespec time;
    if (pthread_getcpuclockid(one->worker_, &clock) != 0 || clock_gettime(clock, &time) != 0) {
      continue;
    }
    const std::chrono::seconds now(time.tv_sec);
    const std::int64_t switches = one->heartbeat_.switches;
    if (switches != one->switches_) {
      one->switches_ = switches;
      one->since_ = now;
    } else if (now - one->since_ >= kLongestRun) {
      one->heartbeat_.stuck = true;
      pthread_kill(one->worker_, SIGURG);
    }
  }
}
#endif

}  // namespace fa::lab
