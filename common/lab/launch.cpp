#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include <fmt/format.h>

#include "common/lab/address_space.hpp"
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

// The blocks of an observed launch on one thread of the operating system: one after the other, and
// in turns where one waits for a flag that another is to set.
class Turns {
 public:
  Turns(const Launch& launch, const std::function<void()>& kernel, Workers& workers)
      : launch_(launch), kernel_(kernel), workers_(workers) {}

  // Runs all of them. Returns what Block::registers() says of the first one.
  std::vector<int> run() {
    begin();
    std::vector<int> registers;
    for (std::int64_t idle = 0;;) {  // turns without progress
      const bool others = !waiting_.empty() || may_begin();
      const bool ended = now_->run(others && idle < kIdleTurns);
      idle = ended || now_->has_progressed() ? 0 : idle + 1;
      if (ended) {
        if (now_->is_first()) registers = now_->registers().of_warps();
        spare_ = std::move(now_);
        if (!waiting_.empty()) {
          resume(nullptr);
        } else if (next_ < launch_.grid.count()) {
          begin();
        } else {
          return registers;
        }
      } else {
        const Block* const before = now_.get();
        waiting_.push_back(std::move(now_));
        if (waiting_.size() < limit_ && next_ < launch_.grid.count()) {
          observer->switches(before, nullptr);
          begin();
        } else {
          resume(before);
        }
      }
    }
  }

 private:
  static constexpr std::int64_t kIdleTurns = 1 << 12;
  bool may_begin() const { return next_ < launch_.grid.count() && waiting_.size() + 1 < limit_; }
  void begin() {
    now_ = spare_ ? std::move(spare_) : std::make_unique<Block>(launch_, kernel_, workers_);
    now_->begin(next_);
    next_ += launch_.cluster;
  }
  void resume(const Block* before) {
    now_ = std::move(waiting_.front());
    waiting_.pop_front();
    if (now_.get() != before) observer->switches(before, now_.get());
  }

  const Launch& launch_;
  const std::function<void()>& kernel_;
  Workers& workers_;
  const std::size_t limit_ =
      observer->can_switch() ? static_cast<std::size_t>(blocks_at_once(launch_) / launch_.cluster)
                             : 1;
  std::int64_t next_ = 0;
  std::unique_ptr<Block> now_, spare_;
  std::deque<std::unique_ptr<Block>> waiting_;
};

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
  if (observer != nullptr && recorder == nullptr) {
    const HandlerStack handler_stack;
    Turns turns(launch, kernel, workers);
    try {
      return turns.run();
    } catch (...) {
      observer->launch_fails();
      throw;
    }
  }
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
        block.begin(i);
        block.run(false);
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

void run_noted(const Launch& launch, const void* function, const std::function<void()>& kernel,
               std::uint64_t stream) {
  if (observer != nullptr) observer->will_launch(function);
  KernelResources takes;  // no compiler has said more
  takes.threads = static_cast<int>(launch.block.count());
  takes.stages = launch.stages;
  takes.shared_bytes = launch.shared_bytes;
  takes.asked_registers = run(launch, kernel, stream);
  if (noted_resources() != nullptr) noted_resources()->push_back(takes);
}

DeviceProperties properties() {
  DeviceProperties result;
  result.name = "the lab";
  result.sm_count = sm_count();
  result.shared_bytes = 227 * 1024;
  return result;
}

std::uint64_t new_stream() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

void synchronize(std::uint64_t stream) {
  if (observer != nullptr) observer->synchronized(stream);
}

std::int64_t blocks_at_once(const Launch& launch) {
  constexpr std::int64_t sms = 132, threads = 2048, most_blocks = 32;
  constexpr std::size_t shared = 228 * 1024, of_block = 1024;
  const std::int64_t warps = (launch.block.count() + kWarpSize - 1) / kWarpSize;
  const std::int64_t of_sm =
      std::min({most_blocks, threads / (warps * kWarpSize),
                static_cast<std::int64_t>(shared / (launch.shared_bytes + of_block))});
  constexpr std::int64_t here = 32 * 1024;  // threads
  const std::int64_t all =
      std::min(sms * of_sm, std::max(here / launch.block.count(), std::int64_t{1}));
  return std::max<std::int64_t>(all / launch.cluster * launch.cluster, launch.cluster);
}

int sm_count() {
  if (recorder != nullptr) return 1;
  return observer != nullptr ? 2 : thread_count();
}

void* allocate(std::size_t bytes) {
  // Systems promise more than they have, and kill the program that takes it.
  const std::size_t in_all = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* const memory = bytes <= in_all ? map_memory(bytes, Purpose::kBuffer) : nullptr;
  if (memory == nullptr) {
    throw std::runtime_error(fmt::format(
        "{} bytes of memory were asked for; the lab's machine has {} in all", bytes, in_all));
  }
  if (observer != nullptr) observer->allocated(memory, bytes);
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  if (observer != nullptr) observer->released(memory);
  unmap_memory(static_cast<std::byte*>(memory));
}

void upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  std::memcpy(to, from, bytes);
  if (observer != nullptr) observer->host_wrote(to, bytes, false);
}

void download(void* to, const void* from, std::size_t bytes) {
  synchronize();
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void fill(void* memory, int byte, std::size_t bytes, bool unwritten) {
  if (bytes == 0) return;
  std::memset(memory, byte, bytes);
  if (observer != nullptr) observer->host_wrote(memory, bytes, unwritten);
}

}  // namespace fa::lab
