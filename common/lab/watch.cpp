#include "common/lab/watch.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/lab/address_space.hpp"
#include "common/lab/block.hpp"
#include "common/lab/crash.hpp"
#include "common/lab/hopper_checks.hpp"
#include "common/lab/instrumentation.hpp"
#include "common/lab/race_check.hpp"
#include "common/lab/spin_check.hpp"
#include "common/lab/tensor_check.hpp"
#include "common/lab/traffic.hpp"

namespace fa::lab {

// The observer of the launches: passes what happens to the checks and counters.
struct Watch::State : Observer {
  Watched watched;
  Sites& sites = watched.sites;
  Order& order = watched.order;
  Order& executed = watched.executed;
  Findings& findings = watched.findings;
  ShadowMemory& memory = watched.memory;
  Traffic traffic;
  RaceCheck race_check{watched};
  // The checks of the block that runs, or of one that waits for others.
  struct Checks {
    Watched* of;
    MbarrierCheck mbarriers{*of};
    PhaseCheck phases{*of};
    RegisterCheck registers{*of};
    PeerCheck peers{*of};
    TensorCheck tensors{*of};
    SpinCheck spins{*of};
    void block_begins() {
      mbarriers.block_begins();
      phases.block_begins();
      registers.block_begins();
      peers.block_begins();
      tensors.block_begins();
      spins.block_begins();
    }
  };
  Checks checks{&watched};

  Report report();
  std::string found() override {
    const Report now = report();
    return now.findings.empty() ? "" : now.findings_text();
  }

  // ---------------------------------------------------------------- a sample of the blocks

  std::int64_t sample = 0;                          // about so many of each launch; 0: all
  std::int64_t watched_blocks = 0, all_blocks = 0;  // of all launches
  std::int64_t begun = 0;                           // of this one: blocks, or clusters
  bool watches = true;                              // the running block, or cluster
  // Pairs of neighbours, which may race, and the last one, where tails are.
  bool begins_in_sample() {
    const std::int64_t count = watched.launch.grid.count() / watched.launch.cluster;
    const std::int64_t number = begun++;
    return sample == 0 || count <= sample || number == count - 1 ||
           number % std::max<std::int64_t>(2 * count / sample, 2) < 2;
  }
  // A load or store of a block that is not in the sample. What others know of its stores is only
  // that they are no longer of unwritten memory, so its flags have nothing to order.
  void pass(const void* begin, std::size_t size, bool write, std::uint32_t site) {
    const auto* const address = static_cast<const std::byte*>(begin);
    last_access = {address, size, site};
    Region* const region = is_among_stacks(address) ? nullptr : memory.find(address);
    if (region == nullptr) return access_elsewhere(address, size, write, site);
    if (!region->variable.empty()) check_host(address, region->variable, size, write, site);
    checks.spins.access(address, write, site);
    if (region->memory != Memory::kGlobal) return;
    if (!race_check.in_bounds(*region, address, size, write, site) || !write) return;
    forget(*region, address, size);
  }
  static void forget(Region& region, const std::byte* address, std::size_t size) {
    region.for_cells(address, size, [](Cell& cell) {
      cell = {};
      cell.written = true;
    });
  }

  // ---------------------------------------------------------------- coverage

  // Of each byte of the program's code, whether a basic block that begins there was reached.
  const WatchedCode& code = WatchedCode::of_this_program();
  // A bit for each; std::vector<bool> computes with signs where one is asked for.
  std::vector<std::uint64_t> blocks = std::vector<std::uint64_t>(code.size() / 64 + 1);
  void reaches(std::uintptr_t block) {
    const std::uintptr_t offset = block - code.begin();
    if (offset >= code.size()) return;
    std::uint64_t& word = blocks[offset / 64];
    const std::uint64_t bit = std::uint64_t{1} << offset % 64;
    if ((word & bit) == 0) word |= bit;
  }
  bool has_reached(std::uintptr_t call) const {
    const std::uintptr_t offset = call - code.begin();
    return sites.has(call) ||
           (offset < code.size() && (blocks[offset / 64] >> offset % 64 & 1) != 0);
  }

  // ---------------------------------------------------------------- memory of the device

