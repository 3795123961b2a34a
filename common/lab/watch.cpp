#include "common/lab/watch.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <link.h>
#include <map>
#include <set>
#include <stdexcept>
#include <unistd.h>
#include <unordered_map>
#include <unwind.h>
#include <utility>

#include <fmt/format.h>

#include "common/files/escape.hpp"

namespace fa::lab {
namespace {

constexpr std::size_t kCellBytes =
    2;  // neighbouring 16-bit elements are no race

// What uses memory in a block is numbered: its threads, and from here on what runs beside them.
constexpr std::uint32_t kFirstAgent = kMaxThreads;
constexpr std::uint32_t kNumbers = 8 * kMaxThreads;  // of a block

// One access to a cell, as far as it matters later.
struct Access {
  std::uint32_t thread = 0;  // block and number, counted from 1; 0: none
  std::uint32_t interval =
      0;                   // between two barriers, counted over all blocks
  std::uint32_t time = 0;  // of the thread, or phase or group of the agent
  std::uint32_t site = 0;
  bool atomic = false;
};

// A read by something that runs beside the threads.
struct AsyncRead {
  std::uint32_t thread = 0, time = 0, site = 0;
  AsyncUse use = AsyncUse::kProduct;
};
constexpr std::size_t kGrainBytes = 16;  // that it reads together

struct Cell {
  Access write, atomic_write;
  Access read, other_read;  // the latter by another thread than read
  bool written = false;
  bool in_flight = false;  // an asynchronous copy will write it
};

// A piece of memory whose accesses are watched.
struct Region {
  const std::byte* begin = nullptr;
  std::size_t size = 0;
  std::vector<Cell> cells;
  std::vector<std::vector<AsyncRead>> async_reads;  // of each grain; or none

  void set(const void* memory, std::size_t bytes) {
    begin = static_cast<const std::byte*>(memory);
    size = bytes;
    clear();
  }
  void clear() {
    cells.assign((size + kCellBytes - 1) / kCellBytes, {});
    async_reads.clear();
  }
  bool contains(const std::byte* address) const {
    return address >= begin && address < begin + size;
  }
};

// Room on either side of device memory and of dynamic shared memory that is watched, too.
constexpr std::ptrdiff_t kRoom = 4096;

// What somebody knows: of each thread and agent, up to when all that it did is over for him.
class Knowledge {
 public:
  std::uint32_t of(std::size_t index) const {
    return index < times_.size() ? times_[index] : 0;
  }
  void learn(std::size_t index, std::uint32_t time) {
    if (times_.size() <= index) times_.resize(index + 1);
    times_[index] = std::max(times_[index], time);
  }
  void join(const Knowledge& other) {
    if (times_.size() < other.times_.size()) {
      times_.resize(other.times_.size());
    }
    for (std::size_t i = 0; i < other.times_.size(); ++i) {
      times_[i] = std::max(times_[i], other.times_[i]);
    }
  }

 private:
  std::vector<std::uint32_t> times_;
};

// Who knows of whom in a block: vector clocks, one for each thread. A thread's time advances whenever it tells others
// what it did. That is told at three places: at __syncthreads() to all, at __syncwarp() to the lanes of its mask, and
// at an mbarrier or a named barrier to those who wait there. Order between blocks is kept beside it, in Watch::State.
class Order {
 public:
  void begin(int threads) {
    threads_ = static_cast<std::size_t>(threads);
    times_.assign(threads_, 1);
    known_.assign(threads_, {});
    fences_.assign(threads_, {});
    all_ = {};
    agents_.clear();
  }
  std::uint32_t time(std::size_t thread) const { return times_[thread]; }

  // A number for what runs beside the threads.
  std::uint32_t number_of(const void* agent) {
    const auto next =
        kFirstAgent + static_cast<std::uint32_t>(agents_.size());
    const std::uint32_t number = agents_.emplace(agent, next).first->second;
    if (number >= kNumbers) {
      throw std::runtime_error(
          "more mbarriers and storing threads in a block than the lab "
          "counts");
    }
    return number;
  }

  bool knows(std::uint32_t thread, std::uint32_t number,
             std::uint32_t time) const {
    if (thread == number) return true;
    const std::size_t index = index_of(number);
    return all_.of(index) >= time || known_[thread].of(index) >= time;
  }
  // Whether any lane of a thread's warp does.
  bool warp_knows(std::uint32_t thread, std::uint32_t number,
                  std::uint32_t time) const {
    const std::uint32_t first = thread / kWarpSize * kWarpSize;
    for (std::uint32_t i = first; i < first + kWarpSize && i < threads_;
         ++i) {
      if (knows(i, number, time)) return true;
    }
    return false;
  }

  void tell(std::uint32_t thread, Knowledge& to) {
    to.join(known_[thread]);
    to.learn(thread, times_[thread]++);
  }
  // All that is over for a thread, what all threads know included.
  void tell_all(std::uint32_t thread, Knowledge& to) {
    to.join(all_);
    tell(thread, to);
  }
  void learn(std::uint32_t thread, const Knowledge& from) {
    known_[thread].join(from);
  }
  void learn(std::uint32_t thread, std::uint32_t number, std::uint32_t time) {
    known_[thread].learn(index_of(number), time);
  }

  void warp_meets(std::size_t first, unsigned mask) {
    Knowledge together;
    for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
      if ((mask >> lane & 1u) != 0) {
        tell(static_cast<std::uint32_t>(first + lane), together);
      }
    }
    for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
      if ((mask >> lane & 1u) != 0) known_[first + lane] = together;
    }
  }
  void block_meets() {
    for (std::uint32_t thread = 0; thread < threads_; ++thread) {
      all_.join(known_[thread]);
      all_.learn(thread, times_[thread]++);
      known_[thread] = {};
    }
  }

  void fence(std::uint32_t thread) {
    fences_[thread].push_back(times_[thread]++);
  }
  // When a thread first called fence_async_proxy() at or after a time; 0 if never.
  std::uint32_t fence_after(std::uint32_t thread, std::uint32_t time) const {
    const auto& of_thread = fences_[thread];
    const auto found =
        std::lower_bound(of_thread.begin(), of_thread.end(), time);
    return found == of_thread.end() ? 0 : *found;
  }

 private:
  // Threads come first, then agents.
  std::size_t index_of(std::uint32_t number) const {
    return number < kFirstAgent ? number : number - kFirstAgent + threads_;
  }

  std::size_t threads_ = 0;
  std::vector<std::uint32_t> times_;                // of each thread
  std::vector<Knowledge> known_;                    // by each thread
  Knowledge all_;                                   // by all of them
  std::vector<std::vector<std::uint32_t>> fences_;  // of each thread
  std::unordered_map<const void*, std::uint32_t> agents_;
};

struct SiteTraffic {
  bool shared = false, write = false, atomic = false;
  std::array<std::uint32_t, kWarpSize> executions{};
  std::vector<Request> requests;
};

int lanes_in(std::uint32_t mask) {
  return static_cast<int>(std::bitset<32>(mask).count());
}

std::int64_t sectors(const Request& request) {
  std::set<std::uint64_t> touched;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (!request.has(lane)) continue;
    const std::uint64_t begin =
        request.address[static_cast<std::size_t>(lane)];
    for (std::uint64_t s = begin / 32; s <= (begin + request.size - 1) / 32;
         ++s) {
      touched.insert(s);
    }
  }
  return static_cast<std::int64_t>(touched.size());
}

// The memory of the executable's thread-local variables on this thread, where __shared__ arrays are.
Region thread_local_memory() {
  Region region;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
          static_cast<Region*>(result)->set(info->dlpi_tls_data,
                                            info->dlpi_phdr[i].p_memsz);
        }
        return 1;  // the executable comes first
      },
      &region);
  return region;
}

