#include "common/lab/watch.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "common/lab/findings.hpp"
#include "common/lab/order.hpp"
#include "common/lab/shadow.hpp"
#include "common/lab/sites.hpp"
#include "common/lab/traffic.hpp"

namespace fa::lab {

// What observes the launches: keeps the shadow memory, and checks each access against the order of
// the earlier ones.
struct Watch::State : Observer {
  Sites sites;
  Order order;
  Findings findings;
  Traffic traffic;
  ShadowMemory memory;

  static std::uint32_t this_rank() { return static_cast<std::uint32_t>(current->rank); }
  static std::uint32_t this_thread() { return static_cast<std::uint32_t>(current->place); }

  // ---------------------------------------------------------------- coverage

  // Of each byte of the program's code, whether a basic block that begins there was reached.
  const WatchedCode& watched_code = WatchedCode::of_this_program();
  std::vector<bool> blocks = std::vector<bool>(watched_code.size() + 1);
  void reaches(std::uintptr_t block) {
    const std::uintptr_t offset = block - watched_code.begin();
    if (offset < blocks.size()) blocks[offset] = true;
  }
  bool has_reached(std::uintptr_t call) const {
    const std::uintptr_t offset = call - watched_code.begin();
    return sites.has(call) || (offset < blocks.size() && blocks[offset]);
  }

  // ---------------------------------------------------------------- memory of the device

  void allocated(const void* address, std::size_t bytes) override {
    memory.allocated(address, bytes);
  }
  void released(const void* address) override { memory.released(address); }
  void host_wrote(const void* begin, std::size_t bytes, bool means_nothing) override {
    const auto* address = static_cast<const std::byte*>(begin);
    Region* region = memory.buffer(address);
    if (region == nullptr) return;  // older than this watch
    region->for_cells(address, bytes, [&](Cell& cell) {
      cell = {};
      cell.written = !means_nothing;
    });
  }

  // ---------------------------------------------------------------- launches, blocks and barriers

  std::size_t threads = 0;  // of a cluster
  std::size_t cluster = 1;  // blocks of it

  void launch_begins(const Launch& launch) override {
    cluster = static_cast<std::size_t>(launch.cluster);
    threads = static_cast<std::size_t>(launch.block.count()) * cluster;
    order.launch_begins(launch.block.count(), launch.cluster, launch.with_pdl);
  }
  void block_begins(const Thread& first, const void* dynamic, std::size_t bytes) override {
    memory.block_begins(dynamic, bytes, first.rank);
    if (first.rank > 0) return;
    order.block_begins();
    traffic.block_begins(static_cast<int>(threads), memory.statics.begin, memory.statics.size,
                         memory.dynamics[0].begin);
    peer_uses.assign(cluster, {});
    exited.assign(cluster, false);
    mbarriers.clear();
    lent.assign(threads, {});
    loops.assign(threads, {});
  }
  void warp_meets(const Thread& last, unsigned mask, bool orders_memory) override {
    const auto warp = static_cast<std::size_t>(last.place / kWarpSize);
    traffic.warp_meets(warp, mask);
    // Shuffles do not.
    if (orders_memory) order.warp_meets(warp * kWarpSize, mask);
  }
  void block_meets(const SourceLocation& first, const SourceLocation& second, bool same_line,
                   int ended) override {
    order.block_meets();
    const std::size_t warps = warps_of_block();
    traffic.block_meets(static_cast<std::size_t>(current->rank) * warps, warps);
    if (!same_line) {
      findings.add("barrier", sites.id(first), sites.id(second),
                   "threads of one block meet at two different __syncthreads(): the "
                   "barrier stands in a branch that not all threads take; move it "
                   "out of the branch");
    } else if (ended > 0) {
      findings.add("barrier", sites.id(first), 0,
                   fmt::format("{} threads of the block have ended and do not come "
                               "to this __syncthreads(); guard the work, not the "
                               "barrier, and let every thread reach it",
                               ended));
    }
  }
  void thread_ends(const Thread& thread) override { traffic.thread_ends(thread); }
  void block_ends() override { traffic.block_meets(0, cluster * warps_of_block()); }
  // A cluster's blocks have whole warps.
  std::size_t warps_of_block() const { return (threads / cluster + kWarpSize - 1) / kWarpSize; }

