#include "common/lab/engine.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/lab/async.hpp"
#include "common/lab/record.hpp"
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
constexpr std::size_t kSharedAlignment = 1024;
constexpr std::size_t kRoom = 4096;  // on either side of memory that kernels are given

// One exchange among the lanes of one mask. Two of them alternate: a fast lane may come to
// the next exchange before a slow one has read this one.
struct Exchange {
  unsigned arrived = 0;
  SourceLocation first;  // where the first lane came
  bool orders = false;   // it is a __syncwarp()
  alignas(16) std::array<std::byte, kWarpSize * kDepositSize> deposits;
};
struct MaskedExchange {
  unsigned mask;
  std::array<std::uint8_t, kWarpSize> turn{};  // of each lane: 0 or 1
  std::array<Exchange, 2> exchanges;
};

enum class State {
  kReady,
  kPolling,
  kAtBarrier,
  kAtMbarrier,
  kAtNamedBarrier,
  kAtCluster,
  kInExchange,
  kEnded
};

constexpr int kNamedBarriers = 16;
// Registers of an SM; a thread gets them by eights, and 256 at most.
constexpr int kRegisters = 64 * 1024;

struct Copy {
  void* destination;
  const void* source;
  std::size_t size;
  SourceLocation location;
};

class Block;

// Thrown out of a kernel that is not to go on.
struct Abandoned {};

// Memory of a stack, as AddressSanitizer wants it.
struct Stack {
  const void* bottom = nullptr;
  std::size_t size = 0;
};

// To be called for a stack that has ended, before another fiber has it: it must not inherit what
// AddressSanitizer remembers of frames that never returned.
void forget_stack([[maybe_unused]] const Stack& stack) {
#ifndef FA_NO_ASAN
  __asan_unpoison_memory_region(stack.bottom, stack.size);
#endif
}
// To be called before and after each switch to another stack.
void leave_for([[maybe_unused]] const Stack& stack, [[maybe_unused]] void** saved) {
#ifndef FA_NO_ASAN
  __sanitizer_start_switch_fiber(saved, stack.bottom, stack.size);
#endif
}
void come_from([[maybe_unused]] void* saved, [[maybe_unused]] Stack* came_from) {
#ifndef FA_NO_ASAN
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(saved, &bottom, &size);
  if (came_from != nullptr) *came_from = {bottom, size};
#endif
}

// Stacks of fibers that have ended, kept for the next launch: to map one anew takes longer than to
// run a small kernel on it. Used as an allocator of boost::context.
class KeptStacks {
 public:
  boost::context::stack_context allocate() {
    const std::lock_guard lock(mutex());
    if (kept().empty()) {
      return boost::context::protected_fixedsize_stack(kStackBytes).allocate();
    }
    const auto stack = kept().back();
    kept().pop_back();
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) {
    forget_stack({static_cast<const char*>(stack.sp) - stack.size, stack.size});
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
  SourceLocation location;        // where it waits
  unsigned waits_for = 0;         // lanes, when in an exchange
  const void* barrier = nullptr;  // at which it waits: its address, or name
  int parity = 0;                 // of the phase, at an mbarrier
  const void* polled = nullptr;   // the last flag that it read
  bool came_to_cluster = false;   // to its barrier, and has not waited
  bool in_cluster_phase = false;  // the same, and others are missing
  bool crashed = false;           // it has left its stack for ever
  bool lost = false;              // its stack must not be unwound
  std::vector<const void*> lent;  // registers that wgmma may have
  Stores stores;
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
    come_from(saved, nullptr);
  }
  // Leaves its stack for ever.
  void crash() {
    crashed = lost = true;
    scheduler = std::move(scheduler).resume();
  }
};

// The workers of a launch: threads of the operating system that run its blocks.
struct Workers {
  explicit Workers(std::int64_t count) : running(count) {}
  std::atomic<std::int64_t> running;   // that have blocks left
  std::atomic<std::int64_t> idle{0};   // in whose block threads only poll
  std::atomic<std::int64_t> woken{0};  // how often one was no longer idle
};
// Rounds through the threads of a block in which all of them only poll, before its worker counts as
// idle, and before a launch of idle workers is given up. A worker that the operating system does
// not run needs time besides.
constexpr int kIdleRounds = 1000;
constexpr std::chrono::seconds kIdleTime{2};
// Time of a processor that a thread may run without giving way. An observed one is slow, and
// noticed earlier.
constexpr std::chrono::seconds kLongestRun{10};

