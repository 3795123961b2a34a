#include "common/lab/order.hpp"

#include <stdexcept>

namespace fa::lab {

void Knowledge::join(const Knowledge& other) {
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

bool Order::warp_knows(std::uint32_t thread, std::uint32_t other, std::uint32_t time) const {
  const std::uint32_t number = thread - block_;
  const std::uint32_t first = number / kWarpSize * kWarpSize;
  for (std::uint32_t i = first; i < first + kWarpSize && i < threads_; ++i) {
    if (knows(block_ + i, other, time)) return true;
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
  known_.assign(threads_, {});
  fences_.assign(threads_, {});
  all_ = {};
  agents_.clear();
  barriers_.clear();
  at_fence_.clear();
  seen_.clear();
  learnt_.clear();
  learnt_by_copies_.clear();
}

void Order::warp_meets(std::size_t first, unsigned mask) {
  Knowledge together;
  for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1u) != 0) tell(first + lane, together);
  }
  for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1u) != 0) known_[first + lane] = together;
  }
}

void Order::block_meets() {
  if (of_block_ < threads_) {  // the other blocks of the cluster do not come
    const std::size_t first = static_cast<std::size_t>(current->rank) * of_block_;
    Knowledge together;
    for (std::size_t i = 0; i < of_block_; ++i) tell(first + i, together);
    for (std::size_t i = 0; i < of_block_; ++i) known_[first + i] = together;
    return;
  }
  ++interval_;
  for (std::size_t thread = 0; thread < threads_; ++thread) {
    tell(thread, all_);
    known_[thread] = {};
  }
}

void Order::releases(const void* barrier) {
  tell(static_cast<std::size_t>(current->place), barriers_[barrier].coming);
}

void Order::phase_ends(const void* barrier) {
  Barrier& at = barriers_[barrier];
  at.ended.join(at.coming);
}

void Order::acquires(const void* barrier) {
  known_[static_cast<std::size_t>(current->place)].join(barriers_[barrier].ended);
}

void Order::memory_fenced(bool arrived) {
  const auto thread = static_cast<std::size_t>(current->place);
  if (arrived) {
    Knowledge& fenced = at_fence_[static_cast<std::uint32_t>(thread)];
    fenced.join(all_);
    tell(thread, fenced);
  }
  OfBlocks& of_thread = seen_[static_cast<std::uint32_t>(thread)];
  for (const auto& [block, knowledge] : of_thread) {
    learnt_[block].join(knowledge);
  }
  of_thread.clear();
}

// Blocks run one after the other here: those that have counted before are over, but only what they
// did before their fence is known to be over in any run.
void Order::counts(const void* counter, CounterUse use) {
  const auto thread = static_cast<std::uint32_t>(current->place);
  auto& others = counted_by_[counter];
  OfBlocks& knowing = use == CounterUse::kAdd ? seen_[thread] : learnt_;
  for (const auto& [block, knowledge] : others) {
    knowing[block].join(knowledge);
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
