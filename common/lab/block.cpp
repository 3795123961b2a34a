#include "common/lab/block.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "common/lab/lab_thread.hpp"
#include "common/lab/record.hpp"

namespace fa::lab {
namespace {

std::string text_of(const Size& index) {
  return fmt::format("({}, {}, {})", index.x, index.y, index.z);
}

// What a thread that has crashed wanted to use.
std::string text_of_address(const LabThread& thread, const void* address) {
  if (thread.fiber.has_overflowed(address)) {
    return fmt::format(
        "its stack overflowed: local arrays of a thread have 512 KiB in all, on a GPU and here "
        "(functions that call themselves without an end need more)");
  }
  if (const auto near = memory_near(address)) return "it uses " + near->text();
  return "it uses an address that is misaligned or outside of any allocation";
}

// What a flag may wait for that is right on a GPU.
std::string text_of_later_blocks(const Launch& launch) {
  const std::int64_t blocks = launch.grid.count();
  constexpr const char* needs = "a barrier of the whole grid needs all of them at once";
  if (observer == nullptr) {
    return fmt::format(
        "The launch has {} blocks, of which the lab runs as many at once as FA_THREADS says; {}. "
        "The watched lab runs more.",
        blocks, needs);
  }
  return fmt::format("The launch has {} blocks, of which {} of this size can run at once: {}.",
                     blocks, blocks_at_once(launch), needs);
}

// What to say of a thread that was left: it ran for too long, or crashed.
std::string text_of_left(const LabThread& thread, bool stuck) {
  if (left_with != nullptr) return std::exchange(left_with, nullptr);
  const std::string who =
      fmt::format("thread {} of block {}", thread.number, text_of(thread.block_index));
  if (stuck) {
    return fmt::format(
        "{} has run for {} seconds without a barrier: if it reads a flag that another thread is to "
        "set, let it read with load_acquire(), so that the other one can run; the watched lab "
        "(./learn trace) names the line",
        who, longest_run.load().count());
  }
  const Crash crash = last_crash();
  const std::string text =
      fmt::format("{} crashed: {}", who, text_of_address(thread, crash.address));
  if (observer == nullptr) return text + "; the watched lab (./learn trace) names the line";
  const std::string line = observer->crashes(thread, crash);
  return line.empty() ? text : line + ": " + text;
}

}  // namespace

Block::Block(const Launch& launch, const std::function<void()>& kernel, Workers& workers)
    : launch_(launch),
      kernel_(kernel),
      progress_(workers),
      blocks_(static_cast<std::size_t>(launch.cluster)),
      threads_(static_cast<std::size_t>(launch.block.count() * launch.cluster)) {
  for (OfBlock& block : blocks_) {
    block.shared.reset(map_memory(launch.shared_bytes, Purpose::kDynamicShared));
    if (!block.shared) throw std::bad_alloc();
  }
  const Size size = launch.block;
  const auto of_block = static_cast<std::size_t>(size.count());
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    LabThread& thread = threads_[i];
    const auto number = static_cast<unsigned>(i % of_block);
    thread.rank = static_cast<int>(i / of_block);
    thread.place = static_cast<int>(i);
    thread.index = {number % size.x, number / size.x % size.y, number / size.x / size.y};
    thread.block_size = size;
    thread.grid_size = launch.grid;
    thread.number = static_cast<int>(number);
    thread.lane = static_cast<int>(number) % kWarpSize;
    thread.block = this;
    thread.fiber.start([this, &thread] { live(thread); });
  }
  warps_.resize((threads_.size() + kWarpSize - 1) / kWarpSize);
  wgmma_.resize(warps_.size());
}

void Block::begin(std::int64_t index) {
  is_first_ = index == 0;
  for (OfBlock& block : blocks_) {
    std::memset(block.shared.get() - kMargin, 0xff, launch_.shared_bytes + 2 * kMargin);
    block.barrier.begin(static_cast<int>(launch_.block.count()));
    block.named.clear();
    block.tensor.begin(block.shared.get(), launch_.shared_bytes);
  }
  repetition_.forget();
  alive_ = static_cast<int>(threads_.size());
  cluster_barrier_.begin(alive_);
  for (std::size_t i = 0; i < warps_.size(); ++i) {
    const std::size_t lanes = std::min<std::size_t>(threads_.size() - i * kWarpSize, kWarpSize);
    warps_[i].begin(0xffffffffu >> (kWarpSize - lanes));
  }
  for (WgmmaQueue& queue : wgmma_) queue.clear();
  mbarriers_.clear();
  registers_.clear();
  Size block_index;
  for (LabThread& thread : threads_) {
    if (thread.number == 0) block_index = launch_.block_at(index + thread.rank);
    thread.block_index = block_index;
    thread.begin();
  }
  if (observer != nullptr) {
    for (int rank = 0; rank < launch_.cluster; ++rank) {
      const auto first = static_cast<std::size_t>(rank * launch_.block.count());
      observer->block_begins(threads_[first], shared(rank), launch_.shared_bytes);
    }
  }
  if (recorder != nullptr) recorder->block_begins(warps_.size());
}

