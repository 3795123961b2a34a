#include "common/lab/engine.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/parallel/parallel_for.hpp"

#ifndef __has_feature  // Clang's word
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
// AddressSanitizer must know on which stack a fiber runs.
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define FA_NO_ASAN
#endif

namespace fa::lab {

__thread const Thread* current = nullptr;
Observer* observer = nullptr;

namespace {

constexpr std::size_t kStackBytes = 128 * 1024;
constexpr std::size_t kSharedAlignment = 128;
constexpr std::size_t kRoom =
    256;  // on either side of memory that kernels are given

// One exchange among the lanes of one mask. Two of them are used in turn: a quick lane may come to the
// next exchange before a slow one has read this one.
struct Exchange {
  unsigned arrived = 0;
  alignas(16) std::array<std::byte, kWarpSize * kDepositSize> deposits;
};
struct MaskedExchange {
  unsigned mask;
  std::array<std::uint8_t, kWarpSize> turn{};  // of each lane: 0 or 1
  std::array<Exchange, 2> exchanges;
};

enum class State { kReady, kAtBarrier, kInExchange, kEnded };

struct Copy {
  void* destination;
  const void* source;
  std::size_t size;
  Place place;
};

class Block;

// Thrown out of a kernel that is not to go on.
struct Abandoned {};

// Memory of a stack, as AddressSanitizer wants it.
struct Stack {
  const void* bottom = nullptr;
  std::size_t size = 0;
};

// To be called for a stack that has ended, before somebody else has it: he must not inherit what AddressSanitizer
// remembers of frames that never returned.
void forget_stack([[maybe_unused]] const Stack& stack) {
#ifndef FA_NO_ASAN
  __asan_unpoison_memory_region(stack.bottom, stack.size);
#endif
}
// To be called before and after each switch to another stack.
void leave_for([[maybe_unused]] const Stack& stack,
               [[maybe_unused]] void** saved) {
#ifndef FA_NO_ASAN
  __sanitizer_start_switch_fiber(saved, stack.bottom, stack.size);
#endif
}
void arrive([[maybe_unused]] void* saved, [[maybe_unused]] Stack* came_from) {
#ifndef FA_NO_ASAN
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(saved, &bottom, &size);
  if (came_from != nullptr) *came_from = {bottom, size};
#endif
}

// Stacks of fibers that have ended, kept for the next launch: to map one anew takes longer than to run a small kernel on
// it. Used as an allocator of boost::context.
class KeptStacks {
 public:
  boost::context::stack_context allocate() {
    const std::lock_guard lock(mutex());
    if (kept().empty()) {
      return boost::context::protected_fixedsize_stack(kStackBytes)
          .allocate();
    }
    const auto stack = kept().back();
    kept().pop_back();
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) {
    forget_stack(
        {static_cast<const char*>(stack.sp) - stack.size, stack.size});
    const std::lock_guard lock(mutex());
    kept().push_back(stack);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex result;
    return result;
  }
  static std::vector<boost::context::stack_context>& kept() {
    static std::vector<boost::context::stack_context> result;
    return result;
  }
};

struct Fiber {
  Thread thread;
  State state = State::kEnded;
  Place place;             // where it waits
  unsigned waits_for = 0;  // lanes, when in an exchange
  std::vector<Copy> open_copies;
  std::deque<std::vector<Copy>> committed_copies;
  boost::context::fiber self, scheduler;
  Stack stack, stack_of_scheduler;
  Block* block = nullptr;