  // ---------------------------------------------------------------- clusters

  // Uses of a block's shared memory by others of the cluster: the last one by each thread and agent.
  std::vector<std::unordered_map<std::uint32_t, Access>> peer_uses;
  std::vector<bool> exited;  // all threads of the block

  static constexpr const char* kExitMessage =
      "and nothing makes that block wait for it before it ends, when its shared memory may be "
      "gone: a cluster_arrive() and cluster_wait() at the end of the kernel are probably missing";

  // The running thread, or what it began, uses a region, maybe of another block.
  void note_peer_use(const Region& region, const Access& use) {
    const int rank = memory.rank_of(region);
    if (rank >= 0) note_peer_use(rank, use);
  }
  void note_peer_use(int rank, const Access& use) {
    if (rank == current->rank && !Order::is_agent(use.thread)) return;
    const auto block = static_cast<std::size_t>(rank);
    peer_uses[block][use.thread] = use;
    if (exited[block]) find_exit(rank, use);
  }
  void find_exit(int rank, const Access& use) {
    findings.add("cluster", use.site, 0,
                 fmt::format("{} uses shared memory of block {} of the cluster, {}",
                             Order::is_agent(use.thread)
                                 ? "a copy"
                                 : fmt::format("thread {} of block {}", order.in_block(use.thread),
                                               order.rank_of(use.thread)),
                             rank, kExitMessage));
  }
  void block_exits(const Thread& last) override {
    const auto rank = static_cast<std::size_t>(last.rank);
    exited[rank] = true;
    const std::size_t count = threads / cluster;
    for (const auto& entry : peer_uses[rank]) {
      bool known = false;
      for (std::size_t i = 0; i < count && !known; ++i) {
        known = order.ordered(entry.second, order.id(rank * count + i));
      }
      if (!known) find_exit(last.rank, entry.second);
    }
  }

  // ---------------------------------------------------------------- words of messages

  // "thread 37 (warp 1, lane 5)", and the block where it is not this one.
  std::string name_of(std::uint32_t id) const {
    const std::uint32_t number = order.in_block(id);
    const bool other = order.of_other_block(id) ||
                       (cluster > 1 && (current == nullptr || order.rank_of(id) != this_rank()));
    return fmt::format("thread {} (warp {}, lane {}){}", number, number / kWarpSize,
                       number % kWarpSize,
                       other ? fmt::format(" of block {}", order.block_of(id)) : "");
  }
  // Who made an earlier access.
  std::string name_of(const Access& before) const {
    if (!order.of_other_launch(before)) return name_of(before.thread);
    return fmt::format("thread {} of block {} of an earlier launch",
                       Order::in_cluster(before.thread), Order::cluster_of(before.thread));
  }
  std::string name_of(const Thread& thread) const {
    return name_of(order.id(static_cast<std::size_t>(thread.place)));
  }
  static const char* name_of(AsyncUse use) {
    switch (use) {
      case AsyncUse::kCopy:
        return "the copy";
      case AsyncUse::kStore:
        return "the store";
      case AsyncUse::kPeerCopy:
        return "the copy to another block";
      default:
        return "the wgmma()";
    }
  }

  // ---------------------------------------------------------------- accesses of threads

  static constexpr const char* kSameLine =
      "both are at this line: each thread needs an element of its own, or only one of them may "
      "store";