// The threads of one block at a time, or of the blocks of one cluster; reused from one to the next.
class Block {
 public:
  Block(const Launch& launch, const std::function<void()>& kernel, Workers& workers)
      : launch_(launch),
        kernel_(kernel),
        workers_(workers),
        fibers_(static_cast<std::size_t>(launch.block.count() * launch.cluster)),
        of_cluster_(static_cast<std::size_t>(launch.cluster)) {
    const Size size = launch.block;
    for (OfBlock& block : of_cluster_) {
      block.shared.resize(launch.shared_bytes + kSharedAlignment + 2 * kRoom);
    }
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[i];
      const auto number = static_cast<unsigned>(i % static_cast<std::size_t>(size.count()));
      fiber.thread.rank = static_cast<int>(i / static_cast<std::size_t>(size.count()));
      fiber.thread.place = static_cast<int>(i);
      fiber.thread.index = {number % size.x, number / size.x % size.y, number / size.x / size.y};
      fiber.thread.block_size = size;
      fiber.thread.grid_size = launch.grid;
      fiber.thread.number = static_cast<int>(number);
      fiber.thread.lane = static_cast<int>(number) % kWarpSize;
      fiber.block = this;
      KeptStacks allocator;
      const auto memory = allocator.allocate();
      fiber.stack = {static_cast<const char*>(memory.sp) - memory.size, memory.size};
      fiber.self = boost::context::fiber(
          std::allocator_arg, boost::context::preallocated(memory.sp, memory.size, memory),
          allocator, [this, &fiber](boost::context::fiber&& scheduler) {
            come_from(nullptr, &fiber.stack_of_scheduler);
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
    products_.resize(exchanges_.size());
  }

  // Ends the fibers, which stand after a kernel or, after an error, within one.
  ~Block() {
    wake();
    abandoned = true;
    for (Fiber& fiber : fibers_) {
      if (fiber.lost) {
        new boost::context::fiber(std::move(fiber.self));  // to be leaked
      } else {
        fiber.resume();
      }
    }
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  bool abandoned = false;
  std::atomic<std::int64_t> switches{0};  // from a thread to another one
  std::atomic<bool> stuck{false};         // the thread that runs does not end

  // The first block of a cluster, and so the others.
  void run(std::int64_t index) {
    const Size grid = launch_.grid;
    const auto linear = static_cast<std::uint64_t>(index);
    const Size block_index(static_cast<unsigned>(linear % grid.x),
                           static_cast<unsigned>(linear / grid.x % grid.y),
                           static_cast<unsigned>(linear / grid.x / grid.y));
    for (OfBlock& block : of_cluster_) {
      std::memset(block.shared.data(), 0xff, block.shared.size());
      block.alive = static_cast<int>(launch_.block.count());
      block.at_barrier = 0;
      block.named = {};
    }
    alive_ = static_cast<int>(fibers_.size());
    at_cluster_ = 0;
    for (auto& of_warp : exchanges_) of_warp.clear();
    for (Products& products : products_) products.clear();
    barriers_.clear();
    registers_.clear();
    for (Fiber& fiber : fibers_) {
      fiber.thread.block_index = block_index;
      fiber.thread.block_index.x += static_cast<unsigned>(fiber.thread.rank);
      fiber.came_to_cluster = fiber.in_cluster_phase = false;
      fiber.state = State::kReady;
      fiber.barrier = nullptr;
      fiber.polled = nullptr;
      fiber.open_copies.clear();
      fiber.committed_copies.clear();
      fiber.lent.clear();
      fiber.stores.clear();
    }
    if (observer != nullptr) {
      for (int rank = 0; rank < launch_.cluster; ++rank) {
        const auto first = static_cast<std::size_t>(rank * launch_.block.count());
        observer->block_begins(fibers_[first].thread, shared(rank), launch_.shared_bytes);
      }
    }
    if (recorder != nullptr) recorder->block_begins(exchanges_.size());
    while (alive_ > 0) {
      if (run_ready_fibers()) {
        wake();
      } else {
        check_idle();
      }
    }
    check_end();
    if (observer != nullptr) observer->block_ends();
  }

  void sync(Fiber& fiber, const SourceLocation& location) {
    fiber.location = location;
    record_warp(fiber, Step::Kind::kMeet);
    OfBlock& block = block_of(fiber);
    if (++block.at_barrier == block.alive) {
      fiber.state = State::kAtBarrier;  // so that it counts
      release_barrier(fiber.thread.rank);
      return;
    }
    fiber.state = State::kAtBarrier;
    fiber.yield();
  }

  // Comes to the barrier of all threads of the cluster.
  void arrive_at_cluster(Fiber& fiber, const SourceLocation& location) {
    check_turn(!fiber.came_to_cluster, location);
    fiber.came_to_cluster = fiber.in_cluster_phase = true;
    if (observer != nullptr) observer->releases(&at_cluster_);
    if (++at_cluster_ == alive_) end_cluster_phase();
  }
  void wait_at_cluster(Fiber& fiber, const SourceLocation& location) {
    check_turn(fiber.came_to_cluster, location);
    fiber.came_to_cluster = false;
    if (fiber.in_cluster_phase) {
      fiber.state = State::kAtCluster;
      fiber.location = location;
      fiber.yield();
    }
    if (observer != nullptr) observer->acquires(&at_cluster_);
  }

  // Where something in a block's dynamic shared memory lies in another block of the cluster.
  void* of_peer(const Fiber& fiber, const void* pointer, int rank, const SourceLocation& location) {
    const auto offset = static_cast<const std::byte*>(pointer) -
                        static_cast<const std::byte*>(shared(fiber.thread.rank));
    if (rank < 0 || rank >= launch_.cluster) {
      throw std::runtime_error(fmt::format("{}:{}: block {} of a cluster of {}", location.file,
                                           location.line, rank, launch_.cluster));
    }
    if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(launch_.shared_bytes)) {
      throw std::runtime_error(
          fmt::format("{}:{}: shared memory of another block that is not dynamic: the lab knows "
                      "no other for clusters",
                      location.file, location.line));
    }
    return static_cast<std::byte*>(shared(rank)) + offset;
  }

  // `last` is called when all have come, before any of them goes on.
  template <class Last>
  const std::byte* exchange(Fiber& fiber, unsigned mask, const void* bytes, std::size_t size,
                            const SourceLocation& location, bool orders_memory, Last last) {
    const auto lane = static_cast<std::size_t>(fiber.thread.lane);
    if ((mask >> lane & 1u) == 0) {
      throw std::runtime_error(fmt::format("{}:{}: lane {} is not in its own mask {:#x}",
                                           location.file, location.line, lane, mask));
    }
    MaskedExchange& masked = exchange_of(fiber, mask);
    Exchange& now = masked.exchanges[masked.turn[lane]];
    masked.turn[lane] ^= 1;
    if (now.arrived == mask) now.arrived = 0;  // of the round before last
    if (now.arrived == 0) {
      now.first = location;
      now.orders = orders_memory;
    } else if (!(orders_memory && now.orders) && !same(location, now.first)) {
      find_two_lines(lane, location, now.first);
    }
    std::memcpy(now.deposits.data() + lane * kDepositSize, bytes, size);
    now.arrived |= 1u << lane;
    if (now.arrived == mask) {
      if (observer != nullptr) {
        observer->warp_meets(fiber.thread, mask, orders_memory);
      }
      last(now.deposits.data());
      for_warp(fiber, [&](Fiber& other) {
        if (other.state == State::kInExchange && other.waits_for == mask) {
          other.state = State::kReady;
        }
      });
    } else {
      fiber.state = State::kInExchange;
      fiber.waits_for = mask;
      fiber.location = location;
      fiber.yield();
    }
    return now.deposits.data();
  }

  // ---------------------------------------------------------------- asynchrony

  void init(const Fiber& fiber, void* barrier, int arrivals, const SourceLocation& location) {
    if (arrivals < 1 || arrivals > 0xfffff) {
      throw std::runtime_error(
          fmt::format("{}:{}: an mbarrier of {} arrivals; allowed are 1 to 1048575", location.file,
                      location.line, arrivals));
    }
    if (reinterpret_cast<std::uintptr_t>(barrier) % 8 != 0) {
      throw std::runtime_error(
          fmt::format("{}:{}: an mbarrier at an address that is not a multiple of 8", location.file,
                      location.line));
    }
    BarrierState& state = barriers_[barrier];
    if (observer != nullptr && state.arrivals > 0) {
      observer->finds("barrier", location, state.made,
                      fmt::format("thread {} initialises an mbarrier again; one thread does so, "
                                  "once",
                                  fiber.thread.number));
    }
    state = {};
    state.made = location;
    state.arrivals = state.missing = arrivals;
    record_at(fiber, Step::Kind::kInit, barrier, arrivals);
    if (observer != nullptr) observer->barrier_made(barrier, location);
  }

  void arrive(const Fiber& fiber, void* barrier, std::int64_t bytes,
              const SourceLocation& location) {
    BarrierState& state = state_of(barrier, location);
    if (state.missing == 0) {
      throw std::runtime_error(fmt::format(
          "{}:{}: more than the {} arrivals of a phase that the mbarrier was "
          "initialised for, at {}:{}",
          location.file, location.line, state.arrivals, state.made.file, state.made.line));
    }
    if (observer != nullptr) {
      observer->barrier_used(barrier, false, location);
      observer->releases(barrier);
      check_arrival(fiber, state, location);
    }
    record_at(fiber, Step::Kind::kArrive, barrier, 1, bytes);
    state.bytes += bytes;
    --state.missing;
    advance(barrier, state, location);
  }

  void wait(Fiber& fiber, void* barrier, int parity, const SourceLocation& location) {
    BarrierState& state = state_of(barrier, location);
    check_parity(parity, state, location);
    if (observer != nullptr) observer->barrier_used(barrier, false, location);
    // Which phase this is about, as a number: a record knows no parity.
    const std::uint32_t phases = state.phases + (state.ended(parity) ? 0 : 1);
    if (!state.ended(parity)) {
      fiber.state = State::kAtMbarrier;
      fiber.barrier = barrier;
      fiber.parity = parity;
      fiber.location = location;
      fiber.yield();
      fiber.barrier = nullptr;
    }
    state.seen = state.phases;
    if (fiber.thread.lane == 0) {
      record_at(fiber, Step::Kind::kWait, barrier, static_cast<int>(phases));
    }
    state.land();
    if (observer != nullptr) {
      observer->async_ends(barrier, state.phases, false);
      observer->acquires(barrier);
    }
  }

  // Copies to the same place in several blocks of the cluster.
  void load_multicast(const Fiber& fiber, const BulkCopy& copy, void* barrier, unsigned blocks) {
    if (blocks == 0 || blocks >> launch_.cluster != 0) {
      throw std::runtime_error(fmt::format("{}:{}: a copy to the blocks {:#b} of a cluster of {}",
                                           copy.location.file, copy.location.line, blocks,
                                           launch_.cluster));
    }
    if (observer != nullptr) tell_of_global(copy);
    for (int rank = 0; rank < launch_.cluster; ++rank) {
      if ((blocks >> rank & 1u) == 0) continue;
      BulkCopy to_peer = copy;
      to_peer.shared = static_cast<std::byte*>(of_peer(fiber, copy.shared, rank, copy.location));
      load(fiber, to_peer, of_peer(fiber, barrier, rank, copy.location), rank, false);
    }
  }

  void load(const Fiber& fiber, const BulkCopy& copy, void* barrier) {
    load(fiber, copy, barrier, fiber.thread.rank, true);
  }
  // To a block of the cluster.
  void load(const Fiber& fiber, const BulkCopy& copy, void* barrier, int rank, bool tells) {
    check_copy(copy, rank);
    record_copy(fiber, Step::Kind::kLoad, copy, barrier);
    BarrierState& state = state_of(barrier, copy.location);
    std::uint32_t phase = state.phases;
    if (observer != nullptr) {
      observer->barrier_used(barrier, true, copy.location);
      if (tells) tell_of_global(copy);
    }
    const auto size = static_cast<std::int64_t>(copy.size);
    // More than the barrier waits for: it does not wait for the rest of them.
    if (state.missing == 0 && size > state.bytes) {
      if (observer != nullptr) {
        observer->finds("copy", copy.location, state.made,
                        fmt::format("a copy brings {} bytes to an mbarrier that was told "
                                    "to expect {} more: its phase ends before all of "
                                    "them are there; the bytes of arrive_and_expect() "
                                    "and of the copies must agree",
                                    copy.size, state.bytes));
      }
      ++phase;
    }
    std::memset(copy.shared, 0xff, copy.size);  // NaN until it is waited for
    if (observer != nullptr) {
      observer->async_uses(barrier, AsyncUse::kCopy, phase + 1, copy.shared, copy.size,
                           copy.location);
      for (std::size_t i = 0; copy.kind == BulkCopy::Kind::kPeerBytes && i < copy.size; i += 16) {
        observer->async_uses(barrier, AsyncUse::kPeerCopy, phase + 1, copy.global + i, 16,
                             copy.location);
      }
    }
    state.copies.emplace_back(phase, copy);
    state.bytes -= size;
    advance(barrier, state, copy.location);
  }

  void store(Fiber& fiber, const BulkCopy& copy) {
    check_copy(copy, fiber.thread.rank);
    record_copy(fiber, Step::Kind::kStore, copy, nullptr);
    fiber.stores.open.push_back(copy);
    if (observer == nullptr) return;
    for (const Piece& piece : copy.pieces()) {
      const auto first = reinterpret_cast<std::uintptr_t>(piece.shared) % 16;
      for (std::size_t i = 0; i < first + piece.size; i += 16) {
        std::byte* const at = piece.shared - first + i;
        observer->async_uses(
            &fiber, AsyncUse::kStore,
            fiber.stores.ended + static_cast<std::uint32_t>(fiber.stores.groups.size()) + 1,
            copy.swizzled() ? copy.place(at) : at, 16, copy.location);
      }
    }
    tell_of_global(copy);
  }

  void named(Fiber& fiber, int id, int threads, bool waits, const SourceLocation& location) {
    if (id < 0 || id >= kNamedBarriers) {
      throw std::runtime_error(
          fmt::format("{}:{}: a barrier with the number {}; allowed are 0 to "
                      "{}",
                      location.file, location.line, id, kNamedBarriers - 1));
    }
    if (threads < kWarpSize || threads > kMaxThreads || threads % kWarpSize != 0) {
      throw std::runtime_error(
          fmt::format("{}:{}: barrier {} for {} threads; allowed are multiples of {} to "
                      "{}",
                      location.file, location.line, id, threads, kWarpSize, kMaxThreads));
    }
    NamedBarrier& barrier = block_of(fiber).named[static_cast<std::size_t>(id)];
    if (barrier.arrived == 0) {
      barrier.threads = threads;
      barrier.first = location;
    } else if (barrier.threads != threads) {
      throw std::runtime_error(fmt::format(
          "{}:{}: barrier {} for {} threads, where others said {}, at {}:{}", location.file,
          location.line, id, threads, barrier.threads, barrier.first.file, barrier.first.line));
    }
    if (observer != nullptr && id == 0 && threads != fiber.thread.block_size.count()) {
      observer->finds("barrier", location, {},
                      fmt::format("named barrier 0 for {} of the {} threads of the block; "
                                  "__syncthreads() uses the same barrier: take one of 1 to {}",
                                  threads, fiber.thread.block_size.count(), kNamedBarriers - 1));
    }
    record_warp(fiber, waits ? Step::Kind::kNamedWait : Step::Kind::kNamedArrive, threads, id);
    if (observer != nullptr) observer->releases(&barrier);
    if (++barrier.arrived == threads) {
      barrier.arrived = 0;
      if (observer != nullptr) observer->phase_ends(&barrier);
      for (Fiber& other : fibers_) {
        if (other.state == State::kAtNamedBarrier && other.barrier == &barrier) {
          other.state = State::kReady;
        }
      }
    } else if (waits) {
      fiber.state = State::kAtNamedBarrier;
      fiber.barrier = &barrier;
      fiber.location = location;
      fiber.yield();
      fiber.barrier = nullptr;
    }
    if (waits && observer != nullptr) observer->acquires(&barrier);
  }

  void set_registers(const Fiber& fiber, int registers, const SourceLocation& location) {
    if (registers < 24 || registers > 256 || registers % 8 != 0) {
      throw std::runtime_error(
          fmt::format("{}:{}: {} registers for a thread; allowed are "
                      "multiples of 8 from 24 to 256",
                      location.file, location.line, registers));
    }
    registers_.resize(exchanges_.size(), 0);
    registers_[warp_of(fiber)] = registers;
    registers_location_ = location;
  }

  // Takes down what a lane does, while a recorder is set.
  static void record_lane(const Fiber& fiber, Step::Kind kind, int count = 0, int barrier = 0) {
    if (recorder == nullptr) return;
    Step step;
    step.kind = kind;
    step.count = count;
    step.barrier = barrier;
    recorder->add(warp_of(fiber), step);
  }
  // The same for what all lanes of a warp do: once.
  static void record_warp(const Fiber& fiber, Step::Kind kind, int count = 0, int barrier = 0) {
    if (fiber.thread.lane == 0) record_lane(fiber, kind, count, barrier);
  }
  static std::size_t warp_of(const Fiber& fiber) {
    return static_cast<std::size_t>(fiber.thread.place / kWarpSize);
  }

  Products& products_of(const Fiber& fiber) { return products_[warp_of(fiber)]; }
  Products::Setting setting_of(const Fiber& fiber) {
    const int first_thread = fiber.thread.place - fiber.thread.lane;
    return {static_cast<const std::byte*>(shared(fiber.thread.rank)), launch_.shared_bytes,
            first_thread / kWarpSize % 4 * 16, first_thread};
  }
  std::size_t shared_bytes() const { return launch_.shared_bytes; }
  // What each warp of the last block asked for.
  const std::vector<int>& registers() const { return registers_; }

  void* shared(int rank) {
    std::vector<std::byte>& memory = of_cluster_[static_cast<std::size_t>(rank)].shared;
    void* start = memory.data() + kRoom;
    std::size_t space = memory.size() - kRoom;
    return std::align(kSharedAlignment, launch_.shared_bytes, start, space);
  }

 private:
  static bool same(const SourceLocation& a, const SourceLocation& b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
  }
  // Lanes that meet in a warp operation are at different lines. __syncwarp() alone allows that.
  static void find_two_lines(std::size_t lane, const SourceLocation& location,
                             const SourceLocation& first) {
    const std::string text = fmt::format(
        "lane {} is at this warp operation while other lanes of its mask are "
        "at the other line: all lanes of a mask must execute the same "
        "operation; move it out of the branch",
        lane);
    if (observer == nullptr) {
      throw std::runtime_error(fmt::format("{}:{} and {}:{}: {}", location.file, location.line,
                                           first.file, first.line, text));
    }
    observer->finds("warp", location, first, text);
  }

  static void check_turn(bool right, const SourceLocation& location) {
    if (right) return;
    throw std::runtime_error(
        fmt::format("{}:{}: cluster_arrive() and cluster_wait() do not take turns in this thread",
                    location.file, location.line));
  }

  // The threads of this block do more than poll.
  void wake() {
    idle_rounds_ = 0;
    if (!idle_) return;
    idle_ = false;
    ++workers_.woken;
    --workers_.idle;
  }
  // All threads of this block wait, or poll what other blocks may still change.
  void check_idle() {
    const bool polling = std::any_of(fibers_.begin(), fibers_.end(), [](const Fiber& fiber) {
      return fiber.state == State::kPolling;
    });
    if (!polling) throw std::runtime_error(deadlock());
    if (!idle_ && ++idle_rounds_ < kIdleRounds) return;
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
    } else if (++idle_rounds_ > kIdleRounds &&
               // Observed blocks run alone; else the host may set a flag, too.
               (observer != nullptr || now - idle_since_ > kIdleTime)) {
      throw std::runtime_error(deadlock());
    }
    if (running > 1) std::this_thread::yield();
  }

  // What a lane does at an mbarrier.
  static void record_at(const Fiber& fiber, Step::Kind kind, const void* barrier, int count,
                        std::int64_t bytes = 0) {
    if (recorder == nullptr) return;
    Step step;
    step.kind = kind;
    step.barrier = recorder->number_of(barrier);
    step.count = count;
    step.bytes = bytes;
    recorder->add(warp_of(fiber), step);
  }
  static void record_copy(const Fiber& fiber, Step::Kind kind, const BulkCopy& copy,
                          const void* barrier) {
    if (recorder == nullptr) return;
    Step step;
    step.kind = kind;
    step.bytes = static_cast<std::int64_t>(copy.size);
    step.tensor = copy.swizzled() ? recorder->tensor_of(copy.box.data) : -1;
    step.adds = !copy.swizzled();
    if (barrier != nullptr) step.barrier = recorder->number_of(barrier);
    recorder->add(warp_of(fiber), step);
  }

  BarrierState& state_of(const void* barrier, const SourceLocation& location) {
    const auto found = barriers_.find(barrier);
    if (found == barriers_.end()) {
      throw std::runtime_error(
          fmt::format("{}:{}: an mbarrier that is not initialised yet; a "
                      "__syncthreads() after init() is probably missing",
                      location.file, location.line));
    }
    return found->second;
  }

  // A thread that comes twice takes the place of another one.
  void check_arrival(const Fiber& fiber, BarrierState& state, const SourceLocation& location) {
    state.came.resize(fibers_.size());
    auto& last = state.came[static_cast<std::size_t>(fiber.thread.place)];
    if (last == state.phases + 1) {
      observer->finds("barrier", location, state.made,
                      fmt::format("thread {} arrives twice in one phase of the mbarrier "
                                  "that was initialised at the other line; a wait "
                                  "before this line probably has the parity of a phase "
                                  "that had ended long before",
                                  fiber.thread.number));
    }
    last = state.phases + 1;
  }

  // A GPU defines no other parities.
  static void check_parity(int parity, const BarrierState& state, const SourceLocation& location) {
    if (parity == 0 || parity == 1) return;
    const std::string text = fmt::format(
        "a wait at an mbarrier for the parity {}; a phase has the parity 0 or 1", parity);
    if (observer == nullptr) {
      throw std::runtime_error(fmt::format("{}:{}: {}", location.file, location.line, text));
    }
    observer->finds("barrier", location, state.made, text);
  }

  // A wait knows a phase by its parity alone: if two phases end with no wait between them, a thread
  // that waits cannot tell that any has ended.
  static void check_seen(const BarrierState& state, const SourceLocation& location) {
    if (observer == nullptr || state.seen >= state.phases) return;
    observer->finds(
        "barrier", location, state.made,
        fmt::format("a phase of the mbarrier that was initialised at the other line ends "
                    "although no thread has waited for the phase before it: more arrive "
                    "than the {} of a phase, or a wait is missing",
                    state.arrivals));
  }

  // Ends a barrier's phase if all have come.
  void advance(const void* barrier, BarrierState& state, const SourceLocation& location) {
    if (state.missing > 0 || state.bytes > 0) return;
    check_seen(state, location);
    ++state.phases;
    state.missing = state.arrivals;
    if (observer != nullptr) observer->phase_ends(barrier);
    for (Fiber& fiber : fibers_) {
      if (fiber.state == State::kAtMbarrier && fiber.barrier == barrier &&
          state.ended(fiber.parity)) {
        fiber.state = State::kReady;
        state.seen = state.phases;
      }
    }
  }

  void check_copy(const BulkCopy& copy, int rank) {
    const std::size_t alignment = copy.swizzled() ? kBoxAlignment : 16;
    const auto refuse = [&](const std::string& what) {
      throw std::runtime_error(
          fmt::format("{}:{}: {}", copy.location.file, copy.location.line, what));
    };
    if (reinterpret_cast<std::uintptr_t>(copy.shared) % alignment != 0) {
      refuse(
          fmt::format("a copy to or from an address in shared memory that is "
                      "not a multiple "
                      "of {}",
                      alignment));
    }
    if (copy.size % 16 != 0 || reinterpret_cast<std::uintptr_t>(copy.global) % 16 != 0) {
      refuse(
          fmt::format("a copy of {} bytes to or from global memory; allowed "
                      "are multiples of 16, at addresses that are such",
                      copy.size));
    }
    if (copy.swizzled() && copy.at[3] % 8 != 0) {
      refuse(
          fmt::format("a box whose first column is {}; allowed are multiples of 8, which "
                      "are 16 bytes",
                      copy.at[3]));
    }
    if (copy.kind == BulkCopy::Kind::kStoreBox &&
        *std::min_element(copy.at.begin(), copy.at.end()) < 0) {
      refuse(
          fmt::format("a box is stored from row {} and column {} of head {} of sequence "
                      "{} on; allowed are such from 0 on",
                      copy.at[2], copy.at[3], copy.at[1], copy.at[0]));
    }
    const auto begin = copy.shared - static_cast<std::byte*>(shared(rank));
    const auto end = static_cast<std::ptrdiff_t>(launch_.shared_bytes);
    if (begin > -static_cast<std::ptrdiff_t>(kRoom) && begin < end &&
        begin + static_cast<std::ptrdiff_t>(copy.size) > end) {
      refuse(
          fmt::format("a copy of {} bytes at byte {} of the dynamic shared "
                      "memory, which has {}; the launch asks for too little, "
                      "or an index is wrong",
                      copy.size, begin, end));
    }
  }

  static void tell_of_global(const BulkCopy& copy) {
    if (copy.kind == BulkCopy::Kind::kPeerBytes) return;
    const std::vector<Piece> pieces = copy.pieces();
    if (pieces.empty()) return;
    std::vector<const void*> rows;
    for (const Piece& piece : pieces) rows.push_back(piece.global);
    using Kind = BulkCopy::Kind;
    observer->moves(rows, pieces.front().size,
                    copy.kind != Kind::kLoadBox && copy.kind != Kind::kLoadBytes,
                    copy.kind == Kind::kAddFloats, copy.location);
  }

  // Of a block, with whole warps.
  int threads_of_warps() const {
    return static_cast<int>(exchanges_.size() / of_cluster_.size()) * kWarpSize;
  }
  // Of a thread, if all of an SM's go to this block.
  int registers_at_first() const { return std::min(kRegisters / threads_of_warps() / 8 * 8, 256); }

  // What must not be left when a block ends.
  void check_end() {
    const int of_thread = registers_at_first();
    int registers = 0;  // of the whole cluster: its blocks are alike
    for (const int of_warp : registers_) {
      registers += (of_warp > 0 ? of_warp : of_thread) * kWarpSize;
    }
    const int at_first = of_thread * threads_of_warps() * launch_.cluster;
    if (registers > at_first) {
      throw std::runtime_error(
          fmt::format("{}:{}: the warps of a block take {} registers in all; of those "
                      "that it was launched with there are {} at most",
                      registers_location_.file, registers_location_.line, registers, at_first));
    }
    if (observer == nullptr) return;
    for (const auto& entry : barriers_) {
      for (const auto& of_phase : entry.second.copies) {
        observer->finds("copy", of_phase.second.location, {},
                        "the block ends while this copy may be in flight: "
                        "no thread has waited for its barrier");
      }
    }
  }

  // The same for a thread, and for the last one of a warp.
  void check_end(const Fiber& fiber) {
    const Stores& stores = fiber.stores;
    if (!stores.open.empty()) {
      observer->finds("copy", stores.open.front().location, {},
                      "the thread ends without bulk_commit() after this "
                      "line, so no thread can wait for it");
    } else if (!stores.groups.empty() && !stores.groups.front().empty()) {
      observer->finds("copy", stores.groups.front().front().location, {},
                      "the thread ends while this line may still read shared "
                      "memory; a bulk_wait_read<0>() is missing");
    }
    const Products& products = products_[warp_of(fiber)];
    bool last = true;
    for_warp(fiber, [&](const Fiber& other) {
      last = last && (other.state == State::kEnded || &other == &fiber);
    });
    if (!last) return;
    if (const SourceLocation* location = products.uncommitted()) {
      observer->finds("product", *location, {},
                      "the warp ends without wgmma_commit() after this "
                      "product, so no thread can wait for it");
    } else if (const SourceLocation* of_group = products.unfinished()) {
      observer->finds("product", *of_group, {},
                      "the warp ends without wgmma_wait() for this product: "
                      "its sums are never there");
    }
  }

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

  // Lets each thread run that can. Returns whether one of them did more than poll.
  bool run_ready_fibers() {
    bool any = false;
    for (std::size_t first = 0; first < fibers_.size(); first += kWarpSize) {
      const std::size_t end = std::min(first + kWarpSize, fibers_.size());
      for (bool again = true; again;) {  // a warp goes on while it can
        again = false;
        for (std::size_t i = first; i < end; ++i) {
          if (fibers_[i].state != State::kReady) continue;
          run(fibers_[i]);
          any = again = true;
        }
      }
      for (std::size_t i = first; i < end; ++i) {
        if (fibers_[i].state != State::kPolling) continue;
        fibers_[i].state = State::kReady;
        run(fibers_[i]);
        any = any || fibers_[i].state != State::kPolling;
      }
    }
    return any;
  }

  void run(Fiber& fiber) {
    current = &fiber.thread;
    switches.store(switches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    fiber.resume();
    current = nullptr;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (!fiber.crashed) return;
    throw std::runtime_error(stuck ? loop_of(fiber) : crash_of(fiber));
  }

  // Says that a thread is in a loop that does not end.
  static std::string loop_of(const Fiber& fiber) {
    const Size index = fiber.thread.block_index;
    return fmt::format(
        "thread {} of block ({}, {}, {}) has run for {} seconds without a "
        "barrier: if it reads a flag that another thread is to set, let it "
        "read with load_acquire(), so that the other one can run; the "
        "watched lab (./learn trace) names the line",
        fiber.thread.number, index.x, index.y, index.z, kLongestRun.count());
  }

  // Says which access crashed.
  static std::string crash_of(const Fiber& fiber) {
    const Size index = fiber.thread.block_index;
    const std::string text = fmt::format(
        "thread {} of block ({}, {}, {}) crashed: it uses an address that is "
        "misaligned or outside of any allocation",
        fiber.thread.number, index.x, index.y, index.z);
    if (observer == nullptr) {
      return text + "; the watched lab (./learn trace) names the line";
    }
    const std::string where = observer->crashes(fiber.thread);
    return where.empty() ? text : where + ": " + text;
  }

  void release_barrier(int rank) {
    of_cluster_[static_cast<std::size_t>(rank)].at_barrier = 0;
    if (observer != nullptr) tell_of_barrier(rank);
    for (Fiber& fiber : fibers_) {
      if (fiber.thread.rank == rank && fiber.state == State::kAtBarrier) {
        fiber.state = State::kReady;
      }
    }
  }

  void tell_of_barrier(int rank) const {
    const SourceLocation* first = nullptr;
    const SourceLocation* second = nullptr;  // a different one, where there is
    int ended = 0;
    for (const Fiber& fiber : fibers_) {
      if (fiber.thread.rank != rank) continue;
      ended += fiber.state == State::kEnded;
      if (fiber.state != State::kAtBarrier) continue;
      if (first == nullptr) first = &fiber.location;
      if (fiber.location.line != first->line) second = &fiber.location;
    }
    observer->block_meets(*first, second != nullptr ? *second : *first, second == nullptr, ended);
  }

  void end_cluster_phase() {
    at_cluster_ = 0;
    if (observer != nullptr) observer->phase_ends(&at_cluster_);
    for (Fiber& fiber : fibers_) {
      fiber.in_cluster_phase = false;
      if (fiber.state == State::kAtCluster) fiber.state = State::kReady;
    }
  }

  void end(Fiber& fiber) {
    if (observer != nullptr && !error_) check_end(fiber);
    fiber.state = State::kEnded;
    OfBlock& block = block_of(fiber);
    --block.alive;
    --alive_;
    if (observer != nullptr) {
      observer->thread_ends(fiber.thread);
      if (block.alive == 0 && !error_) observer->block_exits(fiber.thread);
    }
    if (block.alive > 0 && block.at_barrier == block.alive) release_barrier(fiber.thread.rank);
    at_cluster_ -= std::exchange(fiber.in_cluster_phase, false);
    if (alive_ > 0 && at_cluster_ == alive_) end_cluster_phase();
  }

  template <class Visit>
  void for_warp(const Fiber& fiber, Visit visit) {
    const auto first = static_cast<std::size_t>(fiber.thread.place - fiber.thread.lane);
    const std::size_t end = std::min(first + kWarpSize, fibers_.size());
    for (std::size_t i = first; i < end; ++i) visit(fibers_[i]);
  }

  MaskedExchange& exchange_of(const Fiber& fiber, unsigned mask) {
    auto& of_warp = exchanges_[warp_of(fiber)];
    for (const auto& masked : of_warp) {
      if (masked->mask == mask) return *masked;
    }
    of_warp.push_back(std::make_unique<MaskedExchange>());
    of_warp.back()->mask = mask;
    return *of_warp.back();
  }

  // Lists which threads wait where.
  std::string deadlock() {
    std::string last_load;  // of a thread that polls; for others see its place
    for (const Fiber& fiber : fibers_) {
      if (fiber.state != State::kPolling || observer == nullptr) continue;
      last_load = observer->spins(fiber.thread);
    }
    const Size index = fibers_[0].thread.block_index;
    std::string text = fmt::format("deadlock in block ({}, {}, {}):", index.x, index.y, index.z);
    struct Group {
      State state;
      SourceLocation location;
      const void* barrier;
      int count, first, rank;
    };
    std::vector<Group> groups;
    for (const Fiber& fiber : fibers_) {
      const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
        return group.state == fiber.state && group.location.line == fiber.location.line &&
               group.location.file == fiber.location.file && group.barrier == fiber.barrier &&
               group.rank == fiber.thread.rank;
      });
      if (same != groups.end()) {
        ++same->count;
      } else {
        groups.push_back({fiber.state, fiber.location, fiber.barrier, 1, fiber.thread.number,
                          fiber.thread.rank});
      }
    }
    for (const Group& group : groups) {
      text += fmt::format("\n  {} thread{} (first: {}) ", group.count, group.count == 1 ? "" : "s",
                          group.first);
      if (launch_.cluster > 1) text += fmt::format("of block {} of the cluster ", group.rank);
      switch (group.state) {
        case State::kAtBarrier:
          text += fmt::format("at __syncthreads, {}:{}", group.location.file, group.location.line);
          break;
        case State::kAtMbarrier:
          text += fmt::format("at an mbarrier, {}:{}; {}", group.location.file, group.location.line,
                              lacks(barriers_.at(group.barrier)));
          break;
        case State::kAtNamedBarrier: {
          const auto& barrier = *static_cast<const NamedBarrier*>(group.barrier);
          const auto& named = of_cluster_[static_cast<std::size_t>(group.rank)].named;
          text += fmt::format("at barrier {}, {}:{}, with {} of {} threads there",
                              &barrier - named.data(), group.location.file, group.location.line,
                              barrier.arrived, barrier.threads);
          break;
        }
        case State::kAtCluster:
          text += fmt::format("at cluster_wait, {}:{}, with {} of {} threads of the cluster there",
                              group.location.file, group.location.line, at_cluster_, alive_);
          break;
        case State::kPolling:
          text += "reading a flag again and again, ";
          text += group.location.line > 0
                      ? fmt::format("{}:{}", group.location.file, group.location.line)
                      : last_load;
          text += "; no other thread can change it any more";
          break;
        case State::kInExchange:
          text += fmt::format("in a warp operation, {}", group.location.file);
          if (group.location.line > 0) {
            text += fmt::format(":{}", group.location.line);
          }
          break;
        default:
          text += "ended";
      }
    }
    return text +
           "\n  A barrier must be reached by all threads of the block, a "
           "warp "
           "operation by all lanes of its mask, an mbarrier by as many "
           "arrivals and bytes as it was told.";
  }