  void allocated(const void* address, std::size_t bytes) override {
    memory.allocated(address, bytes);
  }
  void released(const void* address) override {
    race_check.settle();
    memory.released(address);
    if (current == nullptr) order.synchronized(0);  // else a kernel frees what it has allocated
  }
  void host_wrote(const void* begin, std::size_t bytes, bool unwritten) override {
    order.synchronized(0);  // work of the default stream
    const auto* address = static_cast<const std::byte*>(begin);
    Region* region = memory.buffer(address);
    if (region == nullptr) return;  // older than this watch
    region->for_cells(address, bytes, [&](Cell& cell) {
      cell = {};
      cell.written = !unwritten;
    });
  }

  // ---------------------------------------------------------------- launches, blocks and threads

  void will_launch(const void* kernel) override { check_static_shared(kernel); }
  void launch_begins(const Launch& launch, std::uint64_t stream) override {
    waiting.clear();
    just_fenced.clear();
    memory.follow_thread();
    read_only.clear();
    begun = 0;
    watched.launch_begins(launch, stream);
  }
  void synchronized(std::uint64_t stream) override { order.synchronized(stream); }
  void block_begins(const Thread& first, const void* dynamic, std::size_t bytes) override {
    memory.block_begins(dynamic, bytes, first.rank);
    ++all_blocks;
    if (first.rank == 0) watches = begins_in_sample();
    watched_blocks += watches;
    if (first.rank > 0) return;
    order.block_begins();
    executed.block_begins();
    traffic.block_begins(static_cast<int>(watched.threads), memory.statics.begin,
                         memory.statics.size, memory.dynamics[0].begin);
    checks.block_begins();
  }
  // What is known of a block that waits for others.
  struct Waiting {
    OrderOfBlock order, executed;
    ShadowMemory::OfBlock memory;
    TrafficOfBlock traffic;
    Checks checks;
    bool watches = true;
  };
  std::unordered_map<const void*, std::unique_ptr<Waiting>> waiting;
  void exchange(Waiting& other) {
    order.exchange(other.order);
    executed.exchange(other.executed);
    memory.exchange(other.memory);
    traffic.exchange(other.traffic);
    std::swap(checks, other.checks);
    std::swap(watches, other.watches);
  }
  void switches(const void* before, const void* now) override {
    race_check.settle();
    std::unique_ptr<Waiting> other;
    if (now != nullptr) {
      other = std::move(waiting.at(now));
      waiting.erase(now);
    } else {
      other = std::make_unique<Waiting>(Waiting{{}, {}, {}, {}, {&watched}});
    }
    exchange(*other);
    if (before != nullptr) waiting[before] = std::move(other);
  }
  bool can_switch() const override { return memory.knows_statics(); }
  void thread_ends(const Thread& thread) override { traffic.thread_ends(thread); }
  void block_exits(const Thread& last) override { checks.peers.block_exits(last.rank); }
  void block_ends() override {
    race_check.settle();
    traffic.block_meets(0, watched.cluster * watched.warps_of_block());
  }
  void launch_fails() override { race_check.settle(); }
  std::string spins(const Thread& thread) override { return checks.spins.report(thread); }
  std::string crashes(const Thread& thread, const Crash& crash) override {
    const auto [address, size, site, outside] = last_access;
    const auto* const at = static_cast<const std::byte*>(crash.address);
    if (site == 0 || (at != nullptr && (at < address || at >= address + size))) {
      // Not what the compiler announced: a call that needs a larger stack, or a copy of the lab's.
      if (crash.code == 0) return "";
      const std::string line = line_of(source_lines({crash.code + 1}), crash.code + 1);
      return is_of_kernel(line) ? line : "";
    }
    if (outside) return sites.line(site);  // and reported
    const bool misaligned = reinterpret_cast<std::uintptr_t>(address) % size != 0;
    findings.add(misaligned ? "misaligned" : "out of bounds", site, 0,
                 fmt::format("{} crashes when it uses {} bytes at {}; {}", watched.name_of(thread),
                             size, fmt::ptr(address),
                             misaligned ? fmt::format("a GPU takes multiples of {} only", size)
                                        : "the pointer is null, or leads out of all buffers"));
    return sites.line(site);
  }
  void finds(const std::string& kind, const SourceLocation& location, const SourceLocation& other,
             const std::string& message) override {
    findings.add(kind, sites.id(location), other.line > 0 ? sites.id(other) : 0, message);
  }