// Where the executable was loaded.
std::uintptr_t load_address() {
  std::uintptr_t result = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* address) {
        *static_cast<std::uintptr_t*>(address) = info->dlpi_addr;
        return 1;
      },
      &result);
  return result;
}

// Whether a line is a kernel's, and neither the lab's nor of a library.
bool is_of_kernel(const std::string& place) {
  const auto holds = [&](const char* part) {
    return place.find(part) != std::string::npos;
  };
  return !holds("??") && place.compare(0, 5, "/usr/") != 0 &&
         (holds("/tests/") || !holds("common/"));
}

bool is_surface(const std::string& place) {
  return place.find("common/gpu/kernel") != std::string::npos ||
         place.find("common/gpu/hopper") != std::string::npos;
}

// "file:line" with the file's name as seen from the repository. A compiler's cache may have made it relative.
std::string short_name(const std::string& place) {
  const std::string root = FA_ROOT_DIRECTORY, up = "../";
  std::string name =
      std::filesystem::path(place).lexically_normal().string();
  if (name.compare(0, root.size(), root) == 0) name.erase(0, root.size());
  while (name.compare(0, up.size(), up) == 0) name.erase(0, up.size());
  return name;
}

// Whether a line is one of what surrounds kernels.
bool is_outside(const std::string& place) {
  for (const char* part :
       {"common/lab/engine", "common/lab/watch", "common/lab/async",
        "common/gpu/launch", "/usr/include/", "/boost/", "??", ":?"}) {
    if (place.find(part) != std::string::npos) return true;
  }
  return is_surface(place);
}

// The lines of code addresses: of each the chain of inlined calls, the innermost first.
using Lines = std::map<std::uintptr_t, std::vector<std::string>>;
const Lines& lines_of(const std::vector<std::uintptr_t>& codes) {
  const std::uintptr_t base = load_address();
  // Each start of addr2line reads all of the program's lines.
  static Lines known;
  std::vector<std::uintptr_t> asked;
  for (const std::uintptr_t code : codes) {
    if (known.count(code) == 0) asked.push_back(code);
  }
  constexpr std::size_t kAtOnce = 5000;
  for (std::size_t begin = 0; begin < asked.size(); begin += kAtOnce) {
    std::string command =
        fmt::format("addr2line -a -i -e /proc/{}/exe", getpid());
    const std::size_t end = std::min(begin + kAtOnce, asked.size());
    for (std::size_t i = begin; i < end; ++i) {
      command += fmt::format(" {:#x}", asked[i] - base - 1);  // in the call
    }
    std::FILE* const pipe = popen((command + " 2>/dev/null").c_str(), "r");
    if (pipe == nullptr) return known;
    char line[4096];
    std::uintptr_t code = 0;
    while (std::fgets(line, sizeof line, pipe) != nullptr) {
      std::string text(line, std::strcspn(line, "\n"));
      if (text.compare(0, 2, "0x") == 0) {
        code = static_cast<std::uintptr_t>(
                   std::strtoull(text.c_str(), nullptr, 16)) +
               base + 1;
        continue;
      }
      known[code].push_back(
          short_name(text.substr(0, text.find(" (discriminator"))));
    }
    pclose(pipe);
  }
  return known;
}

// The line of a code address: the innermost that is not in the functions that kernels are written with.
std::string line_of(const Lines& lines, std::uintptr_t code) {
  const auto found = lines.find(code);
  if (found == lines.end()) return fmt::format("code {:#x}", code);
  for (const std::string& line : found->second) {
    if (!is_surface(line)) return line;
  }
  return found->second.back();
}

// The return addresses of the functions that run now, the innermost first.
std::vector<std::uintptr_t> call_stack() {
  std::vector<std::uintptr_t> result;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* stack) {
        static_cast<std::vector<std::uintptr_t>*>(stack)->push_back(
            _Unwind_GetIP(context));
        return _URC_NO_REASON;
      },
      &result);
  return result;
}

}  // namespace

struct Watch::State : Observer {
  // ---------------------------------------------------------------- sites

  // A place in a kernel: a code address, or a line that is known.
  struct Site {
    std::uintptr_t code = 0;
    SourceLocation location;
  };
  std::vector<Site> sites{1};
  std::unordered_map<std::uintptr_t, std::uint32_t> site_of_code;
  std::map<std::pair<std::string, int>, std::uint32_t> site_of_location;

  std::uint32_t site(std::uintptr_t code) {
    auto& id = site_of_code[code];
    if (id == 0) {
      id = static_cast<std::uint32_t>(sites.size());
      sites.push_back({code, {}});
    }
    return id;
  }
  // Of each byte of the program's code, whether a basic block that begins there was reached.
  const WatchedCode& watched_code = WatchedCode::of_this_program();
  std::vector<bool> blocks = std::vector<bool>(watched_code.size() + 1);
  void reaches(std::uintptr_t block) {
    const std::uintptr_t offset = block - watched_code.begin();
    if (offset < blocks.size()) blocks[offset] = true;
  }
  bool has_reached(std::uintptr_t call) const {
    const std::uintptr_t offset = call - watched_code.begin();
    return site_of_code.count(call) > 0 ||
           (offset < blocks.size() && blocks[offset]);
  }

  std::uint32_t site(const SourceLocation& location) {
    auto& id = site_of_location[{location.file, location.line}];
    if (id == 0) {
      id = static_cast<std::uint32_t>(sites.size());
      sites.push_back({0, location});
    }
    return id;
  }

  // ---------------------------------------------------------------- memory

  std::map<const std::byte*, Region> buffers;  // by their ends with the room
  Region statics, dynamic;
  Region* last_buffer = nullptr;

  Region* buffer_at(const std::byte* address) {
    if (last_buffer != nullptr && last_buffer->contains(address)) {
      return last_buffer;
    }
    const auto found = buffers.upper_bound(address);
    if (found == buffers.end() || address < found->second.begin - kRoom) {
      return nullptr;
    }
    return last_buffer = &found->second;
  }

  void allocated(const void* memory, std::size_t bytes) override {
    const auto* end = static_cast<const std::byte*>(memory) + bytes + kRoom;
    buffers[end].set(memory, bytes);
    last_buffer = nullptr;
  }
  void released(const void* memory) override {
    const auto found =
        buffers.upper_bound(static_cast<const std::byte*>(memory));
    if (found != buffers.end()) buffers.erase(found);
    last_buffer = nullptr;
  }
  void host_wrote(const void* memory, std::size_t bytes,
                  bool means_nothing) override {
    const auto* address = static_cast<const std::byte*>(memory);
    Region* region = buffer_at(address);
    if (region == nullptr) return;  // older than this watch
    for_cells(*region, address, bytes, [&](Cell& cell) {
      cell = {};
      cell.written = !means_nothing;
    });
  }

  template <class Visit>
  static void for_cells(Region& region, const std::byte* address,
                        std::size_t bytes, Visit visit) {
    const auto offset = static_cast<std::size_t>(address - region.begin);
    const std::size_t end = std::min(offset + bytes, region.size);
    for (std::size_t i = offset / kCellBytes;
         i < (end + kCellBytes - 1) / kCellBytes; ++i) {
      visit(region.cells[i]);
    }
  }

  // ---------------------------------------------------------------- order

