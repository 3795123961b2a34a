#include "common/lab/race_check.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/lab/block.hpp"

namespace fa::lab {

bool RaceCheck::in_bounds(const Region& region, const std::byte* address, std::size_t size,
                          bool write, std::uint32_t site) {
  if (region.contains(address) && address + size <= region.begin + region.size) return true;
  const bool shared = region.memory != Memory::kGlobal;
  report_outside({shared ? Purpose::kDynamicShared : Purpose::kBuffer, address - region.begin,
                  region.size, false},
                 size, write, site);
  return false;
}

void RaceCheck::report_outside(const NearMemory& near, std::size_t size, bool write,
                               std::uint32_t site) {
  const Size& block = current->block_index;
  w_.findings.add(
      "out of bounds", site, 0,
      fmt::format(
          "{}{} {} {} bytes at {}", w_.name_of(w_.order.running()),
          w_.cluster > 1 ? "" : fmt::format(" of block ({}, {}, {})", block.x, block.y, block.z),
          write ? "writes" : "reads", size, near.text()));
}

// ---------------------------------------------------------------- threads

// What orders two accesses of different warps of a block.
std::string RaceCheck::advice_in_block() const {
  // A kernel with roles cannot meet at __syncthreads().
  if (this_thread().block->mbarriers().any()) {
    return "the thread at @2 must arrive at an mbarrier after that line (or one lane for its warp, "
           "after a __syncwarp()), and the thread at @1 wait for that phase before that line; an "
           "earlier arrival or a wait with the wrong parity orders nothing";
  }
  if (w_.cluster > 1) {
    return "a __syncthreads() is missing between the two lines; or, if there is one, after the "
           "last use, at the end of the loop's body (or of the function)";
  }
  const auto ahead = [](const char* mark) {
    return fmt::format(
        "the __syncthreads() between the two lines does not order them, since the thread at {} is "
        "an iteration (or a call) ahead: put another one after the last use of the old values, at "
        "the end of the loop's body (or of the function)",
        mark);
  };
  return fmt::format(
      "@?no __syncthreads() comes between the two: put one between the two lines (of one line in a "
      "loop: at the end of the body), where all threads of the block reach it@|{}@|{}@.",
      ahead("@2"), ahead("@1"));
}

// What probably orders two accesses of threads. `distance`: see Findings::add().
void RaceCheck::report_race(const Access& before, bool before_writes, const Use& use) {
  const Order& order = w_.order;
  const Access& now = use.now;
  std::string kind = "race", with = "and nothing orders the two", missing;
  int distance = 0;
  if (order.of_other_launch(before) && order.of_unordered_stream(before)) {
    with = "and nothing orders the two launches, which are on two streams";
    distance = 2;
    missing = "wait for the first stream before the second launch, or use one stream";
  } else if (order.of_other_launch(before)) {
    with = "and this launch (with_pdl) may begin before that one ends";
    distance = 2;
    missing =
        "grid_dependency_wait() is missing before this line, in the thread that executes it: each "
        "thread that uses the result needs the call";
  } else if (before.atomic && now.atomic && (before.of_block || now.of_block)) {
    distance = 2;
    missing =
        "the two are in different blocks, and an atomic operation of block scope (_block, .cta, "
        "thread_scope_block) is atomic only to threads of its own block: use device scope";
  } else if (order.of_other_block(before.thread) && order.ordered_by_counter(before)) {
    kind = "proxy";
    with = "with a counter that orders the threads, but not the copy";
    distance = 2;
    missing = "fence_async_proxy_global() is missing before this line";
  } else if (order.has_read_flag_after(before)) {
    distance = 2;
    missing =
        "this block has read a flag or counter that was changed behind that line and a fence, but "
        "without acquiring: a __threadfence() is missing behind the atomic that read it";
  } else if (order.of_other_block(before.thread)) {
    distance = 2;
    missing =
        "they are in different blocks, and a fence waits for no other block: use atomics for both, "
        "or a second launch if one needs the results of all others; if a lock or a counter orders "
        "them, a __threadfence() is needed between the earlier access and the atomic that releases "
        "it (after a bulk_wait<0>() where a copy writes), and another one after the atomic that "
        "acquires it, unless that is an atomic_add_acquire() or load_acquire()";
  } else if (order.rank_of(before.thread) != order.rank_of(now.thread)) {
    distance = 2;
    missing =
        "the two are in different blocks of the cluster, and a __syncthreads() is for one block "
        "only: a cluster_arrive() and cluster_wait() is missing between the last write and the "
        "first read, or an mbarrier where the one arrives and the other waits";
  } else if (now.site == before.site) {
    missing =
        "both are at this line: each thread needs an element of its own, or only one of them may "
        "store";
  } else if (Order::in_cluster(before.thread) / kWarpSize ==
             Order::in_cluster(now.thread) / kWarpSize) {
    missing =
        "the lanes of a warp do not run in step: a __syncwarp() is missing between the write and "
        "the read (a shuffle orders no memory), and where a line reads what another lane writes "
        "there, part it: float v = s[u]; __syncwarp(); s[t] += v; __syncwarp();";
  } else {
    distance = 1;
    missing = advice_in_block();
  }
  const std::string message =
      fmt::format("{} at @1 {} what {} at @2 {}, in {}, {}; {}", w_.name_of(now.thread),
                  use.write ? "writes" : "reads", w_.name_of(before),
                  before_writes ? "has written" : "has read", use.name(), with, missing);
  // One store by several threads; two lines may well agree by chance.
  const bool one_store = use.write && before_writes && now.site == before.site;
  if (kind != "race" || !one_store || now.atomic || before.atomic) {
    w_.findings.add(kind, now.site, before.site, message, distance);
    return;
  }
  const std::byte* const address = use.region.begin + use.offset;
  const bool known = w_.findings.has("race", now.site, before.site) &&
                     w_.findings.has("same value", now.site, before.site);
  doubt_ = {now.site,
            before.site,
            distance,
            message,
            fmt::format("{} writes what {} has written, in {}, and nothing orders the two; both "
                        "write the same value, so the result is defined, but one of them is enough",
                        w_.name_of(now.thread), w_.name_of(before), use.name()),
            known ? std::vector<std::uintptr_t>{} : call_stack(),
            address,
            {address, address + use.size}};
}

void RaceCheck::settle_doubt() {
  const Doubt doubt = std::move(*doubt_);
  doubt_.reset();
  const bool same = std::equal(doubt.before.begin(), doubt.before.end(), doubt.address);
  w_.findings.add(same ? "same value" : "race", doubt.site, doubt.other,
                  same ? doubt.same : doubt.race, doubt.distance, doubt.stack);
}

// Only of a line that stores nothing else: pixels may look like it.
void RaceCheck::settle_store() {
  const auto [address, size, site] = std::exchange(stored_, {});
  const auto unset = [](std::byte byte) { return byte == std::byte{0xfe}; };  // GCC's pattern
  if (stores_values_.size() <= site) stores_values_.resize(site + 1);
  if (stores_values_[site]) return;
  if (size >= 4 && std::all_of(address, address + size, unset)) {
    w_.findings.add("unwritten", site, 0,
                    fmt::format("a thread stores {} bytes that come from a local variable or array "
                                "which nothing has set: set it first, to 0 before a sum",
                                size));
  } else {
    stores_values_[site] = true;
    w_.findings.drop("unwritten", site);
  }
}

void RaceCheck::report_cp_async(const Cell& cell, const Use& use) {
  const Access& copy = cell.write;
  const bool own = copy.thread == use.now.thread;
  const char* const wait =
      "each thread must wait for its own copies, by cp_async_wait<0>() (or with the number of "
      "groups begun later instead of 0), before all meet at a __syncthreads(): after a barrier "
      "alone a copy may still be in flight";
  std::string advice = "a cp_async_wait is missing before @1, or leaves it pending";
  if (!own && (w_.order.passed_barrier(copy) || w_.cluster > 1)) {
    advice = wait;
  } else if (!own) {
    advice = fmt::format(
        "@?{0}@|that copy is of the next iteration (or call): a __syncthreads() is missing after "
        "the last use of the old values, before the copy begins@|{0}@.",
        wait);
  }
  w_.findings.add(
      "copy", use.now.site, copy.site,
      fmt::format("{} {} {} while the cp.async that {} has begun at @2 is in flight; {}",
                  w_.name_of(use.now.thread), use.write ? "writes" : "reads", use.name(),
                  own ? "it" : w_.name_of(copy.thread), advice));
}

// A thread or wgmma uses what a bulk copy fills.
void RaceCheck::report_early(const Access& copy, const std::string& reader, bool write,
                             std::uint32_t site, const std::string& memory) {
  w_.findings.add("copy", site, copy.site,
                  fmt::format("{} {} {}, which the copy begun at @2 fills; its mbarrier was not "
                              "waited for before @1, or with the parity of a phase that had ended "
                              "before",
                              reader, write ? "writes" : "reads", memory));
}

// Reports what is wrong with an access, if anything is: of a cell that it uses.
bool RaceCheck::report_before(const Cell& cell, const Use& use) {
  const Access& now = use.now;
  if (cell.in_flight) {
    report_cp_async(cell, use);
    return true;
  }
  if ((!use.write || now.needs_value) && !cell.written) {
    const bool global = use.region.memory == Memory::kGlobal;
    w_.findings.add("unwritten", now.site, 0,
                    fmt::format("{} {} {}, which no thread has written{}", w_.name_of(now.thread),
                                use.write ? "changes" : "reads", use.name(),
                                global ? "; cudaMalloc() sets nothing to 0: write it first, by a "
                                         "kernel, a copy or cudaMemset()"
                                       : " in this block; shared memory does not begin with 0: let "
                                         "a thread set it, then __syncthreads(), then use it"));
    return true;
  }
  const auto conflicts = [&](const Access& before, bool both_write) {
    const bool narrow = (before.of_block || now.of_block) && w_.order.of_other_block(before.thread);
    // A volatile flag orders the threads that read it, not those that only set it.
    const bool both_set =
        both_write && before.is_volatile && now.is_volatile && cell.read.thread != now.thread;
    if (before.atomic && now.atomic && !narrow && !both_set) return false;
    // As in the CUDA guide's reduction, whose last block adds up volatile partial sums.
    if (before.is_volatile && now.is_volatile && w_.order.has_read_flag_after(before)) return false;
    return !w_.order.ordered(before, now.thread);
  };
  for (const Access* before : {&cell.write, &cell.atomic_write}) {
    if (!conflicts(*before, use.write)) continue;
    if (Order::is_agent(before->thread)) {
      report_early(*before, w_.name_of(now.thread), use.write, now.site, use.name());
    } else {
      report_race(*before, true, use);
    }
    return true;
  }
  for (const Access* read : {&cell.read, &cell.other_read}) {
    if (!use.write || !conflicts(*read, false)) continue;
    report_race(*read, false, use);
    return true;
  }
  return false;
}

void RaceCheck::access(Region& region, const std::byte* address, std::size_t size, bool write,
                       const Access& now) {
  w_.order.uses_line(now.site);
  bool reported =
      write && !region.async_reads.empty() && report_async_reads(region, address, size, now, "");
  const Use use{now, write, region, address - region.begin, size};
  region.for_pages(address, size, [&](Cell* const first, Cell* const end) {
    // What is right for a cell is right for the next one where both have been used alike.
    for (const Cell* cell = first; cell != end && !reported; ++cell) {
      if (cell != first && cell->has_writes_of(cell[-1]) &&
          (!write || cell->has_reads_of(cell[-1]))) {
        continue;
      }
      reported = report_before(*cell, use);
    }
    for (Cell* cell = first; cell != end; ++cell) {
      if (write) {
        (now.atomic ? cell->atomic_write : cell->write) = now;
        cell->written = true;
        cell->in_flight = false;
      } else if (!cell->in_flight) {  // what a copy in flight does to a read has been reported
        if (cell->read.thread != now.thread) cell->other_read = cell->read;
        cell->read = now;
      }
    }
  });
}

void RaceCheck::set_in_flight(const void* destination, std::size_t size, bool in_flight) {
  const auto* address = static_cast<const std::byte*>(destination);
  Region* region = w_.memory.shared(address);
  if (region == nullptr) return;
  region->for_cells(address, size, [&](Cell& cell) { cell.in_flight = in_flight; });
}

// ---------------------------------------------------------------- asynchronous operations

// A write to what an asynchronous operation may still read.
bool RaceCheck::report_async_reads(Region& region, const std::byte* address, std::size_t size,
                                   const Access& now, const std::string& by) {
  const auto advice = [](AsyncUse use) {
    switch (use) {
      case AsyncUse::kStore:
        return "a bulk_wait_read() is probably missing between them, or a barrier after it";
      case AsyncUse::kPeerCopy:
        return "the other block must wait for the copy, and then arrive at a barrier at which this "
               "one waits";
      case AsyncUse::kTensorMatmul:
        return "the mbarrier of a tcgen05_commit() behind it was probably not waited for";
      default:
        return "a wgmma_wait() is probably missing between them, or a barrier at which all of its "
               "warps arrive after it";
    }
  };
  bool reported = false;
  const auto offset = static_cast<std::size_t>(address - region.begin);
  for (std::size_t i = offset / kGrainBytes; i <= (offset + size - 1) / kGrainBytes; ++i) {
    auto& reads = region.async_reads[i];
    for (const AsyncRead& read : reads) {
      if (reported || w_.order.ordered_after(now.thread, read.thread, read.time)) continue;
      reported = true;
      w_.findings.add(
          "race", now.site, read.site,
          fmt::format("{}{} writes {}, which {} of the other line may still read; {}", by,
                      w_.name_of(now.thread), region.name(static_cast<std::ptrdiff_t>(offset)),
                      w_.name_of(read.use), advice(read.use)),
          1);
    }
    reads.clear();  // later accesses are after this write
  }
  return reported;
}

void RaceCheck::copy_begins(Region& region, const std::byte* address, std::size_t size,
                            const Access& copy) {
  const Access now = w_.order.now(copy.site, false);
  const auto offset = address - region.begin;
  bool reported = !region.async_reads.empty() &&
                  report_async_reads(region, address, size, now, "a copy begun by ");
  region.for_cells(address, size, [&](Cell& cell) {
    for (const Access* before : {&cell.write, &cell.atomic_write, &cell.read, &cell.other_read}) {
      if (reported || w_.order.ordered(*before, now.thread)) continue;
      reported = true;
      const bool writes = before == &cell.write || before == &cell.atomic_write;
      w_.findings.add(
          "race", copy.site, before->site,
          fmt::format(
              "a copy begun by {} may overwrite {} before {} at @2 {} it; all that use the "
              "old contents must arrive at a barrier after their last use, and this thread "
              "must wait at it before the copy",
              w_.name_of(now.thread), region.name(offset),
              Order::is_agent(before->thread) ? "the copy begun" : w_.name_of(before->thread),
              writes ? "writes" : "reads"),
          1);
    }
    cell = {};
    cell.write = copy;
    cell.written = true;
  });
}

// Reports what is wrong with a read by a wgmma or a bulk store, if anything is: of a cell.
bool RaceCheck::report_async_read(const Cell& cell, const AsyncRead& read, const Region& region,
                                  std::ptrdiff_t offset, const Order::Snapshot* fence) {
  const Order& order = w_.order;
  const std::uint32_t thread = order.running();
  // A wgmma begins when all lanes have arrived: it is ordered after what any of them is.
  const auto ordered_after = [&](std::uint32_t other, std::uint32_t time) {
    return read.use == AsyncUse::kWgmma ? order.warp_ordered_after(thread, other, time)
                                        : order.ordered_after(thread, other, time);
  };
  const auto reader = [&] {
    return fmt::format("{} of warp {}", w_.name_of(read.use), this_place() / kWarpSize);
  };
  const auto memory = [&] { return region.name(offset); };
  if (cell.in_flight) {
    w_.findings.add("copy", read.site, cell.write.site,
                    fmt::format("{} reads {} while the cp.async begun at @2 is in flight; a "
                                "cp_async_wait is missing before @1",
                                w_.name_of(read.use), memory()));
    return true;
  }
  if (!cell.written) {
    w_.findings.add("unwritten", read.site, 0,
                    fmt::format("{} reads {}, which no thread has written in this block",
                                w_.name_of(read.use), memory()));
    return true;
  }
  for (const Access* before : {&cell.write, &cell.atomic_write}) {
    if (before->thread == 0) continue;
    const bool own = before->thread == thread;
    const bool by_copy = Order::is_agent(before->thread);
    if (by_copy && !ordered_after(before->thread, before->time)) {
      report_early(*before, reader(), false, read.site, memory());
      return true;
    }
    if (!by_copy && !own && !order.passed_barrier(*before) &&
        !ordered_after(before->thread, before->time)) {
      w_.findings.add(
          "race", read.site, before->site,
          fmt::format("{} reads what {} at @2 has written, in {}, and nothing orders the two; "
                      "a barrier is probably missing between the two accesses; in a loop it may "
                      "be missing at the end of an iteration, after bulk_wait_read() or "
                      "wgmma_wait(), which wait only for operations of their own thread",
                      reader(), w_.name_of(before->thread), memory()),
          1);
      return true;
    }
    const std::uint32_t proxy = by_copy ? 0 : order.fence_after(before->thread, before->time);
    if (!by_copy && (proxy == 0 || (!own && !ordered_after(before->thread, proxy)))) {
      w_.findings.add(
          "proxy", read.site, before->site,
          fmt::format("{} may not see what {} at @2 has written, in {}; a barrier alone does not "
                      "show it what threads store: fence_async_proxy() is missing after @2, in "
                      "each thread that writes, before the barrier",
                      reader(), w_.name_of(before->thread), memory()));
      return true;
    }
    // A barrier alone orders no tcgen05 operation that comes behind it.
    if (fence == nullptr || own || order.ordered(*before, *fence)) continue;
    w_.findings.add(
        "tcgen05", read.site, before->site,
        fmt::format("{} reads {}, which {} of the other line fills; a "
                    "tcgen05_fence_after() is missing, behind the wait and before "
                    "this line",
                    reader(), memory(), by_copy ? "the copy" : w_.name_of(before->thread)));
    return true;
  }
  return false;
}

void RaceCheck::async_read_begins(Region& region, const std::byte* address, std::size_t size,
                                  const AsyncRead& read, std::optional<Cell>& right,
                                  const Order::Snapshot* fence) {
  const auto offset = address - region.begin;
  bool reported = false;
  region.for_pages(address, size, [&](const Cell* const first, const Cell* const end) {
    for (const Cell* cell = first; cell != end && !reported; ++cell) {
      if (right && cell->has_writes_of(*right)) continue;
      reported = report_async_read(*cell, read, region, offset, fence);
      if (!reported) right = *cell;
    }
  });
  if (region.async_reads.empty()) region.async_reads.resize(region.size / kGrainBytes + 1);
  auto& reads = region.async_reads[static_cast<std::size_t>(offset) / kGrainBytes];
  for (AsyncRead& known : reads) {
    if (known.thread != read.thread) continue;
    known = read;
    return;
  }
  reads.push_back(read);
}

}  // namespace fa::lab