  // What the phase of a barrier still waits for.
  static std::string lacks(const BarrierState& state) {
    std::string text = fmt::format("its phase {}, counted from 0,", state.phases);
    if (state.missing > 0) {
      text += fmt::format(" waits for {} of {} arrivals", state.missing, state.arrivals);
    }
    if (state.bytes > 0) {
      text += fmt::format("{} waits for {} bytes more than copies bring",
                          state.missing > 0 ? " and" : "", state.bytes);
    }
    return text + fmt::format(" (initialised at {}:{})", state.made.file, state.made.line);
  }

  const Launch launch_;
  const std::function<void()>& kernel_;
  Workers& workers_;
  bool idle_ = false;    // as the workers count it
  int idle_rounds_ = 0;  // in which threads only polled
  std::int64_t running_then_ = 0, woken_then_ = 0;
  std::chrono::steady_clock::time_point idle_since_;
  // What each block of the cluster has for itself.
  struct OfBlock {
    std::vector<std::byte> shared;
    int alive = 0, at_barrier = 0;  // threads
    std::array<NamedBarrier, kNamedBarriers> named;
  };
  OfBlock& block_of(const Fiber& fiber) {
    return of_cluster_[static_cast<std::size_t>(fiber.thread.rank)];
  }
  std::vector<Fiber> fibers_;  // block after block
  std::vector<OfBlock> of_cluster_;
  std::vector<std::vector<std::unique_ptr<MaskedExchange>>> exchanges_;
  std::vector<Products> products_;  // of each warp
  std::unordered_map<const void*, BarrierState> barriers_;
  // Of a thread of each warp, once one asks; 0: this one did not.
  std::vector<int> registers_;
  SourceLocation registers_location_;
  int alive_ = 0, at_cluster_ = 0;
  std::exception_ptr error_;
};