  std::uint32_t interval = 1, first_interval = 1;  // of this launch
  std::uint32_t block_thread = 1;  // id of thread 0 of this block
  std::uint32_t next_block_thread = 1;
  Size block_index;
  int threads = 0;  // of a block
  Order order;
  // Order between blocks: what a thread knew at its last __threadfence(), by threads of this block; who has counted
  // after one, by counters; what a thread has seen of that, and will know at its next fence; what this block has learnt
  // by it, by the first threads of blocks; and what of that its copies by TMA know.
  using OfBlocks = std::unordered_map<std::uint32_t, Knowledge>;
  std::unordered_map<std::uint32_t, Knowledge> at_fence;
  std::unordered_map<const void*,
                     std::vector<std::pair<std::uint32_t, Knowledge>>>
      counted_by;
  std::unordered_map<std::uint32_t, OfBlocks> seen;
  OfBlocks learnt, learnt_by_copies;
  bool copy_runs = false;  // whether a copy by TMA makes the access
  std::vector<std::unordered_map<std::uint32_t, SiteTraffic>> pending;
  std::vector<std::uint32_t> alive;  // lanes of each warp

  void launch_begins(const Launch& launch) override {
    first_interval = ++interval;
    next_block_thread = block_thread = 1;
    counted_by.clear();
    threads = static_cast<int>(launch.block.count());
  }

  void block_begins(const Thread& first, const void* memory,
                    std::size_t bytes) override {
    ++interval;
    block_thread = next_block_thread;
    next_block_thread += kNumbers;
    block_index = first.block_index;
    const auto count =
        static_cast<std::size_t>((threads + kWarpSize - 1) / kWarpSize);
    order.begin(threads);
    at_fence.clear();
    seen.clear();
    learnt.clear();
    learnt_by_copies.clear();
    sync_objects.clear();
    lent.assign(static_cast<std::size_t>(threads), {});
    loops.assign(static_cast<std::size_t>(threads), {});
    pending.assign(count, {});
    alive.assign(count, 0xffffffffu);
    if (threads % kWarpSize != 0) {
      alive.back() = (1u << (threads % kWarpSize)) - 1;
    }
    statics.clear();
    dynamic.set(memory, bytes);
  }

  void warp_meets(const Thread& last, unsigned mask,
                  bool orders_memory) override {
    const auto warp = static_cast<std::size_t>(last.number / kWarpSize);
    if ((mask & alive[warp]) == alive[warp]) count_requests(warp);
    // Shuffles do not.
    if (orders_memory) order.warp_meets(warp * kWarpSize, mask);
  }

  void block_meets(const SourceLocation& first, const SourceLocation& second,
                   bool same_line, int ended) override {
    ++interval;
    order.block_meets();
    for (std::size_t w = 0; w < pending.size(); ++w) count_requests(w);
    if (!same_line) {
      find("barrier", site(first), site(second),
           "threads of one block meet at two different __syncthreads(): the "
           "barrier stands in a branch that not all threads take; move it "
           "out of the branch");
    } else if (ended > 0) {
      find("barrier", site(first), 0,
           fmt::format("{} threads of the block have ended and do not come "
                       "to this __syncthreads(); guard the work, not the "
                       "barrier, and let every thread reach it",
                       ended));
    }
  }

  void thread_ends(const Thread& thread) override {
    const auto warp = static_cast<std::size_t>(thread.number / kWarpSize);
    alive[warp] &= ~(1u << thread.lane);
    if (alive[warp] == 0) count_requests(warp);
  }
  void block_ends() override {
    for (std::size_t w = 0; w < pending.size(); ++w) count_requests(w);
  }

  // Whether an earlier access is over for the thread that runs now.
  bool ordered(const Access& before, std::uint32_t now) const {
    if (before.thread == 0 || before.thread == now) return true;
    if (before.interval < first_interval) return true;  // another launch
    if (before.thread < block_thread) {                 // another block
      return knows(copy_runs ? learnt_by_copies : learnt, before);
    }
    // A barrier between. What runs beside the threads does not come to it.
    if (before.interval < interval && !is_agent(before.thread)) return true;
    return order.knows(now - block_thread, before.thread - block_thread,
                       before.time);
  }
  // Whether somebody has learnt of what another block did.
  static bool knows(const OfBlocks& learnt, const Access& before) {
    const std::uint32_t number = (before.thread - 1) % kNumbers;
    const auto of = learnt.find(before.thread - number);
    return of != learnt.end() && of->second.of(number) >= before.time;
  }
  bool is_agent(std::uint32_t thread) const {
    return (thread - 1) % kNumbers >= kFirstAgent;
  }

  // ---------------------------------------------------------------- findings

  struct Found {
    std::string kind;
    std::uint32_t site = 0, other = 0;
    std::string message;
    int distance = 0;  // of two threads: 0 in a warp, 1 in a block, 2 beyond
    std::int64_t count = 0;
    std::vector<std::uintptr_t> stack;  // where it was found
  };
  std::vector<Found> findings;

  // Of several findings at the same lines the one over the largest distance is told: its remedy mends the
  // others as well.
  void find(const std::string& kind, std::uint32_t site, std::uint32_t other,
            const std::string& message, int distance = 0) {
    for (Found& f : findings) {
      if (f.kind == kind && f.site == site && f.other == other) {
        ++f.count;
        if (distance > f.distance) {
          f.message = message;
          f.distance = distance;
        }
        return;
      }
    }
    findings.push_back(
        {kind, site, other, message, distance, 1, call_stack()});
  }

  // "thread 37 (warp 1, lane 5)", and the block where it is not this one.
  std::string name_of(std::uint32_t thread) const {
    const std::uint32_t number = (thread - 1) % kNumbers;
    return fmt::format(
        "thread {} (warp {}, lane {}){}", number, number / kWarpSize,
        number % kWarpSize,
        thread >= block_thread
            ? ""
            : fmt::format(" of block {}", (thread - 1) / kNumbers));
  }

  // "byte 12 of a buffer of 400 bytes". Where a static array begins is not known.
  std::string name_of(const Region& region, std::ptrdiff_t offset) const {
    if (&region == &statics) return "a static array in shared memory";
    if (&region == &dynamic) {
      return fmt::format("byte {} of the dynamic shared memory", offset);
    }
    return fmt::format("byte {} of a buffer of {} bytes in global memory",
                       offset, region.size);
  }

  void find_race(const Access& before, bool before_writes, const Access& now,
                 bool writes, const Region& region, std::ptrdiff_t offset) {
    std::string kind = "race";
    std::string with = "nothing to say who comes first", missing;
    int distance = 0;
    if (before.thread < block_thread && knows(learnt, before)) {
      kind = "proxy";
      with = "a counter that orders the threads, but not the copy";
      distance = 2;
      missing = "fence_async_proxy_global() is missing before this line";
    } else if (before.thread < block_thread) {
      distance = 2;
      missing =
          "the two are in different blocks: use an atomic, a second launch, "
          "or a counter, with a __threadfence() before it in the one (and a "
          "bulk_wait<0>() before that where a copy writes) and an "
          "atomic_add_acquire() or load_acquire() in the other";
    } else if ((before.thread - block_thread) / kWarpSize ==
               (now.thread - block_thread) / kWarpSize) {
      missing =
          "both are in one warp, where only __syncwarp() orders memory (a "
          "shuffle does not): it is probably missing between the two lines";
    } else {
      distance = 1;
      missing = "a __syncthreads() is probably missing between the two lines";
    }
    find(kind, now.site, before.site,
         fmt::format("{} {} what {} {}, in {}, with {}; {}",
                     name_of(now.thread), writes ? "writes" : "reads",
                     name_of(before.thread),
                     before_writes ? "has written" : "has read",
                     name_of(region, offset), with, missing),
         distance);
  }