  void find_race(const Access& before, bool before_writes, const Access& now, bool writes,
                 const Region& region, std::ptrdiff_t offset) {
    std::string kind = "race";
    std::string with = "and nothing orders the two", missing;
    int distance = 0;
    if (order.of_other_launch(before)) {
      with = "and this launch may begin before that one ends (with_pdl)";
      distance = 2;
      missing = "grid_dependency_wait() is missing before this line";
    } else if (order.of_other_block(before.thread) && order.learnt(before)) {
      kind = "proxy";
      with = "with a counter that orders the threads, but not the copy";
      distance = 2;
      missing = "fence_async_proxy_global() is missing before this line";
    } else if (order.of_other_block(before.thread)) {
      distance = 2;
      missing =
          "the two are in different blocks: use an atomic, a second launch, "
          "or a counter, with a __threadfence() before it in the one (and a "
          "bulk_wait<0>() before that where a copy writes) and an "
          "atomic_add_acquire() or load_acquire() in the other";
    } else if (order.rank_of(before.thread) != order.rank_of(now.thread)) {
      distance = 2;
      missing =
          "the two are in different blocks of the cluster: a cluster_arrive() and cluster_wait(), "
          "or an mbarrier where the one arrives and the other waits, is probably missing";
    } else if (Order::in_cluster(before.thread) / kWarpSize ==
               Order::in_cluster(now.thread) / kWarpSize) {
      missing =
          "both are in one warp: a __syncwarp() or a __syncthreads() is probably "
          "missing between the two lines (a shuffle orders no memory)";
      if (now.site == before.site) missing = kSameLine;
    } else if (now.site == before.site) {
      missing = kSameLine;
    } else {
      distance = 1;
      missing = "a __syncthreads() is probably missing between the two lines";
    }
    findings.add(
        kind, now.site, before.site,
        fmt::format("{} {} what {} {}, in {}, {}; {}", name_of(now.thread),
                    writes ? "writes" : "reads", name_of(before),
                    before_writes ? "has written" : "has read", region.name(offset), with, missing),
        distance);
  }