bool Block::run(bool others) {
  constexpr int enough = 4;  // rounds without progress
  has_progressed_ = false;
  int rounds = 0;
  while (alive_ > 0) {
    if (run_ready_threads()) {
      progress_.made();
      has_progressed_ = true;
      rounds = 0;
      continue;
    }
    repetition_.forget();
    const bool polling = std::any_of(threads_.begin(), threads_.end(), [](const LabThread& thread) {
      return thread.state == State::kPolling;
    });
    if (polling && others && ++rounds == enough) return false;
    if (!polling || (!others && progress_.is_over(observer != nullptr))) {
      throw std::runtime_error(deadlock());
    }
  }
  check_end();
  if (observer != nullptr) observer->block_ends();
  return true;
}

// Lets each thread run that can. Returns whether one of them did more than poll.
bool Block::run_ready_threads() {
  bool any = false;
  for (std::size_t first = 0; first < threads_.size(); first += kWarpSize) {
    const std::size_t end = std::min(first + kWarpSize, threads_.size());
    runs_ready_ = true;
    for (bool again = true; again;) {  // a warp continues while it can
      again = false;
      for (std::size_t i = first; i < end; ++i) {
        if (threads_[i].state != State::kReady) continue;
        i = static_cast<std::size_t>(run(threads_[i]).place);
        any = again = true;
      }
    }
    runs_ready_ = false;
    for (std::size_t i = first; i < end; ++i) {
      if (threads_[i].state != State::kPolling) continue;
      threads_[i].state = State::kReady;
      run(threads_[i]);
      any = any || threads_[i].state != State::kPolling;
    }
  }
  return any;
}

// Returns the thread that ran last: see yield_to_warp().
LabThread& Block::run(LabThread& thread) {
  current = &thread;
  heartbeat_.beat();
  thread.fiber.resume();
  LabThread& last = this_thread();
  current = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (last.fiber.left()) throw std::runtime_error(text_of_left(last, heartbeat_.stuck));
  if (repetition_.is_endless(threads_, last)) end_repetition();
  return last;
}

// A thread waits for others of its warp. The next one that run_ready_threads() would run continues
// at once: most switches are of this kind.
void Block::yield_to_warp(LabThread& thread) {
  const auto place = static_cast<std::size_t>(thread.place);
  const std::size_t first = place / kWarpSize * kWarpSize;
  const std::size_t end = std::min(first + kWarpSize, threads_.size());
  for (std::size_t i = place + 1; runs_ready_; ++i) {
    if (i == end) i = first;
    if (i == place) break;
    LabThread& next = threads_[i];
    if (next.state != State::kReady) continue;
    if (!repetition_.passes(thread)) break;
    current = &next;
    heartbeat_.beat();
    return thread.fiber.yield_to(next.fiber);
  }
  thread.fiber.yield();
}

// A thread's life: one kernel after another.
void Block::live(LabThread& thread) {
  for (;;) {
    try {
      kernel_();
    } catch (const Fiber::Unwind&) {
      throw;
    } catch (...) {
      error_ = std::current_exception();
    }
    end(thread);
    if (!thread.fiber.yield_at_rest()) return;
  }
}

void Block::end(LabThread& thread) {
  if (observer != nullptr && !error_) check_end(thread);
  thread.state = State::kEnded;
  BlockBarrier& barrier = of(thread).barrier;
  --alive_;
  if (observer != nullptr) {
    observer->thread_ends(thread);
    if (barrier.alive() == 1 && !error_) observer->block_exits(thread);
  }
  barrier.thread_ended(threads_, thread.rank);
  warps_[thread.warp()].lane_ended(threads_, thread);
  cluster_barrier_.thread_ended(threads_, thread);
}

// What must not be left when a block ends.
void Block::check_end() {
  registers_.check(warps_.size() / blocks_.size(), launch_.cluster);
  mbarriers_.check_end();
  for (const OfBlock& block : blocks_) block.tensor.check_end();
}