  void check(Region& region, const std::byte* address, std::size_t size,
             bool write, bool atomic, std::uint32_t at, bool shared) {
    const auto number = static_cast<std::uint32_t>(current->number);
    const Access now{block_thread + number, interval, order.time(number), at,
                     atomic};
    const auto offset = address - region.begin;
    bool told = false;  // once for each access is enough
    if (write && !region.async_reads.empty()) {
      told = check_async_reads(region, address, size, now, "");
    }
    for_cells(region, address, size, [&](Cell& cell) {
      if (!told && cell.in_flight) {
        told = true;
        find("copy", at, cell.write.site,
             fmt::format(
                 "{} {} {} while the cp.async of the other line is under "
                 "way; a cp_async_wait is probably missing before this line",
                 name_of(now.thread), write ? "writes" : "reads",
                 name_of(region, offset)));
      }
      if (!told && !write && !cell.written && !cell.in_flight) {
        told = true;
        find("unwritten", at, 0,
             fmt::format("{} reads {}, where nobody has written{}",
                         name_of(now.thread), name_of(region, offset),
                         shared ? " in this block" : ""));
      }
      const auto conflicts = [&](const Access& before) {
        return !(before.atomic && atomic) && !ordered(before, now.thread);
      };
      for (const Access* before : {&cell.write, &cell.atomic_write}) {
        if (!told && conflicts(*before)) {
          told = true;
          if (is_agent(before->thread)) {
            find_early(*before, name_of(now.thread), write, now.site, region,
                       offset);
          } else {
            find_race(*before, true, now, write, region, offset);
          }
        }
      }
      if (!told && write) {
        for (const Access* read : {&cell.read, &cell.other_read}) {
          if (!told && conflicts(*read)) {
            told = true;
            find_race(*read, false, now, true, region, offset);
          }
        }
      }
      if (write) {
        (atomic ? cell.atomic_write : cell.write) = now;
        cell.written = true;
        cell.in_flight = false;
      } else {
        if (cell.read.thread != now.thread) cell.other_read = cell.read;
        cell.read = now;
      }
    });
  }

  // Whether an access is within its region.
  bool check_bounds(const Region& region, const std::byte* address,
                    std::size_t size, bool write, std::uint32_t at,
                    bool shared) {
    if (region.contains(address) &&
        address + size <= region.begin + region.size) {
      return true;
    }
    const auto number = static_cast<std::uint32_t>(current->number);
    find("out of bounds", at, 0,
         fmt::format(
             "{} of block ({}, {}, {}) {} {} bytes at byte {} of {} of {} "
             "bytes; {}",
             name_of(block_thread + number), block_index.x, block_index.y,
             block_index.z, write ? "writes" : "reads", size,
             address - region.begin,
             shared ? "the dynamic shared memory" : "a buffer", region.size,
             shared ? "the launch asks for too little, or an index is wrong"
                    : "a guard is probably missing, or off by one"));
    return false;
  }

  // `natural`: of a type whose alignment is its size.
  void access(const void* memory, std::size_t size, bool write, bool atomic,
              std::uint32_t at, bool natural = false) {
    const auto* address = static_cast<const std::byte*>(memory);
    last_access = {address, size, at};
    bool shared = true;
    Region* region = nullptr;
    if (statics.contains(address)) {
      if (memory == &current) return;  // threadIdx and the like
      region = &statics;
    } else if (address >= dynamic.begin - kRoom &&
               address < dynamic.begin + dynamic.size + kRoom) {
      region = &dynamic;
    } else {
      shared = false;
      region = buffer_at(address);
      if (region == nullptr) {  // registers, arguments
        check_registers(address, size, write, at);
        return;
      }
    }
    if (region != &statics &&
        !check_bounds(*region, address, size, write, at, shared)) {
      return;
    }
    // Of 16 bytes no more than a multiple of 8 is known: it may be a struct of two.
    if (natural && reinterpret_cast<std::uintptr_t>(address) %
                           std::min<std::size_t>(size, 8) !=
                       0) {
      find("misaligned", at, 0, misaligned_text(address, size));
    }
    note_loop(address, write, at);
    check(*region, address, size, write, atomic, at, shared);
    // The load before a compare-and-swap is the lab's: a GPU has one instruction for both.
    if (!atomic || write) log(*region, address, size, write, atomic, at);
  }

  // ---------------------------------------------------------------- loops

  // What a thread read since it last wrote, if that was always the same: it may wait for another thread.
  struct Loop {
    std::array<const std::byte*, 4> addresses{};
    std::size_t known = 0;  // of these
    int loads = 0;          // of these alone
    std::uint32_t site = 0;
  };
  static constexpr int kLoopLoads = 100;  // before others run
  std::vector<Loop> loops;                // of each thread

  void note_loop(const std::byte* address, bool write, std::uint32_t at) {
    Loop& loop = loops[this_thread()];
    loop.site = at;
    if (write) {
      loop.known = 0;
      loop.loads = 0;
      return;
    }
    const auto end = loop.addresses.begin() + loop.known;
    if (std::find(loop.addresses.begin(), end, address) != end) {
      ++loop.loads;
      return;
    }
    if (loop.known == loop.addresses.size()) loop.known = 0;
    loop.addresses[loop.known++] = address;
    loop.loads = 0;
  }
  // Whether the running thread does nothing but read the same memory.
  bool loops_now() {
    int& loads = loops[this_thread()].loads;
    if (loads < kLoopLoads) return false;
    loads = 0;
    return true;
  }

  // The access that was made last, by any thread.
  struct LastAccess {
    const std::byte* address = nullptr;
    std::size_t size = 1;
    std::uint32_t site = 0;
  };
  LastAccess last_access;

  std::string crashes(const Thread& thread) override {
    const auto [address, size, site] = last_access;
    if (site == 0) return "";
    const bool misaligned =
        reinterpret_cast<std::uintptr_t>(address) % size != 0;
    find(
        misaligned ? "misaligned" : "out of bounds", site, 0,
        fmt::format(
            "{} crashes when it uses {} bytes at {}; {}", name_of(thread),
            size, fmt::ptr(address),
            misaligned ? fmt::format("a GPU takes multiples of {} only", size)
                       : "the pointer is null, or leads out of all buffers"));
    return where(site);
  }
  std::string spins(const Thread& thread) override {
    const std::uint32_t site =
        loops[static_cast<std::size_t>(thread.number)].site;
    if (site == 0) return "";
    find("spin", site, 0,
         fmt::format(
             "warp {} spins: {} reads a flag again and again that no other "
             "thread can change any more; they have ended, or wait for "
             "this one, or are in a block that comes later",
             thread.number / kWarpSize, name_of(thread)));
    return where(site);
  }
  std::string name_of(const Thread& thread) const {
    return name_of(block_thread + static_cast<std::uint32_t>(thread.number));
  }
  std::string where(std::uint32_t id) const {
    const Site& site = sites[id];
    return site.code != 0
               ? line_of(lines_of({site.code}), site.code)
               : short_name(fmt::format("{}:{}", site.location.file,
                                        site.location.line));
  }

  void accesses(const void* address, std::size_t size, bool write,
                const SourceLocation& location) override {
    access(address, size, write, false, site(location));
  }
  void copy_begins(const void* destination, std::size_t size,
                   const SourceLocation& location) override {
    access(destination, size, true, false, site(location));
    set_in_flight(destination, size, true);
  }
  void copy_ends(const void* destination, std::size_t size,
                 const SourceLocation& location) override {
    set_in_flight(destination, size, false);
    // Written now, as far as order goes; the request was counted before.
    const auto* address = static_cast<const std::byte*>(destination);
    Region* region = statics.contains(address)   ? &statics
                     : dynamic.contains(address) ? &dynamic
                                                 : nullptr;
    if (region != nullptr) {
      check(*region, address, size, true, false, site(location), true);
    }
  }
  void set_in_flight(const void* destination, std::size_t size, bool value) {
    const auto* address = static_cast<const std::byte*>(destination);
    for (Region* region : {&statics, &dynamic}) {
      if (!region->contains(address)) continue;
      for_cells(*region, address, size,
                [&](Cell& cell) { cell.in_flight = value; });
    }
  }

