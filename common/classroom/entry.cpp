// The main program of the process that runs the student's code: answers the grader's calls. What a
// crash or an endless loop was doing goes to standard error as addresses, from which the checker
// finds the line.
#include "common/classroom/entry.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <execinfo.h>
#include <map>
#include <new>
#include <ucontext.h>
#include <unistd.h>

#if defined(__linux__)
extern "C" char __executable_start;
#endif

namespace fa::classroom {
namespace {

int from_grader = -1, to_grader = -1;

std::map<std::string, std::function<void(Wire&, Wire&)>>& entries() {
  static std::map<std::string, std::function<void(Wire&, Wire&)>> all;
  return all;
}

struct Failure {
  std::string message;
};

// Where this program's code begins; addresses are printed relative to it.
std::uintptr_t beginning() {
#if defined(__linux__) && defined(__PIE__)
  return reinterpret_cast<std::uintptr_t>(&__executable_start);
#else
  return 0;
#endif
}

// Where it is: an address, and those to which its callers return.
void say_frames(std::uintptr_t here) {
  std::array<void*, 64> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  std::array<char, 48> text{};
  const auto say = [&](const char* format, unsigned long value) {
    const int length = std::snprintf(text.data(), text.size(), format, value);
    (void)!write(STDERR_FILENO, text.data(), static_cast<std::size_t>(length));
  };
  say("\n@frames %lx", static_cast<unsigned long>(here - beginning()));
  for (int i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(frames.at(static_cast<std::size_t>(i)));
    say(" %lx", static_cast<unsigned long>(address - beginning()));
  }
  say("\n", 0);
}

// The instruction that a signal has interrupted.
std::uintptr_t interrupted(const void* context) {
  [[maybe_unused]] const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__linux__) && defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__linux__) && defined(__aarch64__)
  return static_cast<std::uintptr_t>(machine.pc);
#else
  return beginning();
#endif
}

void on_signal(int number, siginfo_t*, void* context) {
  say_frames(interrupted(context));
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// What takes memory without an end stands here for the line that does.
void on_full_memory() {
  std::set_new_handler(nullptr);
  say_frames(beginning());
  throw std::bad_alloc();
}

void watch_signals() {
  std::set_new_handler(on_full_memory);
  std::array<void*, 2> first{};
  backtrace(first.data(), 2);  // loads what it needs before anything is broken
  static std::array<char, 1 << 16> stack;
  stack_t alternate{};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  sigaltstack(&alternate, nullptr);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU}) {
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO;
    sigaction(number, &action, nullptr);
  }
}

Message answer(const Message& message) {
  const std::size_t split = message.bytes.find('\0');
  const std::string name = message.bytes.substr(0, split);
  try {
    Wire arguments(message.bytes.substr(split + 1)), result;
    const auto found = entries().find(name);
    if (found == entries().end()) fail("there is no entry '" + name + "'");
    found->second(arguments, result);
    return {'r', result.bytes()};
  } catch (const Failure& failure) {
    return {'f', failure.message};
  } catch (const std::bad_alloc&) {
    return {'f', "it requested more memory than a check may use"};
  } catch (const std::exception& error) {
    return {'f', std::string("it threw an error: ") + error.what()};
  } catch (...) {
    return {'f', "it threw something that is not an error"};
  }
}

}  // namespace

void fail(const std::string& message) {
  throw Failure{message};
}

std::string call_back(std::uint32_t function, const std::string& arguments) {
  send(to_grader, {'b', packed(function) + arguments});
  const Message message = receive(from_grader);
  if (message.kind != 'r') std::_Exit(1);
  return message.bytes;
}

bool offer(const char* name, std::function<void(Wire& arguments, Wire& result)> function) {
  return entries().emplace(name, std::move(function)).second;
}

}  // namespace fa::classroom

int main(int argc, char** argv) {
  using namespace fa::classroom;
  if (argc != 3) return 2;
  from_grader = std::atoi(argv[1]);
  to_grader = std::atoi(argv[2]);
  watch_signals();
  for (;;) {
    const Message message = receive(from_grader);
    if (message.kind != 'c') break;
    const Message result = answer(message);
    std::fflush(nullptr);
    if (!send(to_grader, result)) break;
  }
  _exit(0);  // what the student's destructors do no longer matters
}