  // ---------------------------------------------------------------- order

  void warp_meets(const Thread& last, unsigned mask, bool orders_memory) override {
    const auto warp = static_cast<std::size_t>(last.place / kWarpSize);
    traffic.warp_meets(warp, mask);
    // Shuffles do not.
    if (orders_memory) order.warp_meets(warp * kWarpSize, mask);
    executed.warp_meets(warp * kWarpSize, mask);
  }
  void block_meets(const SourceLocation& first, const SourceLocation& second, bool same_line,
                   int ended) override {
    order.block_meets();
    executed.block_meets();
    const std::size_t warps = watched.warps_of_block();
    traffic.block_meets(this_rank() * warps, warps);
    if (same_line && ended == 0) return;
    findings.add(
        "barrier", sites.id(first), same_line ? 0 : sites.id(second),
        (same_line
             ? fmt::format("{} threads of the block have run to the end of the kernel and skip "
                           "this __syncthreads(), which CUDA does not allow (a GPU since Volta "
                           "waits for the others only)",
                           ended)
             : "threads of one block meet at two different __syncthreads(); if all should take the "
               "same branch, a race on the value that decides it may be the cause") +
            "; it stands in a branch, or behind a continue or return, that not all threads take: "
            "guard the work, not the barrier");
  }
  void barrier_made(const void* barrier, const SourceLocation& location) override {
    checks.mbarriers.made(barrier, sites.id(location));
  }
  std::string barrier_name(const void* barrier) override {
    const auto* const address = static_cast<const std::byte*>(barrier);
    const Region* const region = memory.shared(address);
    return region == nullptr ? "" : region->barrier_name(address - region->begin);
  }
  void barriers_fenced() override { checks.mbarriers.fenced(); }
  void barrier_used(const void* barrier, bool by_copy, const SourceLocation& location) override {
    const std::uint32_t site = sites.id(location);
    const Region* region = memory.shared(static_cast<const std::byte*>(barrier));
    if (region != nullptr && !by_copy) note_peer_use(*region, order.now(site, false));
    checks.mbarriers.used(barrier, by_copy, site);
    if (by_copy) executed.releases(barrier);  // the phase needs the copy's bytes
  }
  void releases(const void* barrier) override {
    order.releases(barrier);
    executed.releases(barrier);
  }
  void phase_seen(const void* barrier, std::uint32_t phase,
                  const SourceLocation& location) override {
    checks.phases.seen(barrier, phase, sites.id(location));
  }
  void mbarrier_phase_ends(const void* barrier, std::uint32_t phase,
                           const SourceLocation& location) override {
    checks.phases.ends(barrier, phase, sites.id(location));
  }
  void phase_ends(const void* barrier) override {
    order.phase_ends(barrier);
    executed.phase_ends(barrier);
  }
  void acquires(const void* barrier) override {
    order.acquires(barrier);
    executed.acquires(barrier);
  }
  void memory_fenced(bool arrived, bool for_all_blocks) override {
    order.memory_fenced(arrived, for_all_blocks);
    executed.memory_fenced(arrived, for_all_blocks);
    just_fenced.insert(order.running());
  }
  void async_fenced() override { order.async_fenced(); }
  void async_fenced_globally() override { order.async_fenced_globally(); }
  void grid_waited() override { order.grid_waited(); }

  // ---------------------------------------------------------------- accesses of threads

  static constexpr std::size_t kTouches = 1 << 14;
  std::vector<Touch> touches;
  void note_touch(const Region& region, const std::byte* address, std::size_t size, bool write,
                  bool landed = false) {
    if (touches.size() >= kTouches) return;
    const Size &at = current->block_index, &grid = current->grid_size;
    const auto block = static_cast<int>((at.z * grid.y + at.y) * grid.x + at.x);
    touches.push_back({block, current->number, region.memory != Memory::kGlobal, write, address,
                       static_cast<int>(size), landed});
  }
  // The use of a region, maybe of another block.
  void note_peer_use(const Region& region, const Access& use) {
    const int rank = memory.rank_of(region);
    if (rank >= 0) checks.peers.uses(rank, use);
  }

  // The access that was made last, by any thread.
  struct LastAccess {
    const std::byte* address = nullptr;
    std::size_t size = 1;
    std::uint32_t site = 0;
    bool outside = false;  // far from all memory, and reported
  };
  LastAccess last_access;

