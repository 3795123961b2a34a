#include <algorithm>
#include <atomic>
#include <cstdio>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "common/lab/block.hpp"
#include "common/lab/record.hpp"
#include "common/parallel/parallel_for.hpp"

namespace fa::lab {

__thread const Thread* current = nullptr;
Observer* observer = nullptr;

namespace {

// Adds what was found to the message of an error, which may be all that is printed. Lines behind
// the first are indented, as programs print them.
std::string with_findings(const std::string& message) {
  std::istringstream found(observer->found());
  std::string result = message;
  for (std::string line; std::getline(found, line);) {
    if (!line.empty()) result += "\n  " + line;
  }
  return result;
}

std::vector<int> run_blocks(const Launch& launch, const std::function<void()>& kernel,
                            std::uint64_t stream) {
  std::vector<int> registers;  // written by the worker that runs block 0
  const std::int64_t blocks = launch.grid.count();
  if (recorder != nullptr && launch.cluster > 1) {
    throw std::runtime_error("blocks in clusters are not recorded");
  }
  std::atomic<std::int64_t> next{0};
  const auto count = std::min<std::int64_t>(
      observer != nullptr || recorder != nullptr ? 1 : thread_count(), blocks / launch.cluster);
  if (observer != nullptr) observer->launch_begins(launch, stream);
  const CrashHandler crash_handler;
  Workers workers(count);
  parallel_for(count, [&](std::int64_t) {
    struct End {
      Workers& workers;
      ~End() { --workers.running; }
    } end{workers};
    const HandlerStack handler_stack;
    Block block(launch, kernel, workers);
    std::optional<Watchdog> watchdog;
    if (observer == nullptr) watchdog.emplace(block.heartbeat());  // else loops are observed
    for (std::int64_t i; (i = next.fetch_add(launch.cluster)) < blocks;) {
      try {
        block.run(i);
        if (i == 0) registers = block.registers().of_warps();
      } catch (...) {
        next = blocks;  // the others stop as well
        throw;
      }
    }
  });
  return registers;
}

}  // namespace

std::vector<int> run(const Launch& launch, const std::function<void()>& kernel,
                     std::uint64_t stream) {
  if (observer == nullptr) return run_blocks(launch, kernel, stream);
  try {
    return run_blocks(launch, kernel, stream);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(with_findings(error.what()));
  } catch (...) {  // of the kernel itself
    fmt::print(stderr, "{}\n", with_findings("a launch has ended with an exception"));
    throw;
  }
}

std::uint64_t new_stream() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

void synchronize(std::uint64_t stream) {
  if (observer != nullptr) observer->synchronized(stream);
}

int sm_count() {
  if (recorder != nullptr) return 1;
  return observer != nullptr ? 2 : thread_count();
}

}  // namespace fa::lab
