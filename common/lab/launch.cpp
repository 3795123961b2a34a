#include <algorithm>
#include <atomic>
#include <optional>
#include <stdexcept>

#include "common/lab/block.hpp"
#include "common/lab/record.hpp"
#include "common/parallel/parallel_for.hpp"

namespace fa::lab {

__thread const Thread* current = nullptr;
Observer* observer = nullptr;

std::vector<int> run(const Launch& launch, const std::function<void()>& kernel) {
  std::vector<int> registers;  // written by the worker that runs block 0
  const std::int64_t blocks = launch.grid.count();
  if (recorder != nullptr && launch.cluster > 1) {
    throw std::runtime_error("blocks in clusters are not recorded");
  }
  std::atomic<std::int64_t> next{0};
  const auto count = std::min<std::int64_t>(
      observer != nullptr || recorder != nullptr ? 1 : thread_count(), blocks / launch.cluster);
  if (observer != nullptr) observer->launch_begins(launch);
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

int sm_count() {
  if (recorder != nullptr) return 1;
  return observer != nullptr ? 2 : thread_count();
}

}  // namespace fa::lab