  // ---------------------------------------------------------------- asynchrony

  // What is known of a barrier, an mbarrier or a named one.
  struct SyncObject {
    Knowledge coming, ended;  // brought in this phase; in all that have ended
    Access made;              // of an mbarrier
    bool fenced = false;      // is visible to copies
  };
  std::unordered_map<const void*, SyncObject> sync_objects;

  // Registers that a product has.
  struct Lent {
    const std::byte* begin;
    std::size_t size;
    bool sums;
    const void* agent;
    std::uint32_t when, site;
  };
  std::vector<std::vector<Lent>> lent;  // of each thread

  std::uint32_t this_thread() const {
    return static_cast<std::uint32_t>(current->number);
  }

  void barrier_made(const void* barrier,
                    const SourceLocation& location) override {
    SyncObject& object = sync_objects[barrier];
    object.made = {block_thread + this_thread(), interval,
                   order.time(this_thread()), site(location), false};
    object.fenced = false;
  }
  void barriers_fenced() override {
    for (auto& entry : sync_objects) {
      SyncObject& object = entry.second;
      object.fenced =
          object.fenced || object.made.thread == block_thread + this_thread();
    }
  }
  void barrier_used(const void* barrier, bool by_copy,
                    const SourceLocation& location) override {
    const SyncObject& object = sync_objects[barrier];
    if (!ordered(object.made, block_thread + this_thread())) {
      find("barrier", site(location), object.made.site,
           fmt::format("{} uses an mbarrier that {} has initialised, with "
                       "nothing to say who comes first; a __syncthreads() is "
                       "probably missing between the two lines",
                       name_of(block_thread + this_thread()),
                       name_of(object.made.thread)));
    } else if (by_copy && !object.fenced) {
      find("barrier", site(location), object.made.site,
           "a copy reports to an mbarrier that it may not see yet: "
           "fence_barrier_init() is missing after the mbarrier was "
           "initialised");
    }
  }
  void releases(const void* barrier) override {
    order.tell(this_thread(), sync_objects[barrier].coming);
  }
  void phase_ends(const void* barrier) override {
    SyncObject& object = sync_objects[barrier];
    object.ended.join(object.coming);
  }
  void acquires(const void* barrier) override {
    order.learn(this_thread(), sync_objects[barrier].ended);
  }
  void memory_fenced(bool arrived) override {
    if (arrived) order.tell_all(this_thread(), at_fence[this_thread()]);
    OfBlocks& of_thread = seen[this_thread()];
    for (const auto& [block, knowledge] : of_thread) {
      learnt[block].join(knowledge);
    }
    of_thread.clear();
  }
  // Blocks run one after the other here: those that have counted before are over, but only what they did before their
  // fence is known to be over in any run.
  void counts(const void* counter, CounterUse use) override {
    auto& others = counted_by[counter];
    OfBlocks& knowing =
        use == CounterUse::kAdd ? seen[this_thread()] : learnt;
    for (const auto& [block, knowledge] : others) {
      knowing[block].join(knowledge);
    }
    if (use == CounterUse::kLoadAcquire) return;  // others see nothing of it
    const auto fenced = at_fence.find(this_thread());
    if (fenced != at_fence.end()) {
      others.emplace_back(block_thread, fenced->second);
    }
  }

  void async_fenced() override { order.fence(this_thread()); }
  void async_fenced_globally() override { learnt_by_copies = learnt; }

  void async_ends(const void* agent, std::uint32_t when,
                  bool whole_warp) override {
    const std::uint32_t number = order.number_of(agent);
    const std::uint32_t thread = this_thread();
    if (!whole_warp) {
      order.learn(thread, number, when);
      return;
    }
    const std::uint32_t first = thread / kWarpSize * kWarpSize;
    for (std::uint32_t i = first; i < first + kWarpSize; ++i) {
      order.learn(i, number, when);
      auto& of_thread = lent[i];
      of_thread.erase(std::remove_if(of_thread.begin(), of_thread.end(),
                                     [&](const Lent& registers) {
                                       return registers.agent == agent &&
                                              registers.when <= when;
                                     }),
                      of_thread.end());
    }
  }

  void registers_lent(int thread, const void* address, std::size_t size,
                      bool sums, const void* agent, std::uint32_t when,
                      const SourceLocation& location) override {
    lent[static_cast<std::size_t>(thread)].push_back(
        {static_cast<const std::byte*>(address), size, sums, agent, when,
         site(location)});
  }

  void registers_changed(const SourceLocation& location,
                         const std::string& message) override {
    const std::uint32_t at = site(location);
    for (const Found& found : findings) {
      // The line that did it is known.
      if (found.kind == "product" && found.other == at) return;
    }
    find("product", at, 0, message);
  }

  void check_registers(const std::byte* address, std::size_t size, bool write,
                       std::uint32_t at) {
    for (const Lent& registers : lent[this_thread()]) {
      if (address >= registers.begin + registers.size ||
          registers.begin >= address + size || (!write && !registers.sums)) {
        continue;
      }
      find("product", at, registers.site,
           fmt::format(
               "{} {} {} of the wgmma() of the other line, which is "
               "under way; a wgmma_wait() is probably missing before "
               "this line",
               name_of(block_thread + this_thread()),
               write ? "writes" : "reads",
               registers.sums ? "a sum" : "the left operand, in registers,"));
      return;
    }
  }

  Region* shared_at(const std::byte* address) {
    return statics.contains(address)   ? &statics
           : dynamic.contains(address) ? &dynamic
                                       : nullptr;
  }

  static const char* name_of(AsyncUse use) {
    switch (use) {
      case AsyncUse::kCopy:
        return "the copy";
      case AsyncUse::kStore:
        return "the store";
      default:
        return "the wgmma()";
    }
  }

  // Somebody uses what a copy fills.
  void find_early(const Access& copy, const std::string& who, bool write,
                  std::uint32_t at, const Region& region,
                  std::ptrdiff_t offset) {
    find("copy", at, copy.site,
         fmt::format("{} {} {}, which the copy of the other line fills; its "
                     "mbarrier was not waited for before this line",
                     who, write ? "writes" : "reads",
                     name_of(region, offset)));
  }

  // A write over what something beside the threads may still read.
  bool check_async_reads(Region& region, const std::byte* address,
                         std::size_t size, const Access& now,
                         const std::string& by) {
    bool told = false;
    const auto offset = static_cast<std::size_t>(address - region.begin);
    for (std::size_t i = offset / kGrainBytes;
         i <= (offset + size - 1) / kGrainBytes; ++i) {
      auto& reads = region.async_reads[i];
      for (const AsyncRead& read : reads) {
        if (told || order.knows(now.thread - block_thread,
                                read.thread - block_thread, read.time)) {
          continue;
        }
        told = true;
        find("race", now.site, read.site,
             fmt::format(
                 "{}{} writes {}, which {} of the other line may still "
                 "read; {}",
                 by, name_of(now.thread),
                 name_of(region, static_cast<std::ptrdiff_t>(offset)),
                 name_of(read.use),
                 read.use == AsyncUse::kStore
                     ? "a bulk_wait_read() is probably missing between them, "
                       "or a barrier after it"
                     : "a wgmma_wait() is probably missing between them, or "
                       "a barrier at which all of its warps arrive after "
                       "it"),
             1);
      }
      reads.clear();  // who comes later comes after this write
    }
    return told;
  }