// The same for a thread, and for the last one of a warp.
void Block::check_end(const LabThread& thread) {
  const Stores& stores = thread.stores;
  if (!stores.open.empty()) {
    note_finding(
        "copy", stores.open.front().location, {},
        "the thread ends without bulk_commit() after this line, so no thread can wait for it");
  } else if (!stores.groups.empty() && !stores.groups.front().empty()) {
    note_finding(
        "copy", stores.groups.front().front().location, {},
        "the thread ends while this line may still read shared memory; a bulk_wait_read<0>() is "
        "missing");
  }
  bool last = true;
  for_warp(threads_, thread, [&](const LabThread& other) {
    last = last && (other.state == State::kEnded || &other == &thread);
  });
  if (!last) return;
  if (const SourceLocation* location = wgmma(thread).uncommitted()) {
    note_finding(
        "wgmma", *location, {},
        "the warp ends without wgmma_commit() after this wgmma(), so no thread can wait for it");
  } else if (const SourceLocation* of_group = wgmma(thread).unfinished()) {
    note_finding(
        "wgmma", *of_group, {},
        "the warp ends without wgmma_wait() for this wgmma(): its accumulators are never ready");
  }
}

// ---------------------------------------------------------------- memory and copies

std::byte* Block::of_peer(const LabThread& thread, const void* pointer, int rank,
                          const SourceLocation& location) {
  const auto offset = static_cast<const std::byte*>(pointer) - shared(thread.rank);
  if (rank < 0 || rank >= launch_.cluster) {
    fail(location, "block {} of a cluster of {}", rank, launch_.cluster);
  }
  if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(launch_.shared_bytes)) {
    fail(location,
         "shared memory of another block that is not dynamic: in clusters the lab supports dynamic "
         "shared memory only");
  }
  return shared(rank) + offset;
}

void Block::load(const LabThread& thread, const BulkCopy& copy, void* barrier) {
  copy.check(shared(thread.rank), launch_.shared_bytes);
  copy.note_global();
  mbarriers_.begin_load(thread, copy, barrier);
}

void Block::load_multicast(const LabThread& thread, const BulkCopy& copy, void* barrier,
                           unsigned blocks) {
  if (blocks == 0 || blocks >> launch_.cluster != 0) {
    fail(copy.location, "a copy to the blocks {:#b} of a cluster of {}", blocks, launch_.cluster);
  }
  copy.note_global();
  for (int rank = 0; rank < launch_.cluster; ++rank) {
    if ((blocks >> rank & 1u) == 0) continue;
    BulkCopy to_peer = copy;
    to_peer.shared = of_peer(thread, copy.shared, rank, copy.location);
    to_peer.check(shared(rank), launch_.shared_bytes);
    mbarriers_.begin_load(thread, to_peer, of_peer(thread, barrier, rank, copy.location));
  }
}

void Block::store(LabThread& thread, const BulkCopy& copy) {
  copy.check(shared(thread.rank), launch_.shared_bytes);
  record_copy(thread, Step::Kind::kStore, copy, nullptr);
  Stores& stores = thread.stores;
  stores.open.push_back(copy);
  if (observer == nullptr) return;
  const auto group = stores.ended + static_cast<std::uint32_t>(stores.groups.size()) + 1;
  constexpr std::size_t kChunk = 16;
  std::vector<const void*> chunks;
  for (const Piece& piece : copy.pieces()) {
    const auto first = reinterpret_cast<std::uintptr_t>(piece.shared) % kChunk;
    for (std::size_t i = 0; i < first + piece.size; i += kChunk) {
      std::byte* const at = piece.shared - first + i;
      chunks.push_back(copy.of_box() ? copy.place(at) : at);
    }
  }
  observer->async_uses(&thread, AsyncUse::kStore, group, chunks, kChunk, copy.location);
  copy.note_global();
}

WgmmaQueue::Setting Block::wgmma_setting(const LabThread& thread) {
  const int first_thread = thread.place - thread.lane;
  return {shared(thread.rank), launch_.shared_bytes, first_thread / kWarpSize % 4 * 16,
          first_thread};
}

// ---------------------------------------------------------------- setmaxnreg

void RegisterBudget::set(const LabThread& thread, std::size_t warps, int registers,
                         const SourceLocation& location) {
  if (registers < 24 || registers > 256 || registers % 8 != 0) {
    fail(location, "{} registers for a thread; allowed are multiples of 8 from 24 to 256",
         registers);
  }
  of_warps_.resize(warps, 0);
  of_warps_[thread.warp()] = registers;
  location_ = location;
}