  void yield();
  void resume() {
    void* saved = nullptr;
    leave_for(stack, &saved);
    self = std::move(self).resume();
    arrive(saved, nullptr);
  }
};

// The threads of one block at a time, reused from block to block.
class Block {
 public:
  Block(const Launch& launch, const std::function<void()>& kernel)
      : launch_(launch),
        kernel_(kernel),
        fibers_(static_cast<std::size_t>(launch.block.count())),
        shared_(launch.shared_bytes + kSharedAlignment + 2 * kRoom) {
    const Size size = launch.block;
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[i];
      const auto number = static_cast<unsigned>(i);
      fiber.thread.index = {number % size.x, number / size.x % size.y,
                            number / size.x / size.y};
      fiber.thread.block_size = size;
      fiber.thread.grid_size = launch.grid;
      fiber.thread.number = static_cast<int>(i);
      fiber.thread.lane = static_cast<int>(i) % kWarpSize;
      fiber.block = this;
      KeptStacks allocator;
      const auto memory = allocator.allocate();
      fiber.stack = {static_cast<const char*>(memory.sp) - memory.size,
                     memory.size};
      fiber.self = boost::context::fiber(
          std::allocator_arg,
          boost::context::preallocated(memory.sp, memory.size, memory),
          allocator, [this, &fiber](boost::context::fiber&& scheduler) {
            arrive(nullptr, &fiber.stack_of_scheduler);
            fiber.scheduler = std::move(scheduler);
            try {
              live(fiber);
            } catch (const Abandoned&) {
            }
            leave_for(fiber.stack_of_scheduler, nullptr);
            return std::move(fiber.scheduler);
          });
    }
    exchanges_.resize((fibers_.size() + kWarpSize - 1) / kWarpSize);
  }