  // An access to none of the memory that is watched.
  void access_elsewhere(const std::byte* address, std::size_t size, bool write,
                        std::uint32_t site) {
    if (is_among_stacks(address)) {
      const Threads& threads = this_thread().block->threads();
      const auto owner = std::find_if(threads.begin(), threads.end(), [&](const LabThread& other) {
        return other.fiber.has_on_stack(address);
      });
      findings.add(
          "out of bounds", site, 0,
          fmt::format("{} {} {} bytes {}", watched.name_of(this_thread()),
                      write ? "writes" : "reads", size,
                      owner == threads.end()
                          ? "far outside of its local variables; an index is wrong"
                          : fmt::format("of the local variables of {}; each thread can use "
                                        "its own only: pass values through shared memory, "
                                        "or by a shuffle",
                                        watched.name_of(*owner))));
      return;
    }
    if (is_among_mappings(address)) {
      const auto near = memory_near(address);
      if (near && !near->contains(size)) {
        race_check.report_outside(*near, size, write, site);
        last_access.outside = true;
      }
      return;
    }
    check_host(address, "", size, write, site);
    checks.registers.access(address, size, write, site);  // stacks elsewhere, arguments
  }
  // A kernel cannot reach memory of the host: its launch ends here.
  void check_host(const std::byte* address, const std::string& variable, std::size_t size,
                  bool write, std::uint32_t site) {
    if (memory_of_host == nullptr) return;
    const std::string what = memory_of_host(address, variable);
    if (what.empty()) return;
    findings.add(
        "host memory", site, 0,
        fmt::format("{} {} {} bytes of {}, which a kernel cannot reach: allocate memory of "
                    "the device with cudaMalloc(), copy to it with cudaMemcpy(), pass that "
                    "pointer, and copy the results back; or use cudaMallocManaged()",
                    watched.name_of(this_thread()), write ? "writes" : "reads", size, what));
    if (Fiber::running() != nullptr) leave_kernel(kUsedHostMemory);
  }

  // The threads that have done nothing to memory since their last fence.
  std::unordered_set<std::uint32_t> just_fenced;

  // Most accesses: to what is on the running thread's own stack, which stands for registers.
  bool access_register(const void* begin, std::size_t size, bool write, std::uint32_t site) {
    if (!this_thread().fiber.has_on_stack(begin)) return false;
    race_check.settle();
    const auto* address = static_cast<const std::byte*>(begin);
    last_access = {address, size, site};
    checks.registers.access(address, size, write, site);
    return true;
  }

  // Constant memory by its first byte, and what this launch has read through the cache for it: each
  // word, and where.
  static constexpr std::size_t kReadOnly = 1 << 20;
  static constexpr const char* kReadOnlyAdvice =
      "that load takes the cache for data that no thread of the launch writes, and may see the old "
      "value or the new one: read it by an ordinary load";
  std::map<const std::byte*, std::string> constants;
  std::unordered_map<std::uintptr_t, std::uint32_t> read_only;
  void reads_constant(const std::byte* address, std::size_t size, std::uint32_t site) {
    race_check.settle();
    Region* const region = memory.buffer(address);
    if (region == nullptr || !region->contains(address)) return;
    bool reported = false;
    region->for_cells(address, size, [&](const Cell& cell) {
      for (const Access* before : {&cell.write, &cell.atomic_write}) {
        if (reported || before->thread == 0 || order.of_other_launch(*before)) continue;
        reported = true;
        findings.add("constant", site, before->site,
                     fmt::format("{} reads by __ldg() what {} of the same launch has written, in "
                                 "{}; {}",
                                 watched.name_of(this_thread()), watched.name_of(*before),
                                 region->name(address - region->begin), kReadOnlyAdvice));
      }
    });
    const auto first = reinterpret_cast<std::uintptr_t>(address) / 4;
    const auto last = (reinterpret_cast<std::uintptr_t>(address) + size - 1) / 4;
    for (auto word = first; word <= last && read_only.size() < kReadOnly; ++word) {
      read_only[word] = site;
    }
  }
  void check_constant(const Region& region, const std::byte* address, std::size_t size,
                      std::uint32_t site) {
    const auto constant = constants.find(region.begin);
    if (constant != constants.end()) {
      findings.add("constant", site, 0,
                   fmt::format("{} writes the __constant__ variable {}: only the host may, with "
                               "cudaMemcpyToSymbol(); declare it with __device__",
                               watched.name_of(this_thread()), constant->second));
    }
    if (read_only.empty()) return;
    const auto first = reinterpret_cast<std::uintptr_t>(address) / 4;
    const auto last = (reinterpret_cast<std::uintptr_t>(address) + size - 1) / 4;
    for (auto word = first; word <= last; ++word) {
      const auto read = read_only.find(word);
      if (read == read_only.end()) continue;
      findings.add("constant", site, read->second,
                   fmt::format("{} writes what a thread of the same launch has read by __ldg() at "
                               "the other line, in {}; {}",
                               watched.name_of(this_thread()), region.name(address - region.begin),
                               kReadOnlyAdvice));
      return;
    }
  }

