// The end of the program: whether it returns from main(), calls exit(), crashes or runs too long,
// the report is written.
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <sys/time.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/data/files.hpp"
#include "common/lab/address_space.hpp"
#include "common/lab/crash.hpp"
#include "common/lab/cuda/state.hpp"
#include "common/lab/fiber.hpp"
#include "common/lab/instrumentation.hpp"
#include "common/lab/sites.hpp"

extern "C" [[noreturn]] void __real__exit(int status);

namespace lab_cuda {
namespace {

namespace lab = fa::lab;

constexpr int kStackBytes = 1 << 20;  // of signal handlers
bool finished = false;
int seconds = 0, alarms = 0;
const char* time_text = "";  // lives as long as the program

// For the driver: lab.py reads it.
void write_report(const std::string& end, int status) {
  lab::Report report = state().watch.report();
  for (const lab::Finding& finding : state().findings) report.findings.push_back(finding);
  std::string failures;
  for (const std::string& failure : state().failures) {
    failures += (failures.empty() ? "" : ", ") + fa::json_text(failure);
  }
  std::string banks;
  if (const lab::LineTraffic* const line = report.worst_shared()) {
    banks = lab::draw_banks("shared memory", line->where, line->write, line->worst);
  }
  const std::string text = fmt::format(
      "{{\"end\": {}, \"status\": {}, \"launches\": {}, \"cpu_times\": {}, \"failures\": [{}], "
      "\"findings_text\": {}, \"text\": {}, \"banks\": {}, {}",
      fa::json_text(end), status, state().launches, state().times_were_asked, failures,
      fa::json_text(report.findings_text()), fa::json_text(report.text()), fa::json_text(banks),
      report.json().substr(1));
  const char* const file = std::getenv("LAB_CUDA_REPORT");
  if (file == nullptr) {
    std::fputs(report.findings_text().c_str(), stderr);
  } else {
    fa::write_file(file, text + "\n");
  }
}

// `end` says how the program ended, where not by itself.
[[noreturn]] void finish(const std::string& end, int status) {
  if (!finished) {
    finished = true;
    lab::current = nullptr;
    std::signal(SIGPROF, SIG_IGN);  // the time limit
    std::signal(SIGALRM, SIG_DFL);
    ::alarm(60);  // should the report itself hang
    std::fflush(stdout);
    std::cout.flush();
    try {
      write_report(end, status);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the report could not be written: %s\n", error.what());
    }
  }
  __real__exit(status);
}

std::string host_line(void* context) {
#if defined(__x86_64__)
  const auto pc =
      static_cast<std::uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  const auto pc = static_cast<std::uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
  const std::uintptr_t pc = 0;
  (void)context;
#endif
  std::vector<std::uintptr_t> codes{pc + 1};
  for (const std::uintptr_t code : lab::call_stack()) codes.push_back(code);
  const lab::SourceLines& lines = lab::source_lines(codes);
  for (const std::uintptr_t code : codes) {
    const std::string line = lab::line_of(lines, code);
    const auto has = [&](const char* part) { return line.find(part) != std::string::npos; };
    const bool ours = has("common/lab/") && !has("common/lab/cuda/tests/");
    if (!ours && !has("?") && line.find("/usr/") != 0 && line.find("code ") != 0) return line;
  }
  return "";
}

std::string uncaught_text;  // of the exception that ends the program

// A signal that ends the program.
void die(int signal, siginfo_t*, void* context) {
  if (signal == SIGFPE && lab::Fiber::running() != nullptr) {
    lab::leave_kernel("an integer is divided by zero: on a GPU the result is undefined");
  }
  const char* const name = signal == SIGSEGV   ? "SIGSEGV, a bad address"
                           : signal == SIGBUS  ? "SIGBUS, a bad address"
                           : signal == SIGFPE  ? "SIGFPE, a division by zero"
                           : signal == SIGABRT ? "SIGABRT, abort()"
                                               : "SIGILL";
  const std::string line = host_line(context);
  const std::string text = fmt::format("the program crashed on the host ({}){}",
                                       uncaught_text.empty() ? name : uncaught_text,
                                       line.empty() ? "" : fmt::format(" at {}", line));
  lab::Finding finding;
  finding.kind = "host crash";
  finding.where = line;
  finding.message = text;
  finding.count = 1;
  state().findings.push_back(finding);
  finish(text, 128 + signal);
}

// The time is over: watched code stops at its next access; other code where it is.
void stop(int) {
  switch (++alarms) {
    case 1:
      lab::launch_must_end = time_text;
      break;
    case 2:
      if (lab::Fiber::running() != nullptr) lab::leave_kernel(time_text);
      [[fallthrough]];
    default:
      finish(time_text, 128 + SIGALRM);
  }
}

void at_exit(int status, void*) {
  finish("", status);
}

void uncaught() {
  std::string what = "an exception that nothing catches";
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    what = fmt::format("an exception that nothing catches: {}", error.what());
  } catch (...) {
  }
  std::fprintf(stderr, "terminate: %s\n", what.c_str());
  uncaught_text = what;
  std::abort();
}

void set_handlers() {
  stack_t stack = {};
  stack.ss_sp = std::malloc(kStackBytes);
  stack.ss_size = kStackBytes;
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = &die;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int signal : {SIGABRT, SIGFPE, SIGILL, SIGSEGV, SIGBUS}) {
    sigaction(signal, &action, nullptr);
  }
  std::set_terminate(&uncaught);
  const char* const limit = std::getenv("LAB_CUDA_SECONDS");
  seconds = limit != nullptr ? std::atoi(limit) : 0;
  if (seconds <= 0) return;
  time_text =
      (new std::string(fmt::format("the time limit of {} seconds was reached", seconds)))->c_str();
  struct sigaction on_alarm = {};
  on_alarm.sa_handler = &stop;
  on_alarm.sa_flags = SA_RESTART | SA_NODEFER;
  sigaction(SIGPROF, &on_alarm, nullptr);
  sigaction(SIGALRM, &on_alarm, nullptr);
  // Time of the CPU, so that a busy computer changes nothing; ten times as long for what sleeps.
  const itimerval of_cpu = {{2, 0}, {seconds, 0}}, of_clock = {{2, 0}, {10 * seconds, 0}};
  setitimer(ITIMER_PROF, &of_cpu, nullptr);
  setitimer(ITIMER_REAL, &of_clock, nullptr);
}

bool host_may_not_use(const void* address) {
  if (!lab::is_among_mappings(address)) return false;
  const auto* const found = state().find(address);
  return found != nullptr && found->second.owner == Owner::kDevice;
}

// Before the program's own variables are made, some of which are in device memory.
__attribute__((constructor(101))) void begin() {
  state();
  on_exit(&at_exit, nullptr);
  set_handlers();
  lab::is_for_kernels_only = &host_may_not_use;
}

}  // namespace

State& state() {
  static State* const result = new State;
  return *result;
}

}  // namespace lab_cuda

// The linker sends calls of these here: --wrap.
extern "C" {
[[noreturn]] void __wrap__exit(int status) {
  lab_cuda::finish("", status);
}
[[noreturn]] void __wrap__Exit(int status) {
  lab_cuda::finish("", status);
}
[[noreturn]] void __wrap_quick_exit(int status) {
  lab_cuda::finish("", status);
}
// A kernel's clock() counts cycles, the host's the time of its CPU.
std::clock_t __real_clock();
std::clock_t __wrap_clock() {
  return fa::lab::current == nullptr ? __real_clock() : lab_cuda::clock_now();
}
}