  // Ends the fibers, which stand after a kernel or, after an error, within one.
  ~Block() {
    abandoned = true;
    for (Fiber& fiber : fibers_) fiber.resume();
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  bool abandoned = false;

  void run(std::int64_t index) {
    const Size grid = launch_.grid;
    const auto linear = static_cast<std::uint64_t>(index);
    const Size block_index(static_cast<unsigned>(linear % grid.x),
                           static_cast<unsigned>(linear / grid.x % grid.y),
                           static_cast<unsigned>(linear / grid.x / grid.y));
    std::memset(shared_.data(), 0xff, shared_.size());
    alive_ = static_cast<int>(fibers_.size());
    at_barrier_ = 0;
    for (auto& of_warp : exchanges_) of_warp.clear();
    for (Fiber& fiber : fibers_) {
      fiber.thread.block_index = block_index;
      fiber.state = State::kReady;
      fiber.open_copies.clear();
      fiber.committed_copies.clear();
    }
    if (observer != nullptr) {
      observer->block_begins(fibers_[0].thread, shared(),
                             launch_.shared_bytes);
    }
    while (alive_ > 0) {
      if (!run_ready_fibers()) throw std::runtime_error(deadlock());
    }
    if (observer != nullptr) observer->block_ends();
  }

  void sync(Fiber& fiber, const Place& place) {
    fiber.place = place;
    if (++at_barrier_ == alive_) {
      fiber.state = State::kAtBarrier;  // so that it counts
      release_barrier();
      return;
    }
    fiber.state = State::kAtBarrier;
    fiber.yield();
  }

  const std::byte* exchange(Fiber& fiber, unsigned mask, const void* bytes,
                            std::size_t size, const Place& place,
                            bool orders_memory) {
    const auto lane = static_cast<std::size_t>(fiber.thread.lane);
    if ((mask >> lane & 1u) == 0) {
      throw std::runtime_error(
          fmt::format("{}:{}: lane {} is not in its own mask {:#x}",
                      place.file, place.line, lane, mask));
    }
    MaskedExchange& masked = exchange_of(fiber, mask);
    Exchange& now = masked.exchanges[masked.turn[lane]];
    masked.turn[lane] ^= 1;
    if (now.arrived == mask) now.arrived = 0;  // of the round before last
    std::memcpy(now.deposits.data() + lane * kDepositSize, bytes, size);
    now.arrived |= 1u << lane;
    if (now.arrived == mask) {
      if (observer != nullptr) {
        observer->warp_meets(fiber.thread, mask, orders_memory);
      }
      for_warp(fiber, [&](Fiber& other) {
        if (other.state == State::kInExchange && other.waits_for == mask) {
          other.state = State::kReady;
        }
      });
    } else {
      fiber.state = State::kInExchange;
      fiber.waits_for = mask;
      fiber.place = place;
      fiber.yield();
    }
    return now.deposits.data();
  }

  void* shared() {
    void* start = shared_.data() + kRoom;
    std::size_t space = shared_.size() - kRoom;
    return std::align(kSharedAlignment, launch_.shared_bytes, start, space);
  }

 private:
  // A fiber's life: one kernel after another.
  void live(Fiber& fiber) {
    while (!abandoned) {
      try {
        kernel_();
      } catch (const Abandoned&) {
        throw;
      } catch (...) {
        error_ = std::current_exception();
      }
      end(fiber);
      fiber.yield();
    }
  }

  bool run_ready_fibers() {
    bool any = false;
    for (std::size_t first = 0; first < fibers_.size(); first += kWarpSize) {
      const std::size_t end = std::min(first + kWarpSize, fibers_.size());
      for (bool again = true; again;) {  // a warp goes on while it can
        again = false;
        for (std::size_t i = first; i < end; ++i) {
          Fiber& fiber = fibers_[i];
          if (fiber.state != State::kReady) continue;
          current = &fiber.thread;
          fiber.resume();
          current = nullptr;
          if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
          any = again = true;
        }
      }
    }
    return any;
  }

  void release_barrier() {
    at_barrier_ = 0;
    if (observer != nullptr) tell_of_barrier();
    for (Fiber& fiber : fibers_) {
      if (fiber.state == State::kAtBarrier) fiber.state = State::kReady;
    }
  }

  void tell_of_barrier() const {
    const Place* first = nullptr;
    const Place* second = nullptr;  // a different one, where there is
    int ended = 0;
    for (const Fiber& fiber : fibers_) {
      ended += fiber.state == State::kEnded;
      if (fiber.state != State::kAtBarrier) continue;
      if (first == nullptr) first = &fiber.place;
      if (fiber.place.line != first->line) second = &fiber.place;
    }
    observer->block_meets(*first, second != nullptr ? *second : *first,
                          second == nullptr, ended);
  }

  void end(Fiber& fiber) {
    fiber.state = State::kEnded;
    --alive_;
    if (observer != nullptr) observer->thread_ends(fiber.thread);
    if (alive_ > 0 && at_barrier_ == alive_) release_barrier();
  }

  template <class Visit>
  void for_warp(const Fiber& fiber, Visit visit) {
    const auto first =
        static_cast<std::size_t>(fiber.thread.number - fiber.thread.lane);
    const std::size_t end = std::min(first + kWarpSize, fibers_.size());
    for (std::size_t i = first; i < end; ++i) visit(fibers_[i]);
  }

  MaskedExchange& exchange_of(const Fiber& fiber, unsigned mask) {
    auto& of_warp =
        exchanges_[static_cast<std::size_t>(fiber.thread.number / kWarpSize)];
    for (const auto& masked : of_warp) {
      if (masked->mask == mask) return *masked;
    }
    of_warp.push_back(std::make_unique<MaskedExchange>());
    of_warp.back()->mask = mask;
    return *of_warp.back();
  }

  // Says who waits where.
  std::string deadlock() const {
    const Size index = fibers_[0].thread.block_index;
    std::string text = fmt::format("deadlock in block ({}, {}, {}):", index.x,
                                   index.y, index.z);
    struct Group {
      State state;
      Place place;
      int count, first;
    };
    std::vector<Group> groups;
    for (const Fiber& fiber : fibers_) {
      const auto same =
          std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
            return group.state == fiber.state &&
                   group.place.line == fiber.place.line &&
                   group.place.file == fiber.place.file;
          });
      if (same != groups.end()) {
        ++same->count;
      } else {
        groups.push_back({fiber.state, fiber.place, 1, fiber.thread.number});
      }
    }
    for (const Group& group : groups) {
      text += fmt::format("\n  {} thread{} (first: {}) ", group.count,
                          group.count == 1 ? "" : "s", group.first);
      switch (group.state) {
        case State::kAtBarrier:
          text += fmt::format("at __syncthreads, {}:{}", group.place.file,
                              group.place.line);
          break;
        case State::kInExchange:
          text += fmt::format("in a warp operation, {}:{}", group.place.file,
                              group.place.line);
          break;
        default:
          text += "ended";
      }
    }
    return text +
           "\n  A barrier must be reached by all threads of the block, a "
           "warp "
           "operation by all lanes of its mask.";
  }

  const Launch launch_;
  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  std::vector<std::byte> shared_;
  std::vector<std::vector<std::unique_ptr<MaskedExchange>>> exchanges_;
  int alive_ = 0, at_barrier_ = 0;
  std::exception_ptr error_;
};

void Fiber::yield() {
  void* saved = nullptr;
  leave_for(stack_of_scheduler, &saved);
  scheduler = std::move(scheduler).resume();
  arrive(saved, &stack_of_scheduler);
  if (block->abandoned) throw Abandoned{};
}