  void async_uses(const void* agent, AsyncUse use, std::uint32_t when,
                  const void* memory, std::size_t size,
                  const SourceLocation& location) override {
    const auto* address = static_cast<const std::byte*>(memory);
    Region* region = shared_at(address);
    if (region == nullptr) return;
    const std::uint32_t id = block_thread + order.number_of(agent);
    if (use == AsyncUse::kCopy) {
      async_writes(*region, address, size,
                   {id, interval, when, site(location), false});
    } else {
      async_reads(*region, address, size, {id, when, site(location), use});
    }
  }

  // A copy to shared memory begins.
  void async_writes(Region& region, const std::byte* address,
                    std::size_t size, const Access& copy) {
    const Access now{block_thread + this_thread(), interval,
                     order.time(this_thread()), copy.site, false};
    const auto offset = address - region.begin;
    bool told =
        !region.async_reads.empty() &&
        check_async_reads(region, address, size, now, "a copy begun by ");
    for_cells(region, address, size, [&](Cell& cell) {
      for (const Access* before :
           {&cell.write, &cell.atomic_write, &cell.read, &cell.other_read}) {
        if (told || ordered(*before, now.thread)) continue;
        told = true;
        const bool writes =
            before == &cell.write || before == &cell.atomic_write;
        const std::string what =
            is_agent(before->thread)
                ? "the copy of the other line fills"
                : fmt::format("{} {}", name_of(before->thread),
                              writes ? "has written" : "has read");
        find("race", copy.site, before->site,
             fmt::format("a copy begun by {} overwrites {}, which {}, with "
                         "nothing to say who comes first; a barrier at which "
                         "all that use the old contents arrive was probably "
                         "not waited for",
                         name_of(now.thread), name_of(region, offset), what),
             1);
      }
      cell = {};
      cell.write = copy;
      cell.written = true;
    });
  }

  // A product or a store begins to read.
  void async_reads(Region& region, const std::byte* address, std::size_t size,
                   const AsyncRead& read) {
    const std::uint32_t thread = this_thread();
    const bool whole_warp = read.use == AsyncUse::kProduct;
    // A product begins when all lanes have come: what one of them knows, all do.
    const auto knows = [&](std::uint32_t number, std::uint32_t time) {
      return whole_warp ? order.warp_knows(thread, number, time)
                        : order.knows(thread, number, time);
    };
    const auto offset = address - region.begin;
    bool told = false;
    for_cells(region, address, size, [&](Cell& cell) {
      if (told) return;
      if (cell.in_flight) {
        told = true;
        find("copy", read.site, cell.write.site,
             fmt::format("{} reads {} while the cp.async of the other line "
                         "is under way; a cp_async_wait is probably missing "
                         "before this line",
                         name_of(read.use), name_of(region, offset)));
        return;
      }
      if (!cell.written) {
        told = true;
        find(
            "unwritten", read.site, 0,
            fmt::format("{} reads {}, where nobody has written in this block",
                        name_of(read.use), name_of(region, offset)));
        return;
      }
      for (const Access* before : {&cell.write, &cell.atomic_write}) {
        if (told || before->thread == 0) continue;
        const std::uint32_t number = before->thread - block_thread;
        const bool between = before->interval < interval || number == thread;
        if (is_agent(before->thread)) {
          if (knows(number, before->time)) continue;
          told = true;
          find_early(*before,
                     fmt::format("{} of warp {}", name_of(read.use),
                                 thread / kWarpSize),
                     false, read.site, region, offset);
        } else if (!between && !knows(number, before->time)) {
          told = true;
          find("race", read.site, before->site,
               fmt::format("{} of warp {} reads what {} has written, in {}, "
                           "with nothing to say who comes first; a barrier "
                           "is probably missing between the two lines",
                           name_of(read.use), thread / kWarpSize,
                           name_of(before->thread), name_of(region, offset)),
               1);
        } else {
          const std::uint32_t fence = order.fence_after(number, before->time);
          if (fence != 0 && (number == thread || knows(number, fence))) {
            continue;
          }
          told = true;
          find("proxy", read.site, before->site,
               fmt::format("{} of warp {} may not see what {} has written, "
                           "in {}: fence_async_proxy() is missing after the "
                           "other line, in the thread that writes and before "
                           "the barrier",
                           name_of(read.use), thread / kWarpSize,
                           name_of(before->thread), name_of(region, offset)));
        }
      }
    });
    if (region.async_reads.empty()) {
      region.async_reads.resize(region.size / kGrainBytes + 1);
    }
    auto& reads =
        region.async_reads[static_cast<std::size_t>(offset) / kGrainBytes];
    for (AsyncRead& known : reads) {
      if (known.thread != read.thread) continue;
      known = read;
      return;
    }
    reads.push_back(read);
  }

  void moves(const std::vector<const void*>& rows, std::size_t size,
             bool write, bool atomic,
             const SourceLocation& location) override {
    const std::uint32_t at = site(location);
    Counted& c = counted[{at, false, write}];
    bool any = false;
    copy_runs = true;
    for (const void* memory : rows) {
      const auto* address = static_cast<const std::byte*>(memory);
      Region* region = buffer_at(address);
      if (region == nullptr) continue;
      any = true;
      if (!check_bounds(*region, address, size, write, at, false)) continue;
      check(*region, address, size, write, atomic, at, false);
      Request row;
      row.address[0] = reinterpret_cast<std::uint64_t>(address);
      row.lanes = 1;
      row.size = static_cast<std::uint32_t>(size);
      const auto bytes = static_cast<std::int64_t>(size);
      c.bytes += bytes;
      c.sectors += sectors(row);
      c.ideal += (bytes + 31) / 32;
    }
    copy_runs = false;
    c.requests += any;
    c.atomics += any && atomic;
  }

  void finds(const std::string& kind, const SourceLocation& location,
             const SourceLocation& other,
             const std::string& message) override {
    find(kind, site(location), other.line > 0 ? site(other) : 0, message);
  }

  // ---------------------------------------------------------------- traffic

  struct Counted {
    std::int64_t requests = 0, diverged = 0, atomics = 0, bytes = 0,
                 sectors = 0, wavefronts = 0, ideal = 0;
    Request worst;  // of shared memory
    std::int64_t worst_wavefronts = 0;
  };
  // By site, kind of memory and direction.
  std::map<std::tuple<std::uint32_t, bool, bool>, Counted> counted;

