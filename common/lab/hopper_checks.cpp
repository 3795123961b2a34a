#include "common/lab/hopper_checks.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace fa::lab {

void MbarrierCheck::made(const void* barrier, std::uint32_t site) {
  states_[barrier] = {w_->order.now(site, false), false};
}

void MbarrierCheck::fenced() {
  for (auto& entry : states_) {
    State& state = entry.second;
    state.fenced = state.fenced || state.made.thread == w_->order.running();
  }
}

void MbarrierCheck::used(const void* barrier, bool by_copy, std::uint32_t site) {
  const State& state = states_[barrier];
  const std::uint32_t running = w_->order.running(), maker = state.made.thread;
  if (!w_->order.ordered(state.made, running)) {
    w_->findings.add("barrier", site, state.made.site,
                     fmt::format("{} uses an mbarrier that {} has initialised, and nothing orders "
                                 "the two; a {} is probably missing between the two lines",
                                 w_->name_of(running), w_->name_of(maker),
                                 w_->order.rank_of(maker) == this_rank()
                                     ? "__syncthreads()"
                                     : "cluster_arrive() and cluster_wait()"));
  } else if (by_copy && !state.fenced) {
    w_->findings.add(
        "barrier", site, state.made.site,
        "a copy reports to an mbarrier that it may not see yet: fence_barrier_init() "
        "is missing after the other line, in the thread that initialises the mbarrier");
  }
}

// ---------------------------------------------------------------- registers of wgmma

void PhaseCheck::seen(const void* barrier, std::uint32_t phase, std::uint32_t site) {
  State& state = states_[barrier];
  const Access wait = w_->executed.now(site, false);
  if (phase < state.phase) {
    report(wait, state.site);
  } else {
    state.seen.push_back(wait);
  }
}

void PhaseCheck::ends(const void* barrier, std::uint32_t phase, std::uint32_t site) {
  State& state = states_[barrier];
  for (const Access& wait : state.seen) {
    if (!w_->executed.arrivals_ordered_after(barrier, wait)) report(wait, site);
  }
  state.seen.clear();
  state.phase = phase;
  state.site = site;
}

void PhaseCheck::report(const Access& wait, std::uint32_t next) {
  w_->findings.add(
      "barrier", wait.site, next,
      fmt::format(
          "{} may miss a phase of the mbarrier: the other line may end the next phase before this "
          "wait has returned. A wait knows a phase by its parity only: such a wait never returns, "
          "or returns at once for an older phase. Often the parity does not change each time the "
          "ring wraps, or a thread does not arrive after this wait where the other line's thread "
          "waits (one may for several after a barrier that they share, __syncwarp() within a warp)",
          w_->name_of(wait.thread)));
}

void RegisterCheck::lend(int thread, const void* address, std::size_t size, LentTo as,
                         const void* agent, std::uint32_t when, std::uint32_t site) {
  auto& lent = lent_[static_cast<std::size_t>(thread)];
  const auto* const begin = static_cast<const std::byte*>(address);
  // All wgmma of a group that have the same registers give them back together.
  const bool known = std::any_of(lent.begin(), lent.end(), [&](const Lent& one) {
    return one.begin == begin && one.size == size && one.as == as && one.agent == agent &&
           one.when == when;
  });
  if (!known) lent.push_back({begin, size, as, agent, when, site});
}

void RegisterCheck::changed(std::uint32_t site, const std::string& message) {
  // The line that did it may be known.
  if (!w_->findings.has("wgmma", site)) w_->findings.add("wgmma", site, 0, message);
}

void RegisterCheck::give_back(std::uint32_t thread, const void* agent, std::uint32_t when) {
  auto& lent = lent_[thread];
  lent.erase(
      std::remove_if(lent.begin(), lent.end(),
                     [&](const Lent& one) { return one.agent == agent && one.when <= when; }),
      lent.end());
}

void RegisterCheck::check(const std::byte* address, std::size_t size, bool write,
                          std::uint32_t site) {
  for (const Lent& one : lent_[this_place()]) {
    if (address >= one.begin + one.size || one.begin >= address + size ||
        (!write && one.as == LentTo::kOperand)) {
      continue;
    }
    const bool loaded = one.as == LentTo::kLoaded;
    w_->findings.add(
        loaded ? "tcgen05" : "wgmma", site, one.site,
        fmt::format(
            "{} {} {} of the other line, which is in flight; a {} is probably missing before "
            "this line",
            w_->name_of(w_->order.running()), write ? "writes" : "reads",
            loaded                    ? "a register of the tcgen05_ld()"
            : one.as == LentTo::kSums ? "an accumulator of the wgmma()"
                                      : "the left operand, in registers, of the wgmma()",
            loaded ? "tcgen05_wait_ld()" : "wgmma_wait()"));
    return;
  }
}

// ---------------------------------------------------------------- clusters

void PeerCheck::uses(int rank, const Access& use) {
  if (rank == current->rank && !Order::is_agent(use.thread)) return;
  const auto block = static_cast<std::size_t>(rank);
  uses_[block][use.thread] = use;
  if (exited_[block]) report(rank, use);
}

void PeerCheck::report(int rank, const Access& use) {
  w_->findings.add(
      "cluster", use.site, 0,
      fmt::format("{} uses shared memory of block {} of the cluster, and nothing makes "
                  "that block wait for it before it ends, when its shared memory may be "
                  "gone: a cluster_arrive() and cluster_wait() at the end of the kernel "
                  "are probably missing",
                  Order::is_agent(use.thread) ? "a copy" : w_->name_of(use.thread), rank));
}

void PeerCheck::block_exits(int last) {
  const auto rank = static_cast<std::size_t>(last);
  exited_[rank] = true;
  const std::size_t count = w_->threads / w_->cluster;
  for (const auto& entry : uses_[rank]) {
    bool ordered = false;
    for (std::size_t i = 0; i < count && !ordered; ++i) {
      ordered = w_->order.ordered(entry.second, w_->order.id(rank * count + i));
    }
    if (!ordered) report(last, entry.second);
  }
}

}  // namespace fa::lab