void RegisterBudget::check(std::size_t warps_of_block, int cluster) const {
  if (of_warps_.empty()) return;
  constexpr int of_sm = 64 * 1024;  // a thread gets them by eights, and 256 at most
  const int threads = static_cast<int>(warps_of_block) * kWarpSize;
  const int at_launch = std::min(of_sm / threads / 8 * 8, 256);
  int asked = 0;  // of the whole cluster: its blocks are alike
  for (const int of_warp : of_warps_) asked += (of_warp > 0 ? of_warp : at_launch) * kWarpSize;
  const int allowed = at_launch * threads * cluster;
  if (asked > allowed) {
    fail(location_,
         "the warps of a block take {} registers in all; of those that it was launched with there "
         "are {} at most",
         asked, allowed);
  }
}

// ---------------------------------------------------------------- deadlock

// Threads that still run are in an endless loop.
void Block::end_repetition() const {
  const auto waiting = std::find_if(threads_.begin(), threads_.end(), [](const LabThread& thread) {
    return thread.state != State::kEnded && thread.location.line > 0;
  });
  const SourceLocation where = waiting == threads_.end() ? SourceLocation{} : waiting->location;
  const std::string text = fmt::format(
      "thread {} of block {} repeats an endless loop, with this barrier or warp operation in it: "
      "for {} seconds no local variable of any thread of the block has changed",
      waiting == threads_.end() ? 0 : waiting->number, text_of(threads_[0].block_index),
      longest_run.load().count());
  note_finding("spin", where, {}, text);
  fail(where, "{}", text);
}

// Lists which threads wait where.
std::string Block::deadlock() const {
  bool polling = false;
  std::string last_load;  // of a thread that polls; for others see its location
  for (const LabThread& thread : threads_) {
    if (thread.state != State::kPolling) continue;
    polling = true;
    if (observer != nullptr) last_load = observer->spins(thread);
  }
  struct Group {  // of threads that wait at the same place
    const LabThread* first;
    int count;
  };
  std::vector<Group> groups;
  for (const LabThread& thread : threads_) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      const LabThread& other = *group.first;
      return other.state == thread.state && other.location.line == thread.location.line &&
             other.location.file == thread.location.file && other.barrier == thread.barrier &&
             other.rank == thread.rank;
    });
    if (same != groups.end()) {
      ++same->count;
    } else {
      groups.push_back({&thread, 1});
    }
  }
  std::string text = fmt::format("deadlock in block {}:", text_of(threads_[0].block_index));
  for (const auto& [first, count] : groups) {
    text +=
        fmt::format("\n  {} thread{} (first: {}) ", count, count == 1 ? "" : "s", first->number);
    if (launch_.cluster > 1) text += fmt::format("of block {} of the cluster ", first->rank);
    text += where(*first, last_load) + ";";
  }
  text.back() = '.';
  const std::int64_t at_once = observer != nullptr ? blocks_at_once(launch_) : launch_.cluster;
  if (polling && launch_.grid.count() > at_once) text += "\n  " + text_of_later_blocks(launch_);
  const bool parity = text.find(Mbarriers::kParity) != std::string::npos;
  for (const auto& [state, advice] :
       {std::pair{State::kAtBarrier,
                  "All threads of the block must reach the same __syncthreads()."},
        {State::kInExchange, "All lanes of its mask must reach a warp operation."},
        {State::kAtMbarrier,
         "Does an mbarrier expect too many arrivals or bytes, does a thread skip its arrival, or "
         "is a parity wrong?"}}) {
    if (state == State::kAtMbarrier && parity) continue;
    const auto waits = [&, at = state](const LabThread& thread) { return thread.state == at; };
    if (std::any_of(threads_.begin(), threads_.end(), waits)) text += fmt::format("\n  {}", advice);
  }
  return text;
}

std::string Block::where(const LabThread& thread, const std::string& last_load) const {
  const std::string line = lab::text_of(thread.location);
  switch (thread.state) {
    case State::kAtBarrier:
      return "at __syncthreads, " + line;
    case State::kAtMbarrier:
      return mbarriers_.missing_text(thread);
    case State::kAtNamedBarrier:
      return "at " + blocks_[static_cast<std::size_t>(thread.rank)].named.text_of(
                         *static_cast<const NamedBarrier*>(thread.barrier), thread.location);
    case State::kAtCluster:
      return fmt::format("at cluster_wait, {}, with {} of {} threads of the cluster there", line,
                         cluster_barrier_.arrived(), cluster_barrier_.alive());
    case State::kPolling:
      return fmt::format(
          "reading a flag again and again, {}, which no other thread can change any more",
          thread.location.line > 0 ? line : last_load);
    case State::kInExchange:
      return "in a warp operation, " + (thread.location.line > 0 ? line : thread.location.file);
    default:
      return "ended";
  }
}

}  // namespace fa::lab
