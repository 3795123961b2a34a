// The end of the program: whether it returns from main(), calls exit(), crashes or runs too long,
// the report is written.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <link.h>
#include <sstream>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/data/files.hpp"
#include "common/lab/address_space.hpp"
#include "common/lab/crash.hpp"
#include "common/lab/cuda/state.hpp"
#include "common/lab/fiber.hpp"
#include "common/lab/instrumentation.hpp"
#include "common/lab/program.hpp"
#include "common/lab/sites.hpp"

extern "C" [[noreturn]] void __real__exit(int status);
extern "C" char __data_start, _end;  // of the linker

namespace lab_cuda {
namespace {

namespace lab = fa::lab;

constexpr int kStackBytes = 1 << 20;  // of signal handlers
bool finished = false;
int seconds = 0, alarms = 0;
const char* time_text = "";  // lives as long as the program

// The engine names the functions that the course's own kernels call: in other files they are PTX.
std::string in_ptx(std::string text) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"fence_barrier_init()", "fence.mbarrier_init"},
      {"fence_async_proxy_global()", "fence.proxy.async.global"},
      {"fence_async_proxy()",
       "fence.proxy.async.shared::cta (ptx::fence_proxy_async(ptx::space_shared))"},
      {"wgmma_fence()", "wgmma.fence"},
      {"wgmma_commit()", "wgmma.commit_group"},
      {"wgmma_wait()", "wgmma.wait_group"},
      {"wgmma()", "wgmma.mma_async"},
      {"arrive_and_expect()", "mbarrier.arrive.expect_tx"},
      {"bulk_commit()", "cp.async.bulk.commit_group"},
      {"bulk_wait_read<0>()", "cp.async.bulk.wait_group.read 0"},
      {"bulk_wait_read()", "cp.async.bulk.wait_group.read"},
      {"bulk_wait<0>()", "cp.async.bulk.wait_group 0"},
      {"a cluster_arrive() and cluster_wait()",
       "a cluster.sync() (barrier.cluster.arrive and .wait)"},
      {"cluster_arrive()", "barrier.cluster.arrive"},
      {"cluster_wait()", "barrier.cluster.wait"},
      {"cp_async_wait<0>()", "__pipeline_wait_prior(0) or cp.async.wait_group 0"},
      {"cp_async_wait", "cp.async.wait_group or __pipeline_wait_prior()"},
      {"after init()", "after mbarrier.init"},
      {"grid_dependency_wait()", "cudaGridDependencySynchronize()"},
      {"with_pdl", "programmatic dependent launch"},
      {"atomic_add_acquire() or load_acquire()", "atom.acquire or ld.acquire"}};
  for (const auto& [course, ptx] : kNames) {
    for (std::size_t at = 0; (at = text.find(course, at)) != std::string::npos;) {
      text.replace(at, std::strlen(course), ptx);
    }
  }
  return text;
}

// For the driver: lab.py reads it.
void write_report(const std::string& end, int status) {
  lab::Report report = state().watch.report();
  for (const lab::Finding& finding : state().findings) report.findings.push_back(finding);
  for (lab::Finding& finding : report.findings) finding.message = in_ptx(finding.message);
  std::string failures;
  for (const std::string& failure : state().failures) {
    failures += (failures.empty() ? "" : ", ") + fa::json_text(in_ptx(failure));
  }
  const std::string text = fmt::format(
      "{{\"end\": {}, \"status\": {}, \"launches\": {}, \"watched_blocks\": {}, \"blocks\": {}, "
      "\"cpu_times\": {}, \"failures\": [{}], "
      "\"findings_text\": {}, \"text\": {}, {}",
      fa::json_text(end), status, state().launches, state().watch.watched_blocks().first,
      state().watch.watched_blocks().second, state().times_were_asked, failures,
      fa::json_text(report.findings_text()), fa::json_text(report.text()), report.json().substr(1));
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

// The first of some lines that is the program's own.
std::string line_of_program(const std::vector<std::uintptr_t>& codes) {
  const lab::SourceLines& lines = lab::source_lines(codes);
  for (const std::uintptr_t code : codes) {
    const std::string line = lab::line_of(lines, code);
    const auto has = [&](const char* part) { return line.find(part) != std::string::npos; };
    const bool ours = has("common/lab/") && !has("common/lab/cuda/tests/");
    if (!ours && !has("?") && line.find("/usr/") != 0 && line.find("code ") != 0) return line;
  }
  return "";
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
  return line_of_program(codes);
}

std::string uncaught_text;  // of the exception that ends the program
bool calls_abort = false;   // the program itself, as behind an error that it has seen

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
  const std::string at = line.empty() ? "" : fmt::format(" at {}", line);
  const bool aborts = signal == SIGABRT && calls_abort && uncaught_text.empty();
  if (aborts) finish(fmt::format("the program called abort(){}", at), 128 + signal);
  const std::string text = fmt::format("the program crashed on the host ({}){}",
                                       uncaught_text.empty() ? name : uncaught_text, at);
  if (!uncaught_text.empty() && state().has_failed) finish(text, 128 + signal);  // what follows
  state().add("host crash", line, text);
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
      finish(fmt::format("{} while the host was busy, whose loops are watched as well: make sizes "
                         "smaller, or allow more time by --seconds",
                         time_text),
             128 + SIGALRM);
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

// Whether some segment of the program or of a library has an address.
bool is_in_image(const void* address) {
  std::pair<std::uintptr_t, bool> search{reinterpret_cast<std::uintptr_t>(address), false};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        auto& [at, found] = *static_cast<std::pair<std::uintptr_t, bool>*>(result);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
          found |= part.p_type == PT_LOAD && at >= begin && at < begin + part.p_memsz;
        }
        return found ? 1 : 0;
      },
      &search);
  return search.second;
}