void Fiber::yield() {
  void* saved = nullptr;
  leave_for(stack_of_scheduler, &saved);
  scheduler = std::move(scheduler).resume();
  come_from(saved, &stack_of_scheduler);
  if (block->abandoned) throw Abandoned{};
}

// The fiber that runs now: `current` is its first member's address.
Fiber& this_fiber() {
  static_assert(offsetof(Fiber, thread) == 0);
  return *reinterpret_cast<Fiber*>(const_cast<Thread*>(current));
}

#ifdef FA_NO_ASAN
// While launches run, a bad access to memory ends the launch and not the program. With a signal of
// its own it also ends a thread that does not.
class CrashHandler {
 public:
  CrashHandler() {
    const std::lock_guard lock(mutex());
    if (users()++ > 0) return;
    struct sigaction action = {};
    action.sa_sigaction = &handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &action, &before()[i]);
    }
  }
  ~CrashHandler() {
    const std::lock_guard lock(mutex());
    if (--users() > 0) return;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &before()[i], nullptr);
    }
  }
  CrashHandler(const CrashHandler&) = delete;
  CrashHandler& operator=(const CrashHandler&) = delete;

 private:
  static constexpr std::array<int, 3> kSignals{SIGSEGV, SIGBUS, SIGURG};
  static void handle(int signal, siginfo_t*, void*) {
    if (signal == SIGURG) {
      if (current != nullptr && this_fiber().block->stuck) {
        this_fiber().crash();
      }
      return;
    }
    if (current != nullptr) this_fiber().crash();
    // Not in a kernel: the access is repeated, and handled as it was before.
    sigaction(signal, &before()[signal == kSignals[0] ? 0 : 1], nullptr);
  }
  static std::mutex& mutex() {
    static std::mutex result;
    return result;
  }
  static int& users() {
    static int result = 0;
    return result;
  }
  static std::array<struct sigaction, 3>& before() {
    static std::array<struct sigaction, 3> result;
    return result;
  }
};
#else
struct CrashHandler {};  // AddressSanitizer has one
#endif