  // An access to anything else.
  void access(const void* begin, std::size_t size, const CodeAccess& how, std::uint32_t site) {
    race_check.settle();
    const auto* address = static_cast<const std::byte*>(begin);
    const bool write = how.write;
    last_access = {address, size, site};
    if (begin == &current) return;  // threadIdx and the like
    Region* const region = is_among_stacks(address) ? nullptr : memory.find(address);
    if (region == nullptr) return access_elsewhere(address, size, write, site);
    if (!region->variable.empty()) check_host(address, region->variable, size, write, site);
    // The load before a compare-and-swap is the lab's: a GPU has one instruction for both.
    const bool counts = !how.atomic || write;
    if (counts) note_touch(*region, address, size, write);
    const bool bounded = region != &memory.statics;
    if (bounded && !race_check.in_bounds(*region, address, size, write, site)) return;
    // Of 16 bytes no more than a multiple of 8 is known: it may be a struct of two.
    if (how.natural &&
        reinterpret_cast<std::uintptr_t>(address) % std::min<std::size_t>(size, 8) != 0) {
      findings.add("misaligned", site, 0, misaligned_text(address, size));
    }
    if (write && region->memory == Memory::kGlobal) check_constant(*region, address, size, site);
    checks.spins.access(address, write, site);
    // A `volatile` variable is a flag where it is set right behind a fence. Without one its threads
    // rely on running in step.
    const bool of_grid = region->memory == Memory::kGlobal;
    const bool fenced = (!just_fenced.empty() && just_fenced.erase(order.running()) > 0) ||
                        (of_grid && order.all_fenced());
    const bool flag = how.atomic || (how.is_volatile && (!write || fenced));
    Access now = order.now(site, flag, how.is_volatile);
    now.of_block = how.of_block;
    now.needs_value = how.atomic && how.use.reads && how.needs_value;
    race_check.access(*region, address, size, write, now);
    if (!flag && of_grid) order.uses_data();
    if (flag) {
      order.uses_flag(address, how.use, how.of_block);
      executed.uses_flag(address, how.use, how.of_block);
    }
    if (write && !how.atomic && memory_of_host != nullptr) race_check.stores(address, size, site);
    const int rank = memory.rank_of(*region);
    if (rank >= 0) checks.peers.uses(rank, order.now(site, flag));
    if (counts) {
      // Where it is in a block's shared memory, whichever block it is.
      if (rank > 0) address += memory.dynamics[0].begin - region->begin;
      traffic.access(region->memory, address, size, write, how.atomic, site);
    }
  }
  void host_access(std::size_t size, bool write, void* from) {
    findings.add("host access", sites.id(reinterpret_cast<std::uintptr_t>(from)), 0,
                 fmt::format("the host {} {} bytes of device memory, which only kernels and copies "
                             "may use: a program crashes here; copy with cudaMemcpy(), or allocate "
                             "with cudaMallocManaged()",
                             write ? "writes" : "reads", size));
  }
  // Memory of the host that holds copies of what nothing had written in a buffer; by its first byte.
  struct Unwritten {
    const std::byte* end;
    std::ptrdiff_t offset;  // in the buffer
  };
  std::map<const std::byte*, Unwritten> unwritten_on_host;
  void forget_unwritten(const std::byte* begin, const std::byte* end) {
    auto next = unwritten_on_host.lower_bound(begin);
    if (next != unwritten_on_host.begin()) --next;
    while (next != unwritten_on_host.end() && next->first < end) {
      const auto known = next++;
      const Unwritten all = known->second;
      if (all.end <= begin) continue;
      if (all.end > end) {
        unwritten_on_host[end] = {all.end, all.offset + (end - known->first)};
      }
      if (known->first < begin) {
        known->second.end = begin;
      } else {
        unwritten_on_host.erase(known);
      }
    }
  }
  void copied_to_host(const void* to, const void* from, std::size_t bytes) {
    const auto* target = static_cast<const std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    forget_unwritten(target, target + bytes);
    Region* const region = memory.buffer(source);
    if (region == nullptr || !region->contains(source)) return;
    std::size_t at = 0;
    region->for_pages(source, bytes, [&](const Cell* cell, const Cell* end) {
      const std::size_t in_page =
          Page::kBytes - static_cast<std::size_t>(source + at - region->begin) % Page::kBytes;
      const std::size_t each = std::min(in_page, bytes - at) / static_cast<std::size_t>(end - cell);
      for (; cell != end; ++cell, at += each) {
        if (cell->written) continue;
        const auto last = unwritten_on_host.lower_bound(target + at);
        if (last != unwritten_on_host.begin() && std::prev(last)->second.end == target + at) {
          std::prev(last)->second.end += each;
        } else {
          unwritten_on_host[target + at] = {target + at + each, source + at - region->begin};
        }
      }
    });
  }
  // The bytes are still those of memory that nothing has written: what is compiled elsewhere may have
  // changed them. Padding of a struct is no element.
  void host_uses(const void* begin, std::size_t size, bool write, void* from) {
    const auto* const address = static_cast<const std::byte*>(begin);
    if (write) return forget_unwritten(address, address + size);
    const auto after = unwritten_on_host.upper_bound(address);
    if (after == unwritten_on_host.begin()) return;
    const auto& [first, known] = *std::prev(after);
    const auto untouched = [](std::byte byte) { return byte == std::byte{0xff}; };
    if (address + size > known.end || !std::all_of(address, address + size, untouched)) return;
    findings.add(
        "unwritten", sites.id(reinterpret_cast<std::uintptr_t>(from)), 0,
        fmt::format("the host reads {} bytes that it has copied from byte {} of a buffer, where no "
                    "thread, copy or cudaMemset() has written; the kernel probably covers too few "
                    "elements",
                    size, known.offset + (address - first)));
  }
  // Memory that the host shares with kernels, while one may still run.
  void host_use_of_shared(const void* begin, std::size_t size, bool write, void* from) {
    const auto* const address = static_cast<const std::byte*>(begin);
    Region* const region = memory.buffer(address);
    if (region == nullptr) return;
    bool reported = false;
    region->for_cells(address, size, [&](const Cell& cell) {
      for (const Access* before : {&cell.write, &cell.atomic_write, &cell.read}) {
        const bool reads = before == &cell.read;
        if (reported || before->thread == 0 || (reads && !write)) continue;
        if (!order.host_has_not_waited_for(*before)) continue;
        reported = true;
        findings.add("race", sites.id(reinterpret_cast<std::uintptr_t>(from)), before->site,
                     fmt::format("the host {} what a thread of a kernel {}, in {}, and has not "
                                 "waited for the kernel: a cudaDeviceSynchronize() is missing "
                                 "before this line",
                                 write ? "writes" : "reads", reads ? "reads" : "writes",
                                 region->name(address - region->begin)));
      }
    });
  }
  void access(const void* address, std::size_t size, bool write, std::uint32_t site) {
    if (access_register(address, size, write, site)) return;
    CodeAccess how;
    how.write = write;
    access(address, size, how, site);
  }
  void accesses(const void* address, std::size_t size, bool write,
                const SourceLocation& location) override {
    if (watches) return access(address, size, write, sites.id(location));
    if (!this_thread().fiber.has_on_stack(address)) pass(address, size, write, sites.id(location));
  }