// Whether a variable is the host's: neither a constant nor declared for the device. A static one of
// a function may be a kernel's.
bool is_of_host(const std::string& name, const void* address) {
  static std::map<std::string, bool> known;
  const std::string variable = name.substr(0, name.find('<'));  // of a template
  const auto [entry, fresh] = known.try_emplace(variable, false);
  if (!fresh || state().of_device.count(variable) > 0) return entry->second;
  if (address < &__data_start || address >= &_end) return false;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const lab::Symbol& symbol : lab::Symbol::of_this_program()) {
    if (at - symbol.begin >= symbol.size || symbol.kind != STT_OBJECT) continue;
    const bool local = symbol.name.find("_ZZ") == 0 && symbol.name.find("_ZZ4mainE") != 0;
    entry->second = !local;
  }
  return entry->second;
}

std::string memory_of_host(const void* address, const std::string& variable) {
  const auto* const byte = static_cast<const std::byte*>(address);
  const auto within = [&](const void* begin, std::size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(begin);
    return byte >= first && byte < first + bytes;
  };
  if (within(lab::current, sizeof *lab::current) ||
      within(state().arguments, state().argument_bytes)) {
    return "";
  }
  if (!variable.empty()) {
    return is_of_host(variable, address) ? fmt::format("the host's variable {}", variable) : "";
  }
  for (const auto& [begin, bytes] : state().registered) {
    if (within(begin, bytes)) return "";
  }
  if (is_in_image(address)) return "";
  // Where nothing is, the program crashes: that is another finding.
  const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(address) & ~std::uintptr_t{4095};
  if (msync(reinterpret_cast<void*>(page), 1, MS_ASYNC) != 0) return "";
  return "the host's memory (of a local variable, malloc(), new or a std::vector)";
}

// Before the program's own variables are made, some of which are in device memory.
__attribute__((constructor(101))) void begin() {
  state();
  on_exit(&at_exit, nullptr);
  set_handlers();
  lab::is_for_kernels_only = &host_may_not_use;
  lab::memory_of_host = &memory_of_host;
  const char* const sample = std::getenv("LAB_CUDA_SAMPLE");
  if (sample != nullptr) state().watch.set_sample(std::atoi(sample));
  const char* const names = std::getenv("LAB_CUDA_DEVICE_NAMES");
  std::istringstream words(names != nullptr ? names : "");
  for (std::string name; words >> name;) state().of_device.insert(name);
}

}  // namespace

void add_here(const std::string& kind, const std::string& message) {
  state().add(kind, line_of_program(lab::call_stack()), message);
}

void end_program(const std::string& why) {
  finish(why, 128 + SIGALRM);
}

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
[[noreturn]] void __real_abort();
[[noreturn]] void __wrap_abort() {
  lab_cuda::calls_abort = true;
  __real_abort();
}
// A kernel's clock() counts cycles, the host's the time of its CPU.
std::clock_t __real_clock();
std::clock_t __wrap_clock() {
  return fa::lab::current == nullptr ? __real_clock() : lab_cuda::clock_now();
}
}