  // Checks an access against what its cells remember, and remembers it.
  void check(Region& region, const std::byte* address, std::size_t size, bool write, bool atomic,
             std::uint32_t site) {
    const Access now = order.now(site, atomic);
    const auto offset = address - region.begin;
    bool told = false;  // once for each access is enough
    if (write && !region.async_reads.empty()) {
      told = check_async_reads(region, address, size, now, "");
    }
    region.for_cells(address, size, [&](Cell& cell) {
      if (!told && cell.in_flight) {
        told = true;
        findings.add(
            "copy", site, cell.write.site,
            cell.write.thread == now.thread
                ? fmt::format("{} {} {} while its cp.async of the other line is in "
                              "flight; a cp_async_wait is probably missing before this line",
                              name_of(now.thread), write ? "writes" : "reads", region.name(offset))
                : fmt::format("{} {} {} while the cp.async of the other line, by {}, is in "
                              "flight; before this line that thread's cp_async_wait and a "
                              "barrier are probably missing, or a barrier before the copy begins",
                              name_of(now.thread), write ? "writes" : "reads", region.name(offset),
                              name_of(cell.write.thread)));
      }
      if (!told && !write && !cell.written && !cell.in_flight) {
        told = true;
        findings.add("unwritten", site, 0,
                     fmt::format("{} reads {}, which no thread has written{}", name_of(now.thread),
                                 region.name(offset),
                                 region.memory == Memory::kGlobal ? "" : " in this block"));
      }
      const auto conflicts = [&](const Access& before) {
        return !(before.atomic && atomic) && !order.ordered(before, now.thread);
      };
      for (const Access* before : {&cell.write, &cell.atomic_write}) {
        if (!told && conflicts(*before)) {
          told = true;
          if (Order::is_agent(before->thread)) {
            find_early(*before, name_of(now.thread), write, site, region, offset);
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
      } else if (!cell.in_flight) {  // what a copy in flight does to a read has been told
        if (cell.read.thread != now.thread) cell.other_read = cell.read;
        cell.read = now;
      }
    });
  }

  // Whether an access is within its region.
  bool check_bounds(const Region& region, const std::byte* address, std::size_t size, bool write,
                    std::uint32_t site) {
    if (region.contains(address) && address + size <= region.begin + region.size) {
      return true;
    }
    const bool shared = region.memory != Memory::kGlobal;
    findings.add("out of bounds", site, 0,
                 fmt::format("{} of block ({}, {}, {}) {} {} bytes at byte {} of {} of {} "
                             "bytes; {}",
                             name_of(order.running()), current->block_index.x,
                             current->block_index.y, current->block_index.z,
                             write ? "writes" : "reads", size, address - region.begin,
                             shared ? "the dynamic shared memory" : "a buffer", region.size,
                             shared ? "the launch asks for too little, or an index is wrong"
                                    : "a guard is probably missing, or off by one"));
    return false;
  }

  static constexpr std::size_t kTouches = 1 << 14;
  std::vector<Touch> touches;
  void note_touch(const Region& region, const std::byte* address, std::size_t size, bool write) {
    const Size &at = current->block_index, &grid = current->grid_size;
    const auto block = static_cast<int>((at.z * grid.y + at.y) * grid.x + at.x);
    touches.push_back({block, current->number, region.memory != Memory::kGlobal, write, address,
                       static_cast<int>(size)});
  }

  // `natural`: of a type whose alignment is its size.
  void access(const void* begin, std::size_t size, bool write, bool atomic, std::uint32_t site,
              bool natural = false) {
    const auto* address = static_cast<const std::byte*>(begin);
    last_access = {address, size, site};
    Region* const region = memory.find(address);
    if (region == nullptr) {  // registers, arguments
      check_registers(address, size, write, site);
      return;
    }
    if (region == &memory.statics && begin == &current) return;  // threadIdx and the like
    if (touches.size() < kTouches && (!atomic || write)) note_touch(*region, address, size, write);
    const bool bounded = region != &memory.statics;
    if (bounded && !check_bounds(*region, address, size, write, site)) return;
    // Of 16 bytes no more than a multiple of 8 is known: it may be a struct of two.
    if (natural &&
        reinterpret_cast<std::uintptr_t>(address) % std::min<std::size_t>(size, 8) != 0) {
      findings.add("misaligned", site, 0, misaligned_text(address, size));
    }
    note_loop(address, write, site);
    check(*region, address, size, write, atomic, site);
    const int rank = memory.rank_of(*region);
    if (rank >= 0) note_peer_use(rank, order.now(site, atomic));
    // The load before a compare-and-swap is the lab's: a GPU has one instruction for both.
    if (!atomic || write) {
      // Where it is in a block's shared memory, whichever block it is.
      if (rank > 0) address += memory.dynamics[0].begin - region->begin;
      traffic.access(region->memory, address, size, write, atomic, site);
    }
  }
  void accesses(const void* address, std::size_t size, bool write,
                const SourceLocation& location) override {
    access(address, size, write, false, sites.id(location));
  }

  // ---------------------------------------------------------------- threads that do not get on

  // What a thread read since it last wrote, if that was always the same: it may wait for another
  // thread.
  struct Loop {
    std::array<const std::byte*, 4> addresses{};
    std::size_t known = 0;  // of these
    int loads = 0;          // of these alone
    std::uint32_t site = 0;
  };
  static constexpr int kLoopLoads = 100;  // before others run
  std::vector<Loop> loops;                // of each thread

  void note_loop(const std::byte* address, bool write, std::uint32_t site) {
    Loop& loop = loops[this_thread()];
    loop.site = site;
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
  std::string spins(const Thread& thread) override {
    const std::uint32_t site = loops[static_cast<std::size_t>(thread.place)].site;
    if (site == 0) return "";
    findings.add("spin", site, 0,
                 fmt::format("warp {} spins: {} reads a flag again and again that no other "
                             "thread can change any more; they have ended, or wait for "
                             "this one, or are in a block that comes later",
                             thread.number / kWarpSize, name_of(thread)));
    return sites.line(site);
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
    const bool misaligned = reinterpret_cast<std::uintptr_t>(address) % size != 0;
    findings.add(misaligned ? "misaligned" : "out of bounds", site, 0,
                 fmt::format("{} crashes when it uses {} bytes at {}; {}", name_of(thread), size,
                             fmt::ptr(address),
                             misaligned ? fmt::format("a GPU takes multiples of {} only", size)
                                        : "the pointer is null, or leads out of all buffers"));
    return sites.line(site);
  }

  void finds(const std::string& kind, const SourceLocation& location, const SourceLocation& other,
             const std::string& message) override {
    findings.add(kind, sites.id(location), other.line > 0 ? sites.id(other) : 0, message);
  }

  // ---------------------------------------------------------------- cp.async

  void copy_begins(const void* destination, std::size_t size,
                   const SourceLocation& location) override {
    access(destination, size, true, false, sites.id(location));
    set_in_flight(destination, size, true);
  }
  void copy_ends(const void* destination, std::size_t size,
                 const SourceLocation& location) override {
    set_in_flight(destination, size, false);
    // Written now, as far as order goes; the request was counted before.
    const auto* address = static_cast<const std::byte*>(destination);
    Region* region = memory.shared(address);
    if (region != nullptr) {
      check(*region, address, size, true, false, sites.id(location));
      if (touches.size() < kTouches) {
        note_touch(*region, address, size, true);
        touches.back().landed = true;
      }
    }
  }
  void set_in_flight(const void* destination, std::size_t size, bool value) {
    const auto* address = static_cast<const std::byte*>(destination);
    Region* region = memory.shared(address);
    if (region == nullptr) return;
    region->for_cells(address, size, [&](Cell& cell) { cell.in_flight = value; });
  }

  // ---------------------------------------------------------------- barriers, fences and counters

  struct MbarrierState {
    Access made;
    bool fenced = false;  // is visible to copies
  };
  std::unordered_map<const void*, MbarrierState> mbarriers;

  void barrier_made(const void* barrier, const SourceLocation& location) override {
    mbarriers[barrier] = {order.now(sites.id(location), false), false};
  }
  void barriers_fenced() override {
    for (auto& entry : mbarriers) {
      MbarrierState& mbarrier = entry.second;
      mbarrier.fenced = mbarrier.fenced || mbarrier.made.thread == order.running();
    }
  }
  void barrier_used(const void* barrier, bool by_copy, const SourceLocation& location) override {
    const MbarrierState& mbarrier = mbarriers[barrier];
    const Region* region = memory.shared(static_cast<const std::byte*>(barrier));
    if (region != nullptr && !by_copy) {
      note_peer_use(*region, order.now(sites.id(location), false));
    }
    if (!order.ordered(mbarrier.made, order.running())) {
      findings.add("barrier", sites.id(location), mbarrier.made.site,
                   fmt::format("{} uses an mbarrier that {} has initialised, and "
                               "nothing orders the two; a {} is "
                               "probably missing between the two lines",
                               name_of(order.running()), name_of(mbarrier.made.thread),
                               order.rank_of(mbarrier.made.thread) == this_rank()
                                   ? "__syncthreads()"
                                   : "cluster_arrive() and cluster_wait()"));
    } else if (by_copy && !mbarrier.fenced) {
      findings.add("barrier", sites.id(location), mbarrier.made.site,
                   "a copy reports to an mbarrier that it may not see yet: "
                   "fence_barrier_init() is missing after the mbarrier was "
                   "initialised");
    }
  }
  void releases(const void* barrier) override { order.releases(barrier); }
  void phase_ends(const void* barrier) override { order.phase_ends(barrier); }
  void acquires(const void* barrier) override { order.acquires(barrier); }
  void memory_fenced(bool arrived) override { order.memory_fenced(arrived); }
  void counts(const void* counter, CounterUse use) override { order.counts(counter, use); }
  void async_fenced() override { order.async_fenced(); }
  void async_fenced_globally() override { order.async_fenced_globally(); }
  void grid_waited() override { order.grid_waited(); }

  // ---------------------------------------------------------------- registers of wgmma

  // Registers that a product has.
  struct Lent {
    const std::byte* begin;
    std::size_t size;
    bool sums;
    const void* agent;
    std::uint32_t when, site;
  };
  std::vector<std::vector<Lent>> lent;  // of each thread

  void registers_lent(int thread, const void* address, std::size_t size, bool sums,
                      const void* agent, std::uint32_t when,
                      const SourceLocation& location) override {
    lent[static_cast<std::size_t>(thread)].push_back(
        {static_cast<const std::byte*>(address), size, sums, agent, when, sites.id(location)});
  }
  void registers_changed(const SourceLocation& location, const std::string& message) override {
    const std::uint32_t site = sites.id(location);
    // The line that did it may be known.
    if (!findings.has("product", site)) {
      findings.add("product", site, 0, message);
    }
  }
  void check_registers(const std::byte* address, std::size_t size, bool write, std::uint32_t site) {
    for (const Lent& registers : lent[this_thread()]) {
      if (address >= registers.begin + registers.size || registers.begin >= address + size ||
          (!write && !registers.sums)) {
        continue;
      }
      findings.add("product", site, registers.site,
                   fmt::format("{} {} {} of the wgmma() of the other line, which is "
                               "in flight; a wgmma_wait() is probably missing before "
                               "this line",
                               name_of(order.running()), write ? "writes" : "reads",
                               registers.sums ? "a sum" : "the left operand, in registers,"));
      return;
    }
  }

  // ---------------------------------------------------------------- what runs beside the threads

  void async_ends(const void* agent, std::uint32_t when, bool whole_warp) override {
    const std::uint32_t id = order.agent(agent);
    const std::uint32_t thread = this_thread();
    if (!whole_warp) {
      order.async_ends(order.id(thread), id, when);
      return;
    }
    const std::uint32_t first = thread / kWarpSize * kWarpSize;
    for (std::uint32_t i = first; i < first + kWarpSize; ++i) {
      order.async_ends(order.id(i), id, when);
      auto& of_thread = lent[i];
      of_thread.erase(std::remove_if(of_thread.begin(), of_thread.end(),
                                     [&](const Lent& registers) {
                                       return registers.agent == agent && registers.when <= when;
                                     }),
                      of_thread.end());
    }
  }

  void async_uses(const void* agent, AsyncUse use, std::uint32_t when, const void* begin,
                  std::size_t size, const SourceLocation& location) override {
    const auto* address = static_cast<const std::byte*>(begin);
    Region* region = memory.shared(address);
    if (region == nullptr) return;
    const std::uint32_t id = order.agent(agent);
    const std::uint32_t site = sites.id(location);
    if (use == AsyncUse::kCopy || use == AsyncUse::kPeerCopy) {
      // A copy to this block whose barrier no thread waits for is found by the lab.
      const int rank = memory.rank_of(*region);
      if (rank >= 0 && (rank != current->rank || use == AsyncUse::kPeerCopy)) {
        note_peer_use(rank, order.of_agent(id, when, site));
      }
    }
    if (use == AsyncUse::kCopy) {
      if (touches.size() < kTouches) note_touch(*region, address, size, true);
      async_writes(*region, address, size, order.of_agent(id, when, site));
    } else {
      async_reads(*region, address, size, {id, when, site, use});
    }
  }

  // Something uses what a copy fills.
  void find_early(const Access& copy, const std::string& who, bool write, std::uint32_t site,
                  const Region& region, std::ptrdiff_t offset) {
    findings.add("copy", site, copy.site,
                 fmt::format("{} {} {}, which the copy of the other line fills; its "
                             "mbarrier was not waited for before this line",
                             who, write ? "writes" : "reads", region.name(offset)));
  }

  // A write over what something beside the threads may still read.
  bool check_async_reads(Region& region, const std::byte* address, std::size_t size,
                         const Access& now, const std::string& by) {
    bool told = false;
    const auto offset = static_cast<std::size_t>(address - region.begin);
    for (std::size_t i = offset / kGrainBytes; i <= (offset + size - 1) / kGrainBytes; ++i) {
      auto& reads = region.async_reads[i];
      for (const AsyncRead& read : reads) {
        if (told || order.knows(now.thread, read.thread, read.time)) {
          continue;
        }
        told = true;
        findings.add(
            "race", now.site, read.site,
            fmt::format("{}{} writes {}, which {} of the other line may still "
                        "read; {}",
                        by, name_of(now.thread), region.name(static_cast<std::ptrdiff_t>(offset)),
                        name_of(read.use),
                        read.use == AsyncUse::kStore
                            ? "a bulk_wait_read() is probably missing between them, "
                              "or a barrier after it"
                        : read.use == AsyncUse::kPeerCopy
                            ? "the other block must have waited for it, and have told this one"
                            : "a wgmma_wait() is probably missing between them, or "
                              "a barrier at which all of its warps arrive after "
                              "it"),
            1);
      }
      reads.clear();  // who comes later comes after this write
    }
    return told;
  }

  // A copy to shared memory begins.
  void async_writes(Region& region, const std::byte* address, std::size_t size,
                    const Access& copy) {
    const Access now = order.now(copy.site, false);
    const auto offset = address - region.begin;
    bool told = !region.async_reads.empty() &&
                check_async_reads(region, address, size, now, "a copy begun by ");
    region.for_cells(address, size, [&](Cell& cell) {
      for (const Access* before : {&cell.write, &cell.atomic_write, &cell.read, &cell.other_read}) {
        if (told || order.ordered(*before, now.thread)) continue;
        told = true;
        const bool writes = before == &cell.write || before == &cell.atomic_write;
        const std::string what = Order::is_agent(before->thread)
                                     ? "the copy of the other line fills"
                                     : fmt::format("{} {}", name_of(before->thread),
                                                   writes ? "has written" : "has read");
        findings.add("race", copy.site, before->site,
                     fmt::format("a copy begun by {} overwrites {}, which {}, and "
                                 "nothing orders the two; a barrier at which "
                                 "all that use the old contents arrive was probably "
                                 "not waited for",
                                 name_of(now.thread), region.name(offset), what),
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
    const std::uint32_t thread = order.running();
    const std::uint32_t warp = this_thread() / kWarpSize;
    const bool whole_warp = read.use == AsyncUse::kProduct;
    // A product begins when all lanes have come: what one of them knows, all do.
    const auto knows = [&](std::uint32_t other, std::uint32_t time) {
      return whole_warp ? order.warp_knows(thread, other, time) : order.knows(thread, other, time);
    };
    const auto offset = address - region.begin;
    bool told = false;
    region.for_cells(address, size, [&](Cell& cell) {
      if (told) return;
      if (cell.in_flight) {
        told = true;
        findings.add("copy", read.site, cell.write.site,
                     fmt::format("{} reads {} while the cp.async of the other line "
                                 "is in flight; a cp_async_wait is probably missing "
                                 "before this line",
                                 name_of(read.use), region.name(offset)));
        return;
      }
      if (!cell.written) {
        told = true;
        findings.add("unwritten", read.site, 0,
                     fmt::format("{} reads {}, which no thread has written in this block",
                                 name_of(read.use), region.name(offset)));
        return;
      }
      for (const Access* before : {&cell.write, &cell.atomic_write}) {
        if (told || before->thread == 0) continue;
        const bool own = before->thread == thread;
        if (Order::is_agent(before->thread)) {
          if (knows(before->thread, before->time)) continue;
          told = true;
          find_early(*before, fmt::format("{} of warp {}", name_of(read.use), warp), false,
                     read.site, region, offset);
        } else if (!own && !order.passed_barrier(*before) && !knows(before->thread, before->time)) {
          told = true;
          findings.add(
              "race", read.site, before->site,
              fmt::format("{} of warp {} reads what {} has written, in {}, "
                          "and nothing orders the two; a barrier "
                          "is probably missing between the two lines",
                          name_of(read.use), warp, name_of(before->thread), region.name(offset)),
              1);
        } else {
          const std::uint32_t fence = order.fence_after(before->thread, before->time);
          if (fence != 0 && (own || knows(before->thread, fence))) continue;
          told = true;
          findings.add(
              "proxy", read.site, before->site,
              fmt::format("{} of warp {} may not see what {} has written, "
                          "in {}: fence_async_proxy() is missing after the "
                          "other line, in the thread that writes and before "
                          "the barrier",
                          name_of(read.use), warp, name_of(before->thread), region.name(offset)));
        }
      }
    });
    if (region.async_reads.empty()) {
      region.async_reads.resize(region.size / kGrainBytes + 1);
    }
    auto& reads = region.async_reads[static_cast<std::size_t>(offset) / kGrainBytes];
    for (AsyncRead& known : reads) {
      if (known.thread != read.thread) continue;
      known = read;
      return;
    }
    reads.push_back(read);
  }

  // A copy of rows moves bytes in global memory.
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
      if (!check_bounds(*region, address, size, write, site)) continue;
      check(*region, address, size, write, atomic, site);
      inside.push_back(address);
    }
    order.copy_runs(false);
    traffic.copy(inside, size, write, atomic, any, site);
  }
};

namespace {
Watch::State* watching = nullptr;

// Called for every load and store of watched code.
void on_access(const void* address, std::size_t size, bool write, bool atomic, void* code,
               bool natural = true) {
  if (watching == nullptr || current == nullptr) return;
  watching->access(address, size, write, atomic,
                   watching->sites.id(reinterpret_cast<std::uintptr_t>(code)), natural);
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
  watching = state_.get();
  observer = state_.get();
}

Watch::~Watch() {
  watching = nullptr;
  observer = nullptr;
}

const std::vector<Touch>& Watch::touches() const {
  return state_->touches;
}

Report Watch::report() const {
  const State& state = *state_;
  std::vector<std::uintptr_t> codes = state.sites.codes();
  const std::vector<std::uintptr_t> calls = state.watched_code.calls_around(codes);
  const std::vector<std::uintptr_t> stacks = state.findings.codes();
  codes.insert(codes.end(), calls.begin(), calls.end());
  codes.insert(codes.end(), stacks.begin(), stacks.end());
  const SourceLines& lines = source_lines(codes);
  Report report;
  report.findings = state.findings.report(state.sites, lines);
  report.traffic = state.traffic.report(state.sites);
  for (const std::uintptr_t call : calls) {
    const std::string line = line_of(lines, call);
    if (!is_of_kernel(line)) continue;
    if (!says_something(FA_ROOT_DIRECTORY + line)) continue;
    report.coverage.lines.insert(line);
    if (state.has_reached(call)) report.coverage.reached.insert(line);
  }
  return report;
}

}  // namespace fa::lab

// ---------------------------------------------------------------- the compiler's calls

// The functions that code compiled with -fsanitize=thread and -fsanitize-coverage=trace-pc calls:
// names and arguments are those of GCC and Clang, what they do is ours.
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
#define FA_ATOMIC(bits, T)                                                        \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                        \
    fa::lab::on_access(const_cast<const T*>(p), sizeof(T), false, true, FA_HERE); \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                  \
  }                                                                               \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) {                     \
    fa::lab::on_access(const_cast<T*>(p), sizeof(T), true, true, FA_HERE);        \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                     \
  }                                                                               \
  FA_ATOMIC_CHANGE(bits, T, exchange, __atomic_exchange_n)                        \
  FA_ATOMIC_CHANGE(bits, T, fetch_add, __atomic_fetch_add)                        \
  FA_ATOMIC_CHANGE(bits, T, fetch_sub, __atomic_fetch_sub)                        \
  FA_ATOMIC_CHANGE(bits, T, fetch_and, __atomic_fetch_and)                        \
  FA_ATOMIC_CHANGE(bits, T, fetch_or, __atomic_fetch_or)                          \
  FA_ATOMIC_CHANGE(bits, T, fetch_xor, __atomic_fetch_xor)                        \
  FA_ATOMIC_COMPARE(bits, T, strong, false)                                       \
  FA_ATOMIC_COMPARE(bits, T, weak, true)                                          \
  FA_ATOMIC_COMPARE_VAL(bits, T)
#define FA_ATOMIC_CHANGE(bits, T, name, operation)                         \
  T __tsan_atomic##bits##_##name(volatile T* p, T v, int) {                \
    fa::lab::on_access(const_cast<T*>(p), sizeof(T), true, true, FA_HERE); \
    return operation(p, v, __ATOMIC_SEQ_CST);                              \
  }
#define FA_ATOMIC_COMPARE(bits, T, name, weak)                                               \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile T* p, T* old, T v, int, int) {  \
    fa::lab::on_access(const_cast<T*>(p), sizeof(T), true, true, FA_HERE);                   \
    return __atomic_compare_exchange_n(p, old, v, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define FA_ATOMIC_COMPARE_VAL(bits, T)                                                  \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T old, T v, int, int) {   \
    fa::lab::on_access(const_cast<T*>(p), sizeof(T), true, true, FA_HERE);              \
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return old;                                                                         \
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