#if defined(FA_NO_ASAN) && defined(__linux__)
// Looks now and then whether the threads of blocks still give way.
class Watchdog {
 public:
  // While it lives, a block that this thread of the operating system runs is looked after.
  explicit Watchdog(Block& block) : watched_{&block, pthread_self(), -1, {}} {
    static const bool started = [] {
      std::thread([] {
        for (;; std::this_thread::sleep_for(std::chrono::seconds(1))) look();
      }).detach();
      return true;
    }();
    (void)started;
    const std::lock_guard lock(all().mutex);
    all().watched.push_back(&watched_);
  }
  ~Watchdog() {
    const std::lock_guard lock(all().mutex);
    auto& list = all().watched;
    list.erase(std::find(list.begin(), list.end(), &watched_));
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  struct Watched {
    Block* block;
    pthread_t worker;
    std::int64_t switches;       // when it was looked at last
    std::chrono::seconds since;  // time of the worker's processor
  };
  struct All {
    std::mutex mutex;
    std::vector<Watched*> watched;
  };
  // Never destroyed: its thread does not end before the program.
  static All& all() {
    static All* const result = new All;
    return *result;
  }
  static void look() {
    const std::lock_guard lock(all().mutex);
    for (Watched* const one : all().watched) {
      clockid_t clock;
      timespec time;
      if (pthread_getcpuclockid(one->worker, &clock) != 0 || clock_gettime(clock, &time) != 0) {
        continue;
      }
      const std::chrono::seconds now(time.tv_sec);
      const std::int64_t switches = one->block->switches;
      if (switches != one->switches) {
        one->switches = switches;
        one->since = now;
      } else if (observer == nullptr && now - one->since >= kLongestRun) {
        one->block->stuck = true;
        pthread_kill(one->worker, SIGURG);
      }
    }
  }
  Watched watched_;
};
#else
struct Watchdog {
  explicit Watchdog(Block&) {}
};
#endif

void perform(const Copy& copy) {
  if (copy.source == nullptr) {
    std::memset(copy.destination, 0, copy.size);
  } else {
    std::memcpy(copy.destination, copy.source, copy.size);
  }
}

}  // namespace