  void copy_begins(const void* destination, std::size_t size,
                   const SourceLocation& location) override {
    if (!watches) return;
    access(destination, size, true, sites.id(location));
    race_check.set_in_flight(destination, size, true);
  }
  void copy_ends(const void* destination, std::size_t size,
                 const SourceLocation& location) override {
    if (!watches) return;
    race_check.set_in_flight(destination, size, false);
    // Written now, as far as order goes; the request was counted before.
    const auto* address = static_cast<const std::byte*>(destination);
    Region* region = memory.shared(address);
    if (region == nullptr) return;
    race_check.access(*region, address, size, true, order.now(sites.id(location), false));
    note_touch(*region, address, size, true, true);
  }

  // ---------------------------------------------------------------- asynchronous operations

  void async_uses(const void* agent, AsyncUse use, std::uint32_t when,
                  const std::vector<const void*>& pieces, std::size_t size,
                  const SourceLocation& location) override {
    if (!watches) return;
    const std::uint32_t id = order.agent(agent);
    const std::uint32_t site = sites.id(location);
    const Access copy = order.of_agent(id, when, site);
    std::optional<Cell> right;
    for (const void* piece : pieces) {
      const auto* address = static_cast<const std::byte*>(piece);
      Region* region = memory.shared(address);
      if (region == nullptr) continue;
      // A copy to this block whose barrier no thread waits for is found by the engine.
      if (use == AsyncUse::kPeerCopy ||
          (use == AsyncUse::kCopy && memory.rank_of(*region) != current->rank)) {
        note_peer_use(*region, copy);
      }
      if (use == AsyncUse::kCopy) {
        note_touch(*region, address, size, true);
        race_check.copy_begins(*region, address, size, copy);
      } else {
        race_check.async_read_begins(
            *region, address, size, {id, when, site, use}, right,
            use == AsyncUse::kTensorMatmul ? &checks.tensors.last_fence() : nullptr);
      }
    }
  }
  void async_ends(const void* agent, std::uint32_t when, bool whole_warp) override {
    const std::uint32_t id = order.agent(agent);
    const std::uint32_t thread = this_place();
    if (!whole_warp) {
      order.async_ends(order.id(thread), id, when);
      return;
    }
    const std::uint32_t first = thread / kWarpSize * kWarpSize;
    for (std::uint32_t i = first; i < first + kWarpSize; ++i) {
      order.async_ends(order.id(i), id, when);
      checks.registers.give_back(i, agent, when);
    }
  }
  void registers_lent(int thread, const void* address, std::size_t size, LentTo as,
                      const void* agent, std::uint32_t when,
                      const SourceLocation& location) override {
    checks.registers.lend(thread, address, size, as, agent, when, sites.id(location));
  }
  void registers_changed(const SourceLocation& wgmma, const std::string& message) override {
    checks.registers.changed(sites.id(wgmma), message);
  }
  void tensor_allocated(int column, int columns) override {
    checks.tensors.allocated(column, columns);
  }
  void tensor_uses(const TensorUse& use, const SourceLocation& location) override {
    checks.tensors.uses(use, sites.id(location));
  }
  void tensor_waited(bool stores) override { checks.tensors.waited(stores); }
  void tensor_fenced(bool before) override { checks.tensors.fenced(before); }
  void commits(const void* barrier) override { order.commits(barrier); }
  void moves(const std::vector<const void*>& rows, std::size_t size, bool write, bool atomic,
             const SourceLocation& location) override {
    const std::uint32_t site = sites.id(location);
    std::vector<const std::byte*> inside;
    bool any = false;
    order.copy_runs(true);
    for (const void* row : rows) {
      const auto* address = static_cast<const std::byte*>(row);
      Region* region = memory.buffer(address);
      if (region == nullptr) continue;
      any = true;
      if (!race_check.in_bounds(*region, address, size, write, site)) continue;
      if (!watches) {
        if (write) forget(*region, address, size);
        continue;
      }
      race_check.access(*region, address, size, write, order.now(site, atomic));
      inside.push_back(address);
    }
    order.copy_runs(false);
    if (!watches) return;
    traffic.copy(inside, size, write, atomic, any, site);
  }
};

namespace {
Watch::State* watching = nullptr;

void end_launch_if_asked() {
  if (launch_must_end.load(std::memory_order_relaxed) == nullptr) return;
  leave_kernel(launch_must_end.exchange(nullptr));
}
}  // namespace

bool (*is_for_kernels_only)(const void*) = nullptr;

std::string (*memory_of_host)(const void*, const std::string&) = nullptr;

bool next_atomic_of_block = false;

void on_access(const void* address, std::size_t size, const CodeAccess& access, void* code) {
  if (watching == nullptr) return;
  const bool of_block = access.atomic && std::exchange(next_atomic_of_block, false);
  if (current == nullptr) {
    if (!watching->unwritten_on_host.empty()) {
      watching->host_uses(address, size, access.write, code);
    }
    if (is_for_kernels_only != nullptr && is_for_kernels_only(address)) {
      watching->host_access(size, access.write, code);
    } else if (!access.atomic && !access.is_volatile && is_among_mappings(address)) {
      watching->host_use_of_shared(address, size, access.write, code);
    }
    return;
  }
  end_launch_if_asked();
  const bool watches = watching->watches;
  if (!watches && this_thread().fiber.has_on_stack(address)) return;
  const std::uint32_t site = watching->sites.id(reinterpret_cast<std::uintptr_t>(code));
  if (watches && watching->access_register(address, size, access.write, site)) return;
  // First, so that the value that is loaded is the one of which the order is noted.
  if (!access.write && watching->checks.spins.spins_now()) yield_from_loop();
  if (!watches) return watching->pass(address, size, access.write, site);
  CodeAccess how = access;
  how.of_block = of_block;
  watching->access(address, size, how, site);
}

void on_range(const void* address, std::size_t size, bool write, void* code) {
  if (watching == nullptr) return;
  const std::size_t piece = size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
  CodeAccess access;
  access.write = write;
  const auto* const begin = static_cast<const std::byte*>(address);
  const bool at_once =
      current == nullptr || is_among_stacks(address) || (size <= 16 && (size & (size - 1)) == 0);
  if (at_once) return on_access(address, size, access, code);
  for (std::size_t at = 0; at < size; at += piece) on_access(begin + at, piece, access, code);
}

void on_block(void* code) {
  if (watching == nullptr || current == nullptr) return;
  end_launch_if_asked();
  watching->reaches(reinterpret_cast<std::uintptr_t>(code));
}

Watch::Watch() : state_(new State) {
  if (watching != nullptr) throw std::logic_error("only one watch can be kept at a time");
  watching = state_.get();
  observer = state_.get();
}

Watch::~Watch() {
  watching = nullptr;
  observer = nullptr;
}

void Watch::copied_to_host(const void* to, const void* from, std::size_t bytes) {
  state_->copied_to_host(to, from, bytes);
}

void Watch::set_sample(std::int64_t blocks) {
  state_->sample = blocks;
}

std::pair<std::int64_t, std::int64_t> Watch::watched_blocks() const {
  return {state_->watched_blocks, state_->all_blocks};
}

const std::vector<Touch>& Watch::touches() const {
  return state_->touches;
}

void Watch::is_constant(const void* buffer, const std::string& name) {
  Region* const region = state_->memory.buffer(static_cast<const std::byte*>(buffer));
  if (region != nullptr) state_->constants[region->begin] = name;
}

void Watch::reads_constant(const void* address, std::size_t size, const SourceLocation& location) {
  state_->reads_constant(static_cast<const std::byte*>(address), size, state_->sites.id(location));
}

std::uint64_t Watch::time() const {
  return state_->order.time();
}

void Watch::waited_until(std::uint64_t stream, std::uint64_t time) {
  state_->order.waited_until(stream, static_cast<std::uint32_t>(time));
}

Report Watch::State::report() {
  race_check.settle();
  std::vector<std::uintptr_t> codes = sites.codes();
  const std::vector<std::uintptr_t> calls = code.calls_around(codes);
  const std::vector<std::uintptr_t> stacks = findings.codes();
  codes.insert(codes.end(), calls.begin(), calls.end());
  codes.insert(codes.end(), stacks.begin(), stacks.end());
  const SourceLines& lines = source_lines(codes);
  Report report;
  report.findings = findings.report(sites, lines);
  report.traffic = traffic.report(sites);
  for (const std::uintptr_t call : calls) {
    const std::string line = line_of(lines, call);
    if (!is_of_course(line) || !says_something(FA_ROOT_DIRECTORY + line)) continue;
    report.coverage.lines.insert(line);
    if (has_reached(call)) report.coverage.reached.insert(line);
  }
  return report;
}

Report Watch::report() const {
  return state_->report();
}

}  // namespace fa::lab
