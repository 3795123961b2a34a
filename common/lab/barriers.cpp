#include "common/lab/barriers.hpp"

#include <cstring>
#include <utility>

#include "common/lab/lab_thread.hpp"
#include "common/lab/record.hpp"

namespace fa::lab {

void BlockBarrier::sync(Threads& threads, LabThread& thread, const SourceLocation& location) {
  record_for_warp(thread, Step::Kind::kMeet);
  if (++arrived_ < alive_) {
    thread.wait(State::kAtBarrier, location);
    return;
  }
  thread.location = location;
  thread.state = State::kAtBarrier;  // so that it counts
  release(threads, thread.rank);
}

void BlockBarrier::thread_ended(Threads& threads, int rank) {
  --alive_;
  if (alive_ > 0 && arrived_ == alive_) release(threads, rank);
}

void BlockBarrier::release(Threads& threads, int rank) {
  arrived_ = 0;
  if (observer != nullptr) {
    const SourceLocation* first = nullptr;
    const SourceLocation* second = nullptr;  // a different one, where there is
    int ended = 0;
    for (const LabThread& thread : threads) {
      if (thread.rank != rank) continue;
      ended += thread.state == State::kEnded;
      if (thread.state != State::kAtBarrier) continue;
      if (first == nullptr) first = &thread.location;
      if (thread.location.line != first->line) second = &thread.location;
    }
    observer->block_meets(*first, second != nullptr ? *second : *first, second == nullptr, ended);
  }
  wake(threads, State::kAtBarrier, [&](const LabThread& thread) { return thread.rank == rank; });
}

// ---------------------------------------------------------------- named barriers

NamedBarrier& NamedBarriers::checked(int id, int count, const SourceLocation& location) {
  const auto last = static_cast<int>(barriers_.size()) - 1;
  if (id < 0 || id > last) fail(location, "named barrier {}; allowed are 0 to {}", id, last);
  if (count < kWarpSize || count > kMaxThreads || count % kWarpSize != 0) {
    fail(location, "named barrier {} for {} threads; allowed are multiples of {} to {}", id, count,
         kWarpSize, kMaxThreads);
  }
  NamedBarrier& barrier = barriers_[static_cast<std::size_t>(id)];
  if (barrier.arrived == 0) {
    barrier.threads = count;
    barrier.first = location;
  } else if (barrier.threads != count) {
    fail(location, "named barrier {} for {} threads, where others said {}, at {}", id, count,
         barrier.threads, lab::text_of(barrier.first));
  }
  return barrier;
}

void NamedBarriers::arrive(Threads& threads, LabThread& thread, int id, int count, bool waits,
                           const SourceLocation& location) {
  NamedBarrier& barrier = checked(id, count, location);
  const auto launched = thread.block_size.count();
  if (id == 0 && count != launched) {
    note_finding(
        "barrier", location, {},
        fmt::format("named barrier 0 for {} of the {} threads of the block; __syncthreads() uses "
                    "the same barrier: take one of 1 to {}",
                    count, launched, barriers_.size() - 1));
  }
  record_for_warp(thread, waits ? Step::Kind::kNamedWait : Step::Kind::kNamedArrive, count, id);
  if (observer != nullptr) observer->releases(&barrier);
  if (++barrier.arrived == count) {
    barrier.arrived = 0;
    if (observer != nullptr) observer->phase_ends(&barrier);
    wake(threads, State::kAtNamedBarrier,
         [&](const LabThread& other) { return other.barrier == &barrier; });
  } else if (waits) {
    thread.wait(State::kAtNamedBarrier, location, &barrier);
  }
  if (waits && observer != nullptr) observer->acquires(&barrier);
}

std::string NamedBarriers::text_of(const NamedBarrier& barrier, const SourceLocation& where) const {
  return fmt::format("named barrier {}, {}, with {} of {} threads there",
                     &barrier - barriers_.data(), lab::text_of(where), barrier.arrived,
                     barrier.threads);
}

// ---------------------------------------------------------------- clusters

namespace {
void check_alternation(bool alternates, const SourceLocation& location) {
  if (!alternates) fail(location, "cluster_arrive() and cluster_wait() must alternate in a thread");
}
}  // namespace

void ClusterBarrier::arrive(Threads& threads, LabThread& thread, const SourceLocation& location) {
  check_alternation(!thread.cluster_wait_due, location);
  thread.cluster_wait_due = thread.in_cluster_phase = true;
  if (observer != nullptr) observer->releases(this);
  if (++arrived_ == alive_) end_phase(threads);
}

void ClusterBarrier::wait(LabThread& thread, const SourceLocation& location) const {
  check_alternation(thread.cluster_wait_due, location);
  thread.cluster_wait_due = false;
  if (thread.in_cluster_phase) thread.wait(State::kAtCluster, location);
  if (observer != nullptr) observer->acquires(this);
}

void ClusterBarrier::thread_ended(Threads& threads, LabThread& thread) {
  --alive_;
  arrived_ -= std::exchange(thread.in_cluster_phase, false);
  if (alive_ > 0 && arrived_ == alive_) end_phase(threads);
}

void ClusterBarrier::end_phase(Threads& threads) {
  arrived_ = 0;
  if (observer != nullptr) observer->phase_ends(this);
  for (LabThread& thread : threads) thread.in_cluster_phase = false;
  wake(threads, State::kAtCluster, [](const LabThread&) { return true; });
}

namespace {

bool same(const SourceLocation& a, const SourceLocation& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace

Warp::OfMask& Warp::add(unsigned mask) {
  exchanges_.push_back(std::make_unique<OfMask>());
  exchanges_.back()->mask = mask;
  return *exchanges_.back();
}

Warp::Exchange& Warp::arrive(const LabThread& thread, unsigned mask, const void* bytes,
                             std::size_t size, const SourceLocation& location, bool orders) {
  const auto lane = static_cast<std::size_t>(thread.lane);
  if ((mask >> lane & 1u) == 0) fail(location, "lane {} is not in its own mask {:#x}", lane, mask);
  OfMask& of = of_mask(mask);
  Exchange& now = of.exchanges[of.which[lane]];
  of.which[lane] ^= 1;
  if (now.complete) now.clear();  // the round before last
  if (now.deposits.lanes == 0) {
    now.first = location;
    now.orders = orders;
  } else if (!(orders && now.orders) && !same(location, now.first)) {
    // __syncwarp() alone allows different lines.
    finding_or_fail(
        "warp", location, now.first,
        fmt::format("lane {} is at this warp operation while other lanes of its mask are "
                    "at the other line: all lanes of a mask must execute the same "
                    "operation; move it out of the branch",
                    lane));
  }
  std::memcpy(&now.deposits.bytes[lane * kDepositSize], bytes, size);
  now.deposits.lanes |= 1u << lane;
  return now;
}

void Warp::lane_ended(Threads& threads, const LabThread& thread) {
  alive_ &= ~(1u << thread.lane);
  for (const auto& of : exchanges_) {
    for (const Exchange& exchange : of->exchanges) {
      if (exchange.deposits.lanes == 0 || exchange.complete || !all_there(exchange, of->mask)) {
        continue;
      }
      continue_others(threads, thread, of->mask);
    }
  }
}

void Warp::continue_others(Threads& threads, const LabThread& thread, unsigned mask) {
  for_warp(threads, thread, [&](LabThread& other) {
    if (other.state == State::kInExchange && other.waits_for == mask) other.state = State::kReady;
  });
}

}  // namespace fa::lab