std::vector<int> run(const Launch& launch, const std::function<void()>& kernel) {
  std::vector<int> registers;  // written by who runs block 0
  const std::int64_t blocks = launch.grid.count();
  if (recorder != nullptr && launch.cluster > 1) {
    throw std::runtime_error("blocks in clusters are not recorded");
  }
  std::atomic<std::int64_t> next{0};
  const auto workers = std::min<std::int64_t>(
      observer != nullptr || recorder != nullptr ? 1 : thread_count(), blocks / launch.cluster);
  if (observer != nullptr) observer->launch_begins(launch);
  [[maybe_unused]] const CrashHandler crash_handler;
  Workers together(workers);
  parallel_for(workers, [&](std::int64_t) {
    struct End {
      Workers& workers;
      ~End() { --workers.running; }
    } end{together};
    Block block(launch, kernel, together);
    [[maybe_unused]] const Watchdog watchdog(block);
    for (std::int64_t i; (i = next.fetch_add(launch.cluster)) < blocks;) {
      try {
        block.run(i);
        if (i == 0) registers = block.registers();
      } catch (...) {
        next = blocks;  // the others stop as well
        throw;
      }
    }
  });
  return registers;
}

void* dynamic_shared() {
  const Fiber& fiber = this_fiber();
  return fiber.block->shared(fiber.thread.rank);
}

