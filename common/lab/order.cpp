#include "common/lab/order.hpp"

#include <stdexcept>

namespace fa::lab {

void VectorClock::join(const VectorClock& other) {
  if (times_.size() < other.times_.size()) {
    times_.resize(other.times_.size());
  }
  for (std::size_t i = 0; i < other.times_.size(); ++i) {
    times_[i] = std::max(times_[i], other.times_[i]);
  }
}

std::uint32_t Order::agent(const void* address) {
  const auto next = kPreviousGrids + 1 + static_cast<std::uint32_t>(agents_.size());
  const std::uint32_t number = agents_.emplace(address, next).first->second;
  if (number >= kNumbers) {
    throw std::runtime_error("more mbarriers and storing threads in a block than the lab counts");
  }
  return block_ + number;
}

bool Order::warp_ordered_after(std::uint32_t thread, std::uint32_t other,
                               std::uint32_t time) const {
  const std::uint32_t number = thread - block_;
  const std::uint32_t first = number / kWarpSize * kWarpSize;
  for (std::uint32_t i = first; i < first + kWarpSize && i < threads_; ++i) {
    if (ordered_after(block_ + i, other, time)) return true;
  }
  return false;
}

std::uint32_t Order::fence_after(std::uint32_t thread, std::uint32_t time) const {
  const auto& fences = fences_[thread - block_];
  const auto found = std::lower_bound(fences.begin(), fences.end(), time);
  return found == fences.end() ? 0 : *found;
}

void Order::launch_begins(std::int64_t threads, int cluster, bool with_pdl) {
  first_interval_ = ++interval_;
  // The launch before this one may itself have begun early.
  if (!with_pdl) in_flight_ = first_interval_;
  next_block_ = block_ = 1;
  counted_by_.clear();
  of_block_ = static_cast<std::uint32_t>(threads);
  threads_ = static_cast<std::size_t>(threads * cluster);
}

void Order::block_begins() {
  ++interval_;
  block_ = next_block_;
  next_block_ += kNumbers;
  times_.assign(threads_, 1);
  clocks_.assign(threads_, {});
  fences_.assign(threads_, {});
  all_ = {};
  agents_.clear();
  barriers_.clear();
  at_fence_.clear();
  pending_.clear();
  order_of_block_.clear();
  order_of_copies_.clear();
}

void Order::warp_meets(std::size_t first, unsigned mask) {
  VectorClock together;
  for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1u) != 0) release(first + lane, together);
  }
  for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1u) != 0) clocks_[first + lane] = together;
  }
}

void Order::block_meets() {
  if (of_block_ < threads_) {  // the other blocks of the cluster do not arrive
    const std::size_t first = static_cast<std::size_t>(current->rank) * of_block_;
    VectorClock together;
    for (std::size_t i = 0; i < of_block_; ++i) release(first + i, together);
    for (std::size_t i = 0; i < of_block_; ++i) clocks_[first + i] = together;
    return;
  }
  ++interval_;
  for (std::size_t thread = 0; thread < threads_; ++thread) {
    release(thread, all_);
    clocks_[thread] = {};
  }
}

void Order::releases(const void* barrier) {
  release(static_cast<std::size_t>(current->place), barriers_[barrier].coming);
}

void Order::phase_ends(const void* barrier) {
  Barrier& at = barriers_[barrier];
  at.ended.join(at.coming);
}

void Order::acquires(const void* barrier) {
  clocks_[static_cast<std::size_t>(current->place)].join(barriers_[barrier].ended);
}

void Order::memory_fenced(bool arrived) {
  const auto thread = static_cast<std::size_t>(current->place);
  if (arrived) {
    VectorClock& fenced = at_fence_[static_cast<std::uint32_t>(thread)];
    fenced.join(all_);
    release(thread, fenced);
  }
  BlockClocks& of_thread = pending_[static_cast<std::uint32_t>(thread)];
  for (const auto& [block, clock] : of_thread) {
    order_of_block_[block].join(clock);
  }
  of_thread.clear();
}

// Blocks run one after the other here: those that have counted before are over, but only what they
// did before their fence is over in every run.
void Order::counts(const void* counter, CounterUse use) {
  const auto thread = static_cast<std::uint32_t>(current->place);
  auto& others = counted_by_[counter];
  BlockClocks& target = use == CounterUse::kAdd ? pending_[thread] : order_of_block_;
  for (const auto& [block, clock] : others) {
    target[block].join(clock);
  }
  if (use == CounterUse::kLoadAcquire) return;  // others see nothing of it
  const auto fenced = at_fence_.find(thread);
  if (fenced != at_fence_.end()) {
    others.emplace_back(block_, fenced->second);
  }
}

void Order::grid_waited() {
  async_ends(running(), block_ + kPreviousGrids, 1);
}

void Order::async_fenced() {
  const auto thread = static_cast<std::size_t>(current->place);
  fences_[thread].push_back(times_[thread]++);
}

}  // namespace fa::lab