  // In requests, shared memory is as a GPU lays it out: static arrays, then dynamic memory.
  std::uint64_t lowest_static = ~std::uint64_t{0};  // that was touched
  std::uint64_t dynamic_begin() const {
    return static_cast<std::uint64_t>(statics.size) / 128 * 128 + 256;
  }
  std::uint64_t position(const Region& region, const std::byte* address) {
    const auto absolute = reinterpret_cast<std::uint64_t>(address);
    if (&region == &dynamic) {
      return dynamic_begin() + absolute -
             reinterpret_cast<std::uint64_t>(dynamic.begin);
    }
    if (&region != &statics) return absolute;
    const std::uint64_t result =
        absolute - reinterpret_cast<std::uint64_t>(statics.begin) / 128 * 128;
    lowest_static = std::min(lowest_static, result / 4 * 4);
    return result;
  }
  // The same, with bytes counted from the first that was touched. It moves all lanes by whole words.
  Request from_first_byte(Request request) const {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if (!request.has(lane)) continue;
      std::uint64_t& address =
          request.address[static_cast<std::size_t>(lane)];
      address -= address < dynamic_begin() ? lowest_static : dynamic_begin();
    }
    return request;
  }

  void log(const Region& region, const std::byte* address, std::size_t size,
           bool write, bool atomic, std::uint32_t at) {
    const auto warp = static_cast<std::size_t>(current->number / kWarpSize);
    const auto lane = static_cast<std::size_t>(current->lane);
    // One line may read and write; its two instructions are kept apart.
    SiteTraffic& traffic = pending[warp][2 * at + (write ? 1 : 0)];
    traffic.shared = &region == &statics || &region == &dynamic;
    traffic.write = write;
    traffic.atomic = atomic;
    const std::size_t execution = traffic.executions[lane]++;
    if (traffic.requests.size() <= execution) {
      traffic.requests.resize(execution + 1);
    }
    Request& request = traffic.requests[execution];
    request.address[lane] = position(region, address);
    request.lanes |= 1u << lane;
    request.size = static_cast<std::uint32_t>(size);
  }

  void count_requests(std::size_t warp) {
    for (auto& [key, traffic] : pending[warp]) {
      Counted& c = counted[{key / 2, traffic.shared, traffic.write}];
      const int existing =
          std::min(kWarpSize, threads - static_cast<int>(warp) * kWarpSize);
      for (const Request& request : traffic.requests) {
        const std::int64_t bytes = request.bytes();
        ++c.requests;
        c.diverged += lanes_in(request.lanes) < existing;
        c.atomics += traffic.atomic;
        c.bytes += bytes;
        if (traffic.shared) {
          const std::int64_t rounds = wavefronts(request);
          const std::int64_t ideal = best_wavefronts(request);
          c.wavefronts += rounds;
          c.ideal += ideal;
          // Of requests that are as bad, the one at the lowest addresses is the easiest to read.
          if (conflicts_more(rounds, ideal, c.worst_wavefronts,
                             best_wavefronts(c.worst)) ||
              (rounds == c.worst_wavefronts &&
               request.lanes == c.worst.lanes &&
               request.address < c.worst.address)) {
            c.worst = request;
            c.worst_wavefronts = rounds;
          }
        } else {
          c.sectors += sectors(request);
          c.ideal += (bytes + 31) / 32;
        }
      }
    }
    pending[warp].clear();
  }
};

namespace {
Watch::State* watching = nullptr;

// Called for every load and store of watched code.
void on_access(const void* address, std::size_t size, bool write, bool atomic,
               void* code, bool natural = true) {
  if (watching == nullptr || current == nullptr) return;
  watching->access(address, size, write, atomic,
                   watching->site(reinterpret_cast<std::uintptr_t>(code)),
                   natural);
  if (!write && watching->loops_now()) yield_from_loop();
}

// Called for every basic block of watched code.
void on_block(void* code) {
  if (watching == nullptr || current == nullptr) return;
  watching->reaches(reinterpret_cast<std::uintptr_t>(code));
}
}  // namespace

Watch::Watch() : state_(new State) {
  if (watching != nullptr) {
    throw std::logic_error("only one watch can be kept at a time");
  }
  state_->statics = thread_local_memory();
  watching = state_.get();
  observer = state_.get();
}

Watch::~Watch() {
  watching = nullptr;
  observer = nullptr;
}

Report Watch::report() const {
  std::vector<std::uintptr_t> codes;
  for (const State::Site& site : state_->sites) {
    if (site.code != 0) codes.push_back(site.code);
  }
  const std::vector<std::uintptr_t> calls =
      state_->watched_code.calls_around(codes);
  codes.insert(codes.end(), calls.begin(), calls.end());
  for (const State::Found& found : state_->findings) {
    codes.insert(codes.end(), found.stack.begin(), found.stack.end());
  }
  const Lines& lines = lines_of(codes);
  const auto where = [&](std::uint32_t id) -> std::string {
    if (id == 0) return "";
    const State::Site& site = state_->sites[id];
    if (site.code == 0) {
      return short_name(
          fmt::format("{}:{}", site.location.file, site.location.line));
    }
    return line_of(lines, site.code);
  };
  // The innermost line of the kernel that is in another file.
  const auto caller = [&](const std::vector<std::uintptr_t>& stack,
                          const std::string& place) -> std::string {
    const std::string file = place.substr(0, place.find(':') + 1);
    for (const std::uintptr_t code : stack) {
      const auto found = lines.find(code);
      if (found == lines.end()) continue;
      for (const std::string& line : found->second) {
        if (!is_outside(line) && line.compare(0, file.size(), file) != 0) {
          return line;
        }
      }
    }
    return "";
  };
  Report report;
  std::vector<int> distances;
  for (const State::Found& found : state_->findings) {
    const std::string at = where(found.site);
    const Finding finding{found.kind,
                          at,
                          caller(found.stack, at),
                          where(found.other),
                          found.message,
                          found.count};
    // Several instructions may stand in one line, and two lines meet in either order.
    const auto same =
        std::find_if(report.findings.begin(), report.findings.end(),
                     [&](const Finding& other) {
                       return other.kind == finding.kind &&
                              ((other.where == finding.where &&
                                other.other == finding.other) ||
                               (other.where == finding.other &&
                                other.other == finding.where));
                     });
    if (same == report.findings.end()) {
      report.findings.push_back(finding);
      distances.push_back(found.distance);
      continue;
    }
    same->count += finding.count;
    int& distance =
        distances[static_cast<std::size_t>(same - report.findings.begin())];
    if (found.distance > distance) {
      const std::int64_t count = same->count;
      *same = finding;
      same->count = count;
      distance = found.distance;
    }
  }
  std::map<std::tuple<std::string, bool, bool>, LineTraffic> by_line;
  for (const auto& [key, counted] : state_->counted) {
    const auto& [site, shared, write] = key;
    const std::string at = where(site);
    LineTraffic& line = by_line[{at, shared, write}];
    line.where = at;
    line.shared = shared;
    line.write = write;
    line.requests += counted.requests;
    line.diverged += counted.diverged;
    line.atomics += counted.atomics;
    line.bytes += counted.bytes;
    line.sectors += counted.sectors;
    line.wavefronts += counted.wavefronts;
    line.ideal += counted.ideal;
    if (shared &&
        conflicts_more(counted.worst_wavefronts,
                       best_wavefronts(counted.worst), wavefronts(line.worst),
                       best_wavefronts(line.worst))) {
      line.worst = state_->from_first_byte(counted.worst);
    }
  }
  for (const auto& [key, line] : by_line) report.traffic.push_back(line);
  for (const std::uintptr_t call : calls) {
    const std::string name = line_of(lines, call);
    if (!is_of_kernel(name)) continue;
    if (!says_something(FA_ROOT_DIRECTORY + name)) continue;
    report.coverage.lines.insert(name);
    if (state_->has_reached(call)) report.coverage.reached.insert(name);
  }
  return report;
}

const LineTraffic* Report::worst_shared() const {
  const LineTraffic* worst = nullptr;
  for (const LineTraffic& line : traffic) {
    if (!line.shared) continue;
    if (worst == nullptr || conflicts_more(line.wavefronts, line.ideal,
                                           worst->wavefronts, worst->ideal)) {
      worst = &line;
    }
  }
  return worst;
}

namespace {
// A text in lines of up to 78 columns, each indented by two.
std::string wrapped(const std::string& text) {
  constexpr std::size_t columns = 78;
  std::string result, line = " ";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (line.size() > 1 && line.size() + 1 + word.size() > columns) {
      result += line + "\n";
      line = " ";
    }
    line += " " + word;
    begin = end + 1;
  }
  return result + line + "\n";
}
}  // namespace