void arrive_at_cluster(const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  fiber.block->arrive_at_cluster(fiber, location);
}

void wait_at_cluster(const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  fiber.block->wait_at_cluster(fiber, location);
}

void* peer_shared(const void* pointer, int rank, const SourceLocation& location) {
  const Fiber& fiber = this_fiber();
  return fiber.block->of_peer(fiber, pointer, rank, location);
}

void sync_block(const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  fiber.block->sync(fiber, location);
}

const std::byte* exchange(unsigned mask, const void* bytes, std::size_t size,
                          const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  if (recorder != nullptr && fiber.thread.lane == 0) {
    recorder->exchange(Block::warp_of(fiber));
  }
  return fiber.block->exchange(fiber, mask, bytes, size, location, false, [](const std::byte*) {});
}

void sync_warp(unsigned mask, const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  fiber.block->exchange(fiber, mask, &mask, 0, location, true, [](const std::byte*) {});
}

unsigned existing_lanes() {
  const auto launched = current->block_size.count();
  const std::int64_t lanes =
      std::min<std::int64_t>(kWarpSize, launched - current->number + current->lane);
  return lanes == kWarpSize ? 0xffffffffu : (1u << lanes) - 1;
}

void copy_async(void* destination, const void* source, std::size_t size,
                const SourceLocation& location) {
  for (const void* address : {static_cast<const void*>(destination), source}) {
    if (reinterpret_cast<std::uintptr_t>(address) % size != 0) {
      misaligned(address, size, location);
    }
  }
  if (observer != nullptr) {
    if (source != nullptr) observer->accesses(source, size, false, location);
    observer->copy_begins(destination, size, location);
  }
  std::memset(destination, 0xff, size);  // NaN until it is waited for
  this_fiber().open_copies.push_back({destination, source, size, location});
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
        observer->copy_ends(copy.destination, copy.size, copy.location);
      }
    }
    groups.pop_front();
  }
}

// ---------------------------------------------------------------- asynchrony

void init_barrier(void* barrier, int arrivals, const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  fiber.block->init(fiber, barrier, arrivals, location);
}

void arrive_at_barrier(void* barrier, std::int64_t bytes, const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  fiber.block->arrive(fiber, barrier, bytes, location);
}

void wait_at_barrier(void* barrier, int parity, const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  fiber.block->wait(fiber, barrier, parity, location);
}

void fence_barriers() {
  if (observer != nullptr) observer->barriers_fenced();
}

void fence_async() {
  if (observer != nullptr) observer->async_fenced();
}

void fence_async_global() {
  if (observer != nullptr) observer->async_fenced_globally();
}

void named_barrier(int id, int threads, bool waits, const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  fiber.block->named(fiber, id, threads, waits, location);
}

void set_registers(int registers, const SourceLocation& location) {
  const Fiber& fiber = this_fiber();
  fiber.block->set_registers(fiber, registers, location);
}

void begin_load(const BulkCopy& copy, void* barrier) {
  Fiber& fiber = this_fiber();
  fiber.block->load(fiber, copy, barrier);
}

void begin_multicast(const BulkCopy& copy, void* barrier, unsigned blocks) {
  Fiber& fiber = this_fiber();
  fiber.block->load_multicast(fiber, copy, barrier, blocks);
}

void wait_for_grids() {
  if (observer != nullptr) observer->grid_waited();
}

void fence_memory() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // It does not wait for what runs by itself.
  const Stores& stores = this_fiber().stores;
  if (observer != nullptr) {
    observer->memory_fenced(stores.arrived && stores.open.empty());
  }
}

void note_counter(const void* counter, CounterUse use) {
  if (observer != nullptr) observer->counts(counter, use);
}

void poll(const void* flag, const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  if (std::exchange(fiber.polled, flag) != flag) return;
  fiber.location = location;
  fiber.state = State::kPolling;
  fiber.yield();
}

void yield_from_loop() {
  Fiber& fiber = this_fiber();
  fiber.location = {};
  fiber.state = State::kPolling;
  fiber.lost = true;  // the compiler believes that loads do not throw
  fiber.yield();
  fiber.lost = false;
}

std::string misaligned_text(const void* address, std::size_t size) {
  const Thread& thread = *current;
  return fmt::format(
      "thread {} (warp {}, lane {}) of block ({}, {}, {}) uses {} bytes at "
      "once, at an address {} bytes beyond a multiple of {}: a GPU takes "
      "multiples of {} only; pad the rows, or use smaller accesses",
      thread.number, thread.number / kWarpSize, thread.lane, thread.block_index.x,
      thread.block_index.y, thread.block_index.z, size,
      reinterpret_cast<std::uintptr_t>(address) % size, size, size);
}

void misaligned(const void* address, std::size_t size, const SourceLocation& location) {
  const std::string text = misaligned_text(address, size);
  if (observer == nullptr) {
    throw std::runtime_error(fmt::format("{}:{}: {}", location.file, location.line, text));
  }
  observer->finds("misaligned", location, {}, text);
}

