#include "common/lab/tensor_check.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "common/lab/tensor_memory.hpp"

namespace fa::lab {
namespace {

constexpr int kQuarters = 4;
using Kind = TensorUse::Kind;

bool is_matmul(const TensorUse& use) {
  return use.agent != nullptr;
}

}  // namespace

void TensorCheck::block_begins() {
  cells_.clear();
  uses_.assign(1, {});
  threads_.assign(w_->threads, {});
  warps_.assign(w_->threads / kWarpSize + 1, {});
  time_ = 0;
}

TensorCheck::Cell& TensorCheck::cell(int quarter, int column) {
  const auto rank = static_cast<int>(this_rank());
  constexpr int columns = TensorMemory::kColumns;
  if (cells_.empty()) cells_.resize(w_->cluster * kQuarters * columns);
  return cells_[static_cast<std::size_t>((rank * kQuarters + quarter) * columns + column)];
}

void TensorCheck::allocated(int column, int columns) {
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    for (int i = 0; i < columns; ++i) cell(quarter, column + i) = {};
  }
}

void TensorCheck::uses(const TensorUse& use, std::uint32_t site) {
  Use now{use, this_place(), site, {}, 0};
  if (is_matmul(use)) now.access = w_->order.of_agent(w_->order.agent(use.agent), use.when, site);
  const auto number = static_cast<std::uint32_t>(uses_.size());
  uses_.push_back(now);
  const bool frees = use.kind == Kind::kFree;
  bool reported = false;
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    if (use.quarter >= 0 && use.quarter != quarter) continue;
    for (int column = use.column; column < use.column + use.columns; ++column) {
      Cell& at = cell(quarter, column);
      if (use.reads && at.write == 0 && !reported) {
        reported = true;
        w_->findings.add(
            "unwritten", site, 0,
            fmt::format("{} reads column {} of tensor memory, which nothing has written "
                        "since it was allocated",
                        name_of(now), column));
      }
      if (at.write != 0 && !reported) reported = report(uses_[at.write], now, quarter, column);
      for (const std::uint32_t read : at.reads) {
        if ((use.writes || frees) && !reported)
          reported = report(uses_[read], now, quarter, column);
      }
      if (use.writes) {
        at.write = number;
        at.reads.clear();
      } else if (use.reads) {
        // Whatever is ordered behind a later read is behind earlier ones of the same warp or queue.
        const auto older = [&](std::uint32_t read) {
          return uses_[read].what.agent == use.agent && uses_[read].thread == now.thread;
        };
        at.reads.erase(std::remove_if(at.reads.begin(), at.reads.end(), older), at.reads.end());
        at.reads.push_back(number);
      }
    }
  }
  OfWarp& warp = warps_[this_place() / kWarpSize];
  if (use.kind == Kind::kLoad) warp.loads.push_back(number);
  if (use.kind == Kind::kStore) warp.stores.push_back(number);
}

void TensorCheck::waited(bool stores) {
  OfWarp& warp = warps_[this_place() / kWarpSize];
  std::vector<std::uint32_t>& open = stores ? warp.stores : warp.loads;
  ++time_;
  for (const std::uint32_t number : open) uses_[number].ended = time_;
  open.clear();
}

void TensorCheck::fenced(bool before) {
  OfThread& thread = threads_[this_place()];
  if (before) {
    thread.before.emplace_back(++time_, w_->order.now(0, false));
  } else {
    thread.after = w_->order.snapshot();
  }
}

// What is missing so that a use is ordered behind an earlier one; empty where nothing is.
std::string TensorCheck::missing(const Use& before, const Use& now) const {
  // What a warp does together begins when all of its lanes have come: it is ordered after what any
  // of them is.
  const bool by_warp = !is_matmul(now.what);
  const std::uint32_t first = by_warp ? now.thread / kWarpSize * kWarpSize : now.thread;
  const auto any = [&](auto ordered) {
    for (std::uint32_t i = first; i < first + (by_warp ? kWarpSize : 1); ++i) {
      if (ordered(i)) return true;
    }
    return false;
  };
  const Order& order = w_->order;
  const auto is_known = [&](const Access& access) {
    return any([&](std::uint32_t i) { return order.ordered(access, order.id(i)); });
  };
  const auto is_fenced = [&](const Access& access) {
    if (now.what.kind == Kind::kFree) return is_known(access);
    return any([&](std::uint32_t i) {
      return order.ordered(access, threads_[i].after) ||
             (access.thread == order.id(i) && !Order::is_agent(access.thread));
    });
  };
  constexpr const char* kAfter =
      "a tcgen05_fence_after() is missing, behind the wait and before this line";
  if (is_matmul(before.what)) {
    const bool pipelined = before.what.kind == Kind::kSums && now.what.kind == Kind::kSums &&
                           before.what.agent == now.what.agent &&
                           before.what.column == now.what.column &&
                           before.what.columns == now.what.columns;
    if (pipelined || is_fenced(before.access)) return "";
    if (is_known(before.access)) return kAfter;
    return fmt::format(
        "a tcgen05_commit() behind the other line, by its thread {}, and a wait for that mbarrier "
        "before this line are missing, or one of them",
        order.in_block(order.id(before.thread)));
  }
  if (before.ended == 0) {
    return fmt::format("a tcgen05_wait_{}() is missing behind the other line",
                       before.what.kind == Kind::kLoad ? "ld" : "st");
  }
  const std::uint32_t warp = before.thread / kWarpSize;
  if (warp == now.thread / kWarpSize) return "";
  bool fences = false, known = false;
  for (std::uint32_t i = warp * kWarpSize; i < (warp + 1) * kWarpSize; ++i) {
    const auto& all = threads_[i].before;
    const auto fence = std::find_if(all.begin(), all.end(),
                                    [&](const auto& one) { return one.first > before.ended; });
    if (fence == all.end()) continue;
    fences = true;
    if (is_fenced(fence->second)) return "";
    known = known || is_known(fence->second);
  }
  if (known) return kAfter;
  if (!fences) {
    return fmt::format(
        "a tcgen05_fence_before() is missing in warp {}, behind its wait and before it arrives at "
        "a barrier",
        warp);
  }
  return "nothing orders the two: a barrier is missing, at which the other line's warp arrives "
         "behind its tcgen05_fence_before()";
}

std::string TensorCheck::name_of(const Use& use) const {
  const char* what = "a tcgen05_ld()";
  if (use.what.kind == Kind::kStore) what = "a tcgen05_st()";
  if (use.what.kind == Kind::kFree) what = "a tcgen05_dealloc()";
  if (is_matmul(use.what)) what = "a tcgen05_mma()";
  const std::uint32_t number = w_->order.in_block(w_->order.id(use.thread));
  return fmt::format("{} of {} {}", what, is_matmul(use.what) ? "thread" : "warp",
                     is_matmul(use.what) ? number : number / kWarpSize);
}

bool TensorCheck::report(const Use& before, const Use& now, int quarter, int column) {
  const std::string advice = missing(before, now);
  if (advice.empty()) return false;
  const auto does = [](const Use& use) {
    if (use.what.kind == Kind::kFree) return "frees";
    return use.what.writes ? "writes" : "reads";
  };
  w_->findings.add(
      "tcgen05", now.site, before.site,
      fmt::format(
          "{} {} column {} of tensor memory, lanes {} to {}, which {} {} at the other line; {}",
          name_of(now), does(now), column, kWarpSize * quarter, kWarpSize * (quarter + 1) - 1,
          name_of(before), does(before), advice));
  return true;
}

}  // namespace fa::lab
