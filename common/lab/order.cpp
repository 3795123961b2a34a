#include "common/lab/order.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace fa::lab {

void VectorClock::join(const VectorClock& other, std::size_t first) {
  if (!other.times_ || times_ == other.times_) return;
  if (!times_ && first == 0) {
    times_ = other.times_;
    return;
  }
  std::vector<std::uint32_t>& times = own_times();
  const std::vector<std::uint32_t>& others = other.times_->of;
  if (times.size() < others.size()) times.resize(others.size());
  for (std::size_t i = first; i < others.size(); ++i) times[i] = std::max(times[i], others[i]);
}

std::uint32_t Order::agent(const void* address) {
  const auto next = kPreviousGrids + 1 + static_cast<std::uint32_t>(agents_.size());
  const std::uint32_t number = agents_.try_emplace(address, next).first->second;
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

void Order::launch_begins(std::int64_t threads, int cluster, bool with_pdl, std::uint64_t stream) {
  // What comes behind work on the default stream comes behind all before it.
  if (stream == 0 || (!launches_.empty() && launches_.back().stream == 0)) synchronized(0);
  first_interval_ = interval_ = ++last_interval_;
  launches_.push_back({first_interval_, stream});
  // The launch before this one may itself have begun early.
  if (!with_pdl) in_flight_ = first_interval_;
  next_block_ = block_ = 1;
  raised_by_.clear();
  of_block_ = static_cast<std::uint32_t>(threads);
  threads_ = static_cast<std::size_t>(threads * cluster);
}

void Order::synchronized(std::uint64_t stream) {
  // Accesses of the last launch have its intervals, the next one begins a new one.
  waited_until(stream, time());
  if (stream == 0) launches_.clear();
}

void Order::waited_until(std::uint64_t stream, std::uint32_t time) {
  std::uint32_t& until = stream == 0 ? joined_ : waited_for_[stream];
  until = std::max(until, time);
}

bool Order::of_unordered_stream(const Access& access) const {
  const OnStream* const launch = launch_of(access);
  return launch != nullptr && launch->stream != launches_.back().stream &&
         host_has_not_waited_for(access);
}

bool Order::host_has_not_waited_for(const Access& access) const {
  const OnStream* const launch = launch_of(access);
  if (launch == nullptr) return false;
  const auto waited = waited_for_.find(launch->stream);
  return waited == waited_for_.end() || access.interval >= waited->second;
}

// Null for launches that all that comes now is ordered after.
const Order::OnStream* Order::launch_of(const Access& access) const {
  if (access.interval < joined_) return nullptr;
  const auto after = std::upper_bound(
      launches_.begin(), launches_.end(), access.interval,
      [](std::uint32_t interval, const OnStream& one) { return interval < one.first_interval; });
  return after == launches_.begin() ? nullptr : &*std::prev(after);
}

void Order::block_begins() {
  interval_ = ++last_interval_;
  block_ = next_block_;
  next_block_ += kNumbers;
  times_.assign(threads_, 1);
  clocks_.assign(threads_, {});
  fences_.assign(threads_, {});
  all_ = {};
  first_uses_.clear();
  agents_.clear();
  barriers_.clear();
  at_fence_.clear();
  pending_.clear();
  met_.clear();
  order_of_block_.clear();
  order_of_copies_.clear();
  behind_flags_.clear();
  fenced_.assign(threads_, false);
  used_.assign(threads_, false);
  all_fenced_ = false;
}

void Order::warp_meets(std::size_t first, unsigned mask) {
  VectorClock together;
  const auto for_lanes = [&](auto visit) {
    for (std::size_t lane = 0; lane < kWarpSize; ++lane) {
      if ((mask >> lane & 1u) != 0) visit(first + lane);
    }
  };
  for_lanes([&](std::size_t thread) { together.join(clocks_[thread]); });
  for_lanes([&](std::size_t thread) { together.raise(thread, times_[thread]++); });
  for_lanes([&](std::size_t thread) { clocks_[thread] = together; });
}

void Order::block_meets() {
  if (of_block_ < threads_) {  // the other blocks of the cluster do not arrive
    const std::size_t first = static_cast<std::size_t>(current->rank) * of_block_;
    VectorClock together;
    for (std::size_t i = 0; i < of_block_; ++i) release(first + i, together);
    for (std::size_t i = 0; i < of_block_; ++i) clocks_[first + i] = together;
    return;
  }
  interval_ = ++last_interval_;
  for (std::size_t thread = 0; thread < threads_; ++thread) {
    release(thread, all_);
    clocks_[thread] = {};
  }
  for (const auto& [thread, pending] : pending_) {
    for (const auto& [block, clock] : pending.others) met_[block].join(clock);
  }
  const auto any = [](const std::vector<bool>& of, bool is) {
    return std::find(of.begin(), of.end(), is) != of.end();
  };
  if (all_fenced_ && !any(used_, true)) {
    for (auto& [thread, pending] : pending_) {
      for (const auto& [block, clock] : pending.polled) order_of_block_[block].join(clock);
      pending.polled.clear();
    }
    for (auto& [thread, fenced] : at_fence_) fenced.blocks = order_of_block_;
  } else {
    all_fenced_ = !any(fenced_, false);
  }
  fenced_.assign(threads_, false);
  used_.assign(threads_, false);
  if (!all_fenced_) return;
  Fenced together;
  for (const auto& [thread, fenced] : at_fence_) together.others.join(fenced.others);
  together.block = together.others;
  together.blocks = order_of_block_;
  for (std::uint32_t thread = 0; thread < threads_; ++thread) at_fence_[thread] = together;
}

void Order::releases(const void* barrier) {
  release(static_cast<std::size_t>(current->place), barriers_[barrier].coming);
}

void Order::commits(const void* barrier) {
  VectorClock& coming = barriers_[barrier].coming;
  coming.join(all_, threads_);
  coming.join(clocks_[static_cast<std::size_t>(current->place)], threads_);
}

void Order::phase_ends(const void* barrier) {
  Barrier& at = barriers_[barrier];
  at.ended.join(at.coming);
}

void Order::acquires(const void* barrier) {
  clocks_[static_cast<std::size_t>(current->place)].join(barriers_[barrier].ended);
}

void Order::memory_fenced(bool arrived, bool for_all_blocks) {
  const auto thread = static_cast<std::uint32_t>(current->place);
  const auto pending = pending_.find(thread);
  if (pending != pending_.end()) {
    clocks_[thread].join(pending->second.block);
    pending->second.block = {};
    if (for_all_blocks) {
      for (const auto& [block, clock] : pending->second.others) order_of_block_[block].join(clock);
      pending->second.others.clear();
      pending->second.polled.clear();
    }
  }
  if (for_all_blocks) {  // it is sequentially consistent: reads that come before it count, too
    for (const auto& [block, clock] : met_) order_of_block_[block].join(clock);
    met_.clear();
  }
  if (!arrived) return;
  if (for_all_blocks) fenced_[thread] = true;
  Fenced& fenced = at_fence_[thread];
  fenced.block.join(all_);
  release(thread, fenced.block);
  if (!for_all_blocks) return;
  fenced.others = fenced.block;
  fenced.blocks = order_of_block_;
}

// In this run the flag was raised before; only what its writers did before their fence comes before
// it in every run.
void Order::uses_flag(const void* flag, const AtomicUse& use, bool of_block) {
  const auto thread = static_cast<std::uint32_t>(current->place);
  auto raised = raised_by_.find(flag);
  if (use.reads && raised != raised_by_.end()) {
    Pending& pending = pending_[thread];
    const bool polls = !use.writes || pending.flag == flag;
    pending.flag = flag;
    for (const auto& [block, fenced] : raised->second) {
      if (block == block_) {
        (use.acquires ? clocks_[thread] : pending.block).join(fenced.block);
      } else if (!of_block) {
        (use.acquires ? order_of_block_ : pending.others)[block].join(fenced.others);
        if (polls) pending.polled[block].join(fenced.others);
        behind_flags_[block].join(fenced.others);
      }
    }
  }
  if (!use.writes) return;
  if (use.releases) memory_fenced(true, !of_block);
  const auto fenced = at_fence_.find(thread);
  if (fenced == at_fence_.end()) {
    if (!use.reads && raised != raised_by_.end()) raised_by_.erase(raised);
    return;
  }
  auto& writers = raised_by_[flag];
  if (!use.reads) writers.clear();  // a store: the value says nothing of earlier ones
  writers[block_].block.join(fenced->second.block);
  if (of_block) return;
  writers[block_].others.join(fenced->second.others);
  for (const auto& [block, clock] : fenced->second.blocks) {
    if (block != block_) writers[block].others.join(clock);
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