void absent_source(unsigned mask, int source, const SourceLocation& location) {
  if (observer == nullptr) return;
  observer->finds("warp", location, {},
                  fmt::format("lane {} takes the value of lane {}, which is not in the "
                              "mask {:#x}: what it gets is undefined",
                              current->lane, source, mask));
}

std::uint32_t tf32_operand(std::uint32_t bits, const SourceLocation& location) {
  constexpr std::uint32_t unread = 0x1fff;
  if ((bits & unread) != 0 && observer != nullptr) {
    observer->finds(
        "operand", location, {},
        fmt::format("lane {} gives a matmul an operand with more bits than TF32 has, "
                    "{:#010x}: the tensor cores do not read the lower 13; convert it by "
                    "tf32_nearest(), or say tf32_truncated()",
                    current->lane, bits));
  }
  return bits & ~unread;
}

float tf32_sum(float c, const float (&a)[8], const float (&b)[8]) {
  const auto exponent = [](float x) {  // that of the smallest normal number for those below it
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return std::max(static_cast<int>(bits >> 23 & 0xff), 1) - 127;
  };
  constexpr int special = 128, none = -1000;
  int largest = c == 0 ? none : exponent(c);
  double terms[9] = {c};
  float plain = c;
  bool finite = largest < special;
  for (int k = 0; k < 8; ++k) {
    terms[k + 1] = static_cast<double>(a[k]) * b[k];
    plain += a[k] * b[k];
    const int of_a = exponent(a[k]), of_b = exponent(b[k]);
    finite = finite && of_a < special && of_b < special;
    if (a[k] != 0 && b[k] != 0) largest = std::max(largest, of_a + of_b);
  }
  if (!finite) return plain;  // infinity or NaN
  if (largest == none) return 0;
  constexpr int kept_bits = 25;
  const double units = std::ldexp(1.0, kept_bits - largest);
  double sum = 0;  // of whole numbers: exact
  for (const double term : terms) sum += std::trunc(term * units);
  sum /= units;
  const auto rounded = static_cast<float>(sum);
  return std::abs(rounded) > std::abs(sum) ? std::nextafter(rounded, 0.0f) : rounded;
}

int sm_count() {
  if (recorder != nullptr) return 1;
  return observer != nullptr ? 2 : thread_count();
}

void begin_store(const BulkCopy& copy) {
  Fiber& fiber = this_fiber();
  fiber.block->store(fiber, copy);
}

void commit_stores() {
  Fiber& fiber = this_fiber();
  Block::record_lane(fiber, Step::Kind::kCommitStores);
  Stores& stores = fiber.stores;
  if (!stores.open.empty()) stores.arrived = false;
  stores.groups.push_back(std::exchange(stores.open, {}));
}

void wait_stores(int pending, bool arrived) {
  Fiber& fiber = this_fiber();
  Block::record_lane(fiber, arrived ? Step::Kind::kWaitArrivals : Step::Kind::kWaitStores, pending);
  Stores& stores = fiber.stores;
  while (stores.groups.size() > static_cast<std::size_t>(pending)) {
    for (const BulkCopy& copy : stores.groups.front()) copy.perform();
    stores.groups.pop_front();
    ++stores.ended;
  }
  if (arrived && pending == 0) stores.arrived = true;
  if (observer != nullptr) {
    observer->async_ends(&fiber, stores.ended, false);
  }
}

void lend_registers(void* registers) {
  auto& lent = this_fiber().lent;
  if (std::find(lent.begin(), lent.end(), registers) == lent.end()) {
    lent.push_back(registers);
  }
}

void begin_product(const ProductShape& shape, const ProductOfLane& lane,
                   const SourceLocation& location) {
  Fiber& fiber = this_fiber();
  if (recorder != nullptr && fiber.thread.lane == 0) {
    Step step;
    step.kind = Step::Kind::kProduct;
    step.columns = 2 * shape.sums;
    step.from_registers = lane.a != nullptr;
    step.by_columns = shape.turned_b;
    recorder->add(Block::warp_of(fiber), step);
  }
  Products& products = fiber.block->products_of(fiber);
  // Once for a warp is enough.
  if (observer != nullptr && fiber.thread.lane == 0 &&
      std::find(fiber.lent.begin(), fiber.lent.end(), lane.sums) == fiber.lent.end()) {
    observer->finds("product", location, {},
                    "wgmma_fence() is missing: these sums were not given to "
                    "it since the last wgmma_wait(), and the product may "
                    "begin before what the thread did to them");
  }
  fiber.block->exchange(fiber, 0xffffffffu, &lane, sizeof lane, location, false,
                        [&](const std::byte* deposits) {
                          std::array<ProductOfLane, kWarpSize> lanes;
                          for (std::size_t i = 0; i < kWarpSize; ++i) {
                            std::memcpy(&lanes[i], deposits + i * kDepositSize, sizeof lanes[i]);
                          }
                          products.begin(fiber.block->setting_of(fiber), shape, lanes, location);
                        });
}

void commit_products() {
  Fiber& fiber = this_fiber();
  Block::record_warp(fiber, Step::Kind::kCommit);
  fiber.block->exchange(fiber, 0xffffffffu, &fiber, 0, {"wgmma_commit()", 0}, false,
                        [&](const std::byte*) { fiber.block->products_of(fiber).commit(); });
}

void wait_products(int pending) {
  Fiber& fiber = this_fiber();
  fiber.lent.clear();
  Block::record_warp(fiber, Step::Kind::kWaitProducts, pending);
  fiber.block->exchange(
      fiber, 0xffffffffu, &fiber, 0, {"wgmma_wait()", 0}, false, [&](const std::byte*) {
        Products& products = fiber.block->products_of(fiber);
        products.wait(fiber.block->setting_of(fiber), static_cast<std::size_t>(pending));
        if (observer != nullptr) {
          observer->async_ends(&products, products.ended(), true);
        }
      });
}

std::uint32_t operand_offset(const void* pointer, const SourceLocation& location) {
  constexpr std::size_t kUnit = 16;  // that a descriptor counts in
  if (reinterpret_cast<std::uintptr_t>(pointer) % kUnit != 0) {
    misaligned(pointer, kUnit, location);
  }
  return shared_offset(pointer);
}

std::uint32_t shared_offset(const void* pointer) {
  Block& block = *this_fiber().block;
  const auto offset =
      static_cast<const std::byte*>(pointer) - static_cast<const std::byte*>(dynamic_shared());
  if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(block.shared_bytes())) {
    throw std::runtime_error(
        "shared_address() of what is not in dynamic shared memory: in the "
        "lab, operands of wgmma must be there");
  }
  return static_cast<std::uint32_t>(offset);
}

void* allocate(std::size_t bytes) {
  // Systems promise more than they have, and kill the program that takes it.
  const std::size_t in_all = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* memory = nullptr;
  if (bytes <= in_all) {
    memory = static_cast<std::byte*>(
        ::operator new (bytes + 2 * kRoom, std::align_val_t{kRoom}, std::nothrow));
  }
  if (memory == nullptr) {
    throw std::runtime_error(fmt::format(
        "{} bytes of memory were asked for; the lab's machine has {} in all", bytes, in_all));
  }
  memory += kRoom;
  if (observer != nullptr) observer->allocated(memory, bytes);
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  if (observer != nullptr) observer->released(memory);
  ::operator delete (static_cast<std::byte*>(memory) - kRoom, std::align_val_t{kRoom});
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
                 const SourceLocation& location) {
  if (reinterpret_cast<std::uintptr_t>(address) % size != 0) {
    misaligned(address, size, location);
  }
  if (observer != nullptr) observer->accesses(address, size, write, location);
}

}  // namespace fa::lab
