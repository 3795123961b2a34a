#include "common/lab/crash.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <mutex>
#include <thread>
#include <time.h>
#include <ucontext.h>
#include <vector>

#include "common/lab/fiber.hpp"
#include "common/lab/progress.hpp"

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

namespace {
__thread Crash crash_here;  // of this thread of the operating system
}  // namespace
Crash last_crash() {
  return crash_here;
}

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
HandlerStack::HandlerStack() = default;
HandlerStack::~HandlerStack() = default;
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

// The instruction that a signal has interrupted.
std::uintptr_t interrupted(const void* context) {
  [[maybe_unused]] const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__linux__) && defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__linux__) && defined(__aarch64__)
  return static_cast<std::uintptr_t>(machine.pc);
#else
  return 0;
#endif
}

void handle(int signal, siginfo_t* info, void* context) {
  Fiber* const fiber = Fiber::running();
  if (signal == SIGURG) {
    if (fiber != nullptr && heartbeat_here != nullptr && heartbeat_here->stuck) fiber->leave();
    return;
  }
  if (fiber != nullptr) {
    crash_here = {info->si_addr, interrupted(context)};
    fiber->leave();
  }
  // Not in a kernel: the access is repeated, and handled as it was before.
  sigaction(signal, &actions_before[signal == kSignals[0] ? 0 : 1], nullptr);
}

}  // namespace

HandlerStack::HandlerStack() : memory_(std::size_t{1} << 16) {
  stack_t stack{};
  stack.ss_sp = memory_.data();
  stack.ss_size = memory_.size();
  sigaltstack(&stack, &before_);
}
HandlerStack::~HandlerStack() {
  sigaltstack(&before_, nullptr);
}

CrashHandler::CrashHandler() {
  const std::lock_guard lock(handlers_mutex);
  if (handlers++ > 0) return;
  struct sigaction action = {};
  action.sa_sigaction = &handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
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
    } else if (now - one->since_ >= longest_run.load()) {
      one->heartbeat_.stuck = true;
      pthread_kill(one->worker_, SIGURG);
    }
  }
}
#endif

}  // namespace fa::lab