// The fiber that runs now: `current` is its first member's address.
Fiber& this_fiber() {
  static_assert(offsetof(Fiber, thread) == 0);
  return *reinterpret_cast<Fiber*>(const_cast<Thread*>(current));
}

void perform(const Copy& copy) {
  if (copy.source == nullptr) {
    std::memset(copy.destination, 0, copy.size);
  } else {
    std::memcpy(copy.destination, copy.source, copy.size);
  }
}

}  // namespace

void run(const Launch& launch, const std::function<void()>& kernel) {
  const std::int64_t blocks = launch.grid.count();
  std::atomic<std::int64_t> next{0};
  const auto workers = std::min<std::int64_t>(
      observer != nullptr ? 1 : thread_count(), blocks);
  if (observer != nullptr) observer->launch_begins(launch);
  parallel_for(workers, [&](std::int64_t) {
    Block block(launch, kernel);
    for (std::int64_t i; (i = next.fetch_add(1)) < blocks;) {
      try {
        block.run(i);
      } catch (...) {
        next = blocks;  // the others stop as well
        throw;
      }
    }
  });
}

void* dynamic_shared() {
  return this_fiber().block->shared();
}

void sync_block(const Place& place) {
  Fiber& fiber = this_fiber();
  fiber.block->sync(fiber, place);
}

const std::byte* exchange(unsigned mask, const void* bytes, std::size_t size,
                          const Place& place) {
  Fiber& fiber = this_fiber();
  return fiber.block->exchange(fiber, mask, bytes, size, place, false);
}

void sync_warp(unsigned mask, const Place& place) {
  Fiber& fiber = this_fiber();
  fiber.block->exchange(fiber, mask, &mask, 0, place, true);
}

unsigned existing_lanes() {
  const auto launched = current->block_size.count();
  const std::int64_t lanes = std::min<std::int64_t>(
      kWarpSize, launched - current->number + current->lane);
  return lanes == kWarpSize ? 0xffffffffu : (1u << lanes) - 1;
}

void copy_async(void* destination, const void* source, std::size_t size,
                const Place& place) {
  if (observer != nullptr) {
    if (source != nullptr) observer->accesses(source, size, false, place);
    observer->copy_begins(destination, size, place);
  }
  std::memset(destination, 0xff, size);  // NaN until it is waited for
  this_fiber().open_copies.push_back({destination, source, size, place});
}

void commit_copies() {
  Fiber& fiber = this_fiber();
  fiber.committed_copies.push_back(std::exchange(fiber.open_copies, {}));
}

void wait_copies(int pending) {
  auto& groups = this_fiber().committed_copies;
  while (groups.size() > static_cast<std::size_t>(pending)) {
    for (const Copy& copy : groups.front()) {
      perform(copy);
      if (observer != nullptr) {
        observer->copy_ends(copy.destination, copy.size, copy.place);
      }
    }
    groups.pop_front();
  }
}

void* allocate(std::size_t bytes) {
  // Systems promise more than they have, and kill the program that takes it.
  const std::size_t in_all =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
      static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* memory = nullptr;
  if (bytes <= in_all) {
    memory = static_cast<std::byte*>(::operator new (
        bytes + 2 * kRoom, std::align_val_t{kRoom}, std::nothrow));
  }
  if (memory == nullptr) {
    throw std::runtime_error(fmt::format(
        "{} bytes of memory were asked for; the lab's machine has {} in all",
        bytes, in_all));
  }
  memory += kRoom;
  if (observer != nullptr) observer->allocated(memory, bytes);
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  if (observer != nullptr) observer->released(memory);
  ::operator delete (static_cast<std::byte*>(memory) - kRoom,
                     std::align_val_t{kRoom});
}

void upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  std::memcpy(to, from, bytes);
  if (observer != nullptr) observer->host_wrote(to, bytes, false);
}

void fill(void* memory, int byte, std::size_t bytes, bool means_nothing) {
  if (bytes == 0) return;
  std::memset(memory, byte, bytes);
  if (observer != nullptr) observer->host_wrote(memory, bytes, means_nothing);
}

void note_access(const void* address, std::size_t size, bool write,
                 const Place& place) {
  if (observer != nullptr) observer->accesses(address, size, write, place);
}

}  // namespace fa::lab