std::string Report::findings_text() const {
  std::string text = findings.empty()
                         ? "Nothing wrong was seen.\n"
                         : fmt::format("{} finding{}:\n", findings.size(),
                                       findings.size() == 1 ? "" : "s");
  for (const Finding& finding : findings) {
    text += fmt::format("\n{}: {}", finding.kind, finding.where);
    if (!finding.caller.empty()) {
      text += fmt::format("\n  called from {}", finding.caller);
    }
    if (!finding.other.empty()) {
      text += fmt::format("\n  and {}", finding.other);
    }
    text += "\n" + wrapped(finding.count > 1
                               ? fmt::format("{} ({} times)", finding.message,
                                             finding.count)
                               : finding.message);
    if (!finding.seen.empty()) text += wrapped("seen with " + finding.seen);
  }
  return text;
}

std::string Report::text() const {
  std::string text = findings_text();
  for (const bool shared : {false, true}) {
    text += fmt::format(
        "\n{} memory\n{:>9} {:>9} {:>9} {:>12} {:>10} {:>10}  line\n",
        shared ? "shared" : "global", "requests", "diverged", "atomics",
        "bytes", shared ? "wavefronts" : "sectors", "at best");
    for (const LineTraffic& line : traffic) {
      if (line.shared != shared) continue;
      text +=
          fmt::format("{:>9} {:>9} {:>9} {:>12} {:>10} {:>10}  {} {}\n",
                      line.requests, line.diverged, line.atomics, line.bytes,
                      shared ? line.wavefronts : line.sectors, line.ideal,
                      line.write ? "write" : "read ", line.where);
    }
  }
  return text;
}

std::string Report::json() const {
  std::string text = "{\"findings\": [";
  for (const Finding& finding : findings) {
    text += fmt::format(
        "{}{{\"kind\": {}, \"where\": {}, \"caller\": {}, \"other\": {}, "
        "\"message\": {}, \"count\": {}{}}}",
        &finding == findings.data() ? "" : ", ", json_text(finding.kind),
        json_text(finding.where), json_text(finding.caller),
        json_text(finding.other), json_text(finding.message), finding.count,
        finding.seen.empty()
            ? ""
            : fmt::format(", \"seen\": {}", json_text(finding.seen)));
  }
  text += "], \"traffic\": [";
  for (const LineTraffic& line : traffic) {
    text += fmt::format(
        "{}{{\"where\": {}, \"memory\": \"{}\", \"access\": \"{}\", "
        "\"requests\": {}, \"diverged\": {}, \"atomics\": {}, \"bytes\": {}, "
        "\"sectors\": {}, \"wavefronts\": {}, \"ideal\": {}}}",
        &line == traffic.data() ? "" : ", ", json_text(line.where),
        line.shared ? "shared" : "global", line.write ? "write" : "read",
        line.requests, line.diverged, line.atomics, line.bytes, line.sectors,
        line.wavefronts, line.ideal);
  }
  return text + "]}";
}

}  // namespace fa::lab

// ---------------------------------------------------------------- the compiler's calls

// The functions that code compiled with -fsanitize=thread and -fsanitize-coverage=trace-pc calls: names and arguments are those of GCC and
// Clang, all that they do is ours.
#define FA_HERE __builtin_return_address(0)
#define FA_ACCESS(size)                                        \
  void __tsan_read##size(void* p) {                            \
    fa::lab::on_access(p, size, false, false, FA_HERE);        \
  }                                                            \
  void __tsan_write##size(void* p) {                           \
    fa::lab::on_access(p, size, true, false, FA_HERE);         \
  }                                                            \
  void __tsan_unaligned_read##size(void* p) {                  \
    fa::lab::on_access(p, size, false, false, FA_HERE, false); \
  }                                                            \
  void __tsan_unaligned_write##size(void* p) {                 \
    fa::lab::on_access(p, size, true, false, FA_HERE, false);  \
  }                                                            \
  void __tsan_volatile_read##size(void* p) {                   \
    fa::lab::on_access(p, size, false, false, FA_HERE);        \
  }                                                            \
  void __tsan_volatile_write##size(void* p) {                  \
    fa::lab::on_access(p, size, true, false, FA_HERE);         \
  }
#define FA_ATOMIC(bits, T)                                                 \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                 \
    fa::lab::on_access(const_cast<const T*>(p), sizeof(T), false, true,    \
                       FA_HERE);                                           \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                           \
  }                                                                        \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) {              \
    fa::lab::on_access(const_cast<T*>(p), sizeof(T), true, true, FA_HERE); \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                              \
  }                                                                        \
  FA_ATOMIC_CHANGE(bits, T, exchange, __atomic_exchange_n)                 \
  FA_ATOMIC_CHANGE(bits, T, fetch_add, __atomic_fetch_add)                 \
  FA_ATOMIC_CHANGE(bits, T, fetch_sub, __atomic_fetch_sub)                 \
  FA_ATOMIC_CHANGE(bits, T, fetch_and, __atomic_fetch_and)                 \
  FA_ATOMIC_CHANGE(bits, T, fetch_or, __atomic_fetch_or)                   \
  FA_ATOMIC_CHANGE(bits, T, fetch_xor, __atomic_fetch_xor)                 \
  FA_ATOMIC_COMPARE(bits, T, strong, false)                                \
  FA_ATOMIC_COMPARE(bits, T, weak, true)                                   \
  FA_ATOMIC_COMPARE_VAL(bits, T)
#define FA_ATOMIC_CHANGE(bits, T, name, operation)                         \
  T __tsan_atomic##bits##_##name(volatile T* p, T v, int) {                \
    fa::lab::on_access(const_cast<T*>(p), sizeof(T), true, true, FA_HERE); \
    return operation(p, v, __ATOMIC_SEQ_CST);                              \
  }
#define FA_ATOMIC_COMPARE(bits, T, name, weak)                             \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile T* p, T* old, \
                                                    T v, int, int) {       \
    fa::lab::on_access(const_cast<T*>(p), sizeof(T), true, true, FA_HERE); \
    return __atomic_compare_exchange_n(p, old, v, weak, __ATOMIC_SEQ_CST,  \
                                       __ATOMIC_SEQ_CST);                  \
  }
#define FA_ATOMIC_COMPARE_VAL(bits, T)                                     \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T old, T v,  \
                                               int, int) {                 \
    fa::lab::on_access(const_cast<T*>(p), sizeof(T), true, true, FA_HERE); \
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST,       \
                                __ATOMIC_SEQ_CST);                         \
    return old;                                                            \
  }

extern "C" {
void __sanitizer_cov_trace_pc() {
  fa::lab::on_block(FA_HERE);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}
FA_ACCESS(1)
FA_ACCESS(2)
FA_ACCESS(4)
FA_ACCESS(8)
FA_ACCESS(16)
void __tsan_read_range(void* p, std::size_t size) {
  fa::lab::on_access(p, size, false, false, FA_HERE, false);
}
void __tsan_write_range(void* p, std::size_t size) {
  fa::lab::on_access(p, size, true, false, FA_HERE, false);
}
void* __tsan_memcpy(void* to, const void* from, std::size_t size) {
  fa::lab::on_access(from, size, false, false, FA_HERE, false);
  fa::lab::on_access(to, size, true, false, FA_HERE, false);
  return std::memcpy(to, from, size);
}
void* __tsan_memset(void* to, int byte, std::size_t size) {
  fa::lab::on_access(to, size, true, false, FA_HERE, false);
  return std::memset(to, byte, size);
}
void* __tsan_memmove(void* to, const void* from, std::size_t size) {
  fa::lab::on_access(from, size, false, false, FA_HERE, false);
  fa::lab::on_access(to, size, true, false, FA_HERE, false);
  return std::memmove(to, from, size);
}
FA_ATOMIC(8, std::uint8_t)
FA_ATOMIC(16, std::uint16_t)
FA_ATOMIC(32, std::uint32_t)
FA_ATOMIC(64, std::uint64_t)
}
