#include "common/lab/replay.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

namespace fa::lab {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// One block on the SM.
class Player {
 public:
  Player(const BlockRecord& block, const Costs& costs, Timeline& timeline)
      : block_(block),
        costs_(costs),
        timeline_(timeline),
        warps_(block.warps.size()),
        now_(timeline.cycles) {}

  void play() {
    timeline_.blocks.push_back(now_);
    for (;;) {
      while (let_warps_go_on()) {
      }
      const double next = next_event();
      if (next == kNever) break;
      advance(next);
    }
    for (std::size_t w = 0; w < warps_.size(); ++w) {
      if (warps_[w].at < block_.warps[w].size()) {
        throw std::runtime_error(
            fmt::format("warp {} waits at its step {} of {} for what never comes", w,
                        warps_[w].at + 1, block_.warps[w].size()));
      }
    }
    timeline_.cycles = now_;
  }

 private:
  using Kind = Step::Kind;

  struct Matmul {
    std::size_t warp;
    const Step* step;
    std::size_t group;
  };
  struct Warp {
    std::size_t at = 0;          // its present step
    bool begun = false;          // that step
    double since = 0;            // when it began to wait at that step
    double work = 0;             // that is left of it, in cycles alone
    double answer = 0;           // when what it waits for has come
    int groups = 0;              // of matmuls, closed
    std::vector<int> left;       // matmuls of each group that have not ended
    int waiting = 0;             // matmuls that no tensor core has begun
    std::size_t meeting = 0;     // generation of the barrier it waits at
    double stores_open = 0;      // when the last copy of the open group ends
    std::vector<double> stores;  // when each closed group ends
  };
  struct Mbarrier {
    int arrivals = 0, missing = 0, phases = 0;
    std::int64_t bytes = 0;
    bool copies = false;  // report to it
  };
  struct Named {
    int arrived = 0;
    std::size_t generation = 0;
  };
  struct Landing {
    double time;
    int barrier;
    std::int64_t bytes;
  };
  struct Quarter {
    std::deque<Matmul> queue;
    bool busy = false;
    Matmul now{};
    double begin = 0, end = 0;
  };

  bool ended(std::size_t w) const { return warps_[w].at >= block_.warps[w].size(); }

  // Whether any warp could do anything now.
  bool let_warps_go_on() {
    bool any = false;
    for (std::size_t w = 0; w < warps_.size(); ++w) {
      while (!ended(w) && step(w)) any = true;
    }
    return any;
  }

  void finish(std::size_t w, Span::Kind kind) {
    Warp& warp = warps_[w];
    if (now_ > warp.since) {
      timeline_.warps.push_back({kind, warp.since, now_, static_cast<int>(w), 0});
    }
    ++warp.at;
    warp.begun = false;
  }

  // Lets a warp do its present step; false when that must wait.
  bool step(std::size_t w) {
    Warp& warp = warps_[w];
    const Step& step = block_.warps[w][warp.at];
    const bool first = !warp.begun;
    if (first) {
      warp.begun = true;
      warp.since = now_;
    }
    switch (step.kind) {
      case Kind::kWork:
        if (first) {
          warp.work =
              static_cast<double>(step.exponentials * (costs_.exponential + costs_.rest_of_score) +
                                  step.exchanges * costs_.exchange);
        }
        if (warp.work > 0) return false;
        finish(w, Span::Kind::kWork);
        return true;
      case Kind::kInit: {
        Mbarrier& barrier = mbarriers_[step.barrier];
        barrier = {};
        barrier.arrivals = barrier.missing = step.count;
        break;
      }
      case Kind::kArrive: {
        Mbarrier& barrier = mbarriers_[step.barrier];
        --barrier.missing;
        barrier.bytes += step.bytes;
        end_phase(barrier);
        break;
      }
      case Kind::kWait: {
        const Mbarrier& barrier = mbarriers_[step.barrier];
        if (barrier.phases < step.count) return false;
        finish(w, barrier.copies ? Span::Kind::kWaitsForCopy : Span::Kind::kWaitsForOthers);
        return true;
      }
      case Kind::kLoad: {
        mbarriers_[step.barrier].copies = true;
        const double begin = std::max(in_free_, now_);
        in_free_ = begin + time_of(step);
        const double landed = in_free_ + costs_.copy_latency;
        landings_.push_back({landed, step.barrier, step.bytes});
        timeline_.copies.push_back(
            {Span::Kind::kLoad, begin, landed, static_cast<int>(w), step.tensor});
        break;
      }
      case Kind::kStore: {
        const double begin = std::max(out_free_, now_);
        warp.stores_open = out_free_ = begin + time_of(step);
        timeline_.copies.push_back({step.adds ? Span::Kind::kBulkAdd : Span::Kind::kStore, begin,
                                    out_free_, static_cast<int>(w), step.tensor});
        break;
      }
      case Kind::kAdd:
      case Kind::kWrite:
        if (first) {
          warp.answer = out_free_ = std::max(out_free_, now_) + time_of(step);
        }
        if (warp.answer > now_) return false;
        finish(w, step.kind == Kind::kAdd ? Span::Kind::kAdds : Span::Kind::kWrites);
        return true;
      case Kind::kLook:
        if (first) warp.answer = now_ + costs_.copy_latency;
        if (warp.answer > now_) return false;
        finish(w, Span::Kind::kWaitsForOthers);
        return true;
      case Kind::kCommitStores:
        warp.stores.push_back(warp.stores_open);
        break;
      case Kind::kWaitStores:
      case Kind::kWaitArrivals:
        if (store_wait(warp, step) > now_) return false;
        finish(w, Span::Kind::kWaitsForStores);
        return true;
      case Kind::kMeet: {
        if (first) {
          ++meeting_.arrived;
          warp.meeting = meeting_.generation;
        }
        int alive = 0;
        for (std::size_t other = 0; other < warps_.size(); ++other) {
          alive += ended(other) ? 0 : 1;
        }
        if (warp.meeting == meeting_.generation) {
          if (meeting_.arrived < alive) return false;
          meeting_ = {0, meeting_.generation + 1};
        }
        finish(w, Span::Kind::kWaitsForOthers);
        return true;
      }
      case Kind::kNamedArrive:
      case Kind::kNamedWait: {
        Named& barrier = named_[step.barrier];
        if (first) {
          warp.meeting = barrier.generation;
          barrier.arrived += kWarpSize;
          if (barrier.arrived >= step.count) {
            barrier = {0, barrier.generation + 1};
          }
        }
        if (step.kind == Kind::kNamedWait && warp.meeting == barrier.generation) {
          return false;
        }
        finish(w, Span::Kind::kWaitsForOthers);
        return true;
      }
      case Kind::kWgmma: {
        if (warp.waiting >= costs_.waiting_matmuls) return false;
        const auto group = static_cast<std::size_t>(warp.groups);
        warp.left.resize(group + 1);
        ++warp.left[group];
        ++warp.waiting;
        quarters_[w % kSubPartitions].queue.push_back({w, &step, group});
        begin_matmul(quarters_[w % kSubPartitions]);
        finish(w, Span::Kind::kWaitsForMatmuls);
        return true;
      }
      case Kind::kCommit:
        ++warp.groups;
        warp.left.resize(static_cast<std::size_t>(warp.groups));
        break;
      case Kind::kWaitWgmma:
        for (int group = 0; group + step.count < warp.groups; ++group) {
          if (warp.left[static_cast<std::size_t>(group)] > 0) return false;
        }
        finish(w, Span::Kind::kWaitsForMatmuls);
        return true;
    }
    finish(w, Span::Kind::kWork);  // that took no time
    return true;
  }

  // That no other copy can use while this goes through.
  double time_of(const Step& step) const {
    return static_cast<double>(step.bytes) / costs_.copied_bytes;
  }

  double store_wait(const Warp& warp, const Step& step) const {
    const auto closed = static_cast<int>(warp.stores.size());
    if (closed <= step.count) return 0;
    const double read = warp.stores[static_cast<std::size_t>(closed - step.count - 1)];
    return step.kind == Kind::kWaitArrivals ? read + costs_.copy_latency : read;
  }

  static void end_phase(Mbarrier& barrier) {
    if (barrier.missing > 0 || barrier.bytes > 0) return;
    ++barrier.phases;
    barrier.missing = barrier.arrivals;
  }

  void begin_matmul(Quarter& quarter) {
    if (quarter.busy || quarter.queue.empty()) return;
    quarter.now = quarter.queue.front();
    quarter.queue.pop_front();
    quarter.busy = true;
    --warps_[quarter.now.warp].waiting;
    quarter.begin = now_;
    // A warp's 16 rows, 16 deep, on a quarter of the units.
    quarter.end = now_ + 64.0 * quarter.now.step->columns * 16 * 2 / costs_.flops;
  }

  void end_matmul(Quarter& quarter) {
    if (!quarter.busy || quarter.end > now_) return;
    const Matmul& matmul = quarter.now;
    --warps_[matmul.warp].left[matmul.group];
    if (&quarter == quarters_.data()) {
      timeline_.matmuls.push_back({matmul.step->from_registers ? Span::Kind::kOutput
                                   : matmul.step->by_columns   ? Span::Kind::kByColumns
                                                               : Span::Kind::kScores,
                                   quarter.begin, quarter.end, static_cast<int>(matmul.warp), 0});
      timeline_.tensor_busy += quarter.end - quarter.begin;
    }
    quarter.busy = false;
    begin_matmul(quarter);
  }

  // How many warps of a quarter compute.
  int computing(std::size_t quarter) const {
    int count = 0;
    for (std::size_t w = quarter; w < warps_.size(); w += kSubPartitions) {
      count += warps_[w].work > 0 ? 1 : 0;
    }
    return count;
  }

  double next_event() const {
    double next = kNever;
    for (std::size_t w = 0; w < warps_.size(); ++w) {
      const Warp& warp = warps_[w];
      if (warp.work > 0) {
        next = std::min(next, now_ + warp.work * computing(w % kSubPartitions));
      }
      if (ended(w)) continue;
      const Step& step = block_.warps[w][warp.at];
      if (step.kind == Kind::kWaitStores || step.kind == Kind::kWaitArrivals) {
        next = std::min(next, store_wait(warp, step));
      }
      if (step.kind == Kind::kAdd || step.kind == Kind::kWrite || step.kind == Kind::kLook) {
        next = std::min(next, warp.answer);
      }
    }
    for (const Quarter& quarter : quarters_) {
      if (quarter.busy) next = std::min(next, quarter.end);
    }
    for (const Landing& landing : landings_) {
      next = std::min(next, landing.time);
    }
    return next;
  }

  void advance(double to) {
    constexpr double none = 1e-6;  // cycles, what rounding leaves
    std::array<int, kSubPartitions> sharing{};
    for (std::size_t q = 0; q < kSubPartitions; ++q) sharing[q] = computing(q);
    for (std::size_t w = 0; w < warps_.size(); ++w) {
      double& work = warps_[w].work;
      if (work <= 0) continue;
      work -= (to - now_) / sharing[w % kSubPartitions];
      if (work < none) work = 0;
    }
    now_ = to;
    for (Quarter& quarter : quarters_) end_matmul(quarter);
    for (const Landing& landing : landings_) {
      if (landing.time > now_) continue;
      Mbarrier& barrier = mbarriers_[landing.barrier];
      barrier.bytes -= landing.bytes;
      end_phase(barrier);
    }
    landings_.erase(std::remove_if(landings_.begin(), landings_.end(),
                                   [&](const Landing& landing) { return landing.time <= now_; }),
                    landings_.end());
  }

  const BlockRecord& block_;
  const Costs& costs_;
  Timeline& timeline_;
  std::vector<Warp> warps_;
  std::array<Quarter, kSubPartitions> quarters_;
  std::map<int, Mbarrier> mbarriers_;
  std::map<int, Named> named_;
  Named meeting_;
  std::vector<Landing> landings_;
  double in_free_ = 0, out_free_ = 0;
  double now_;
};

}  // namespace

Timeline replay(const std::vector<BlockRecord>& blocks, const Costs& costs) {
  Timeline timeline;
  for (const BlockRecord& block : blocks) {
    if (&block != blocks.data()) timeline.cycles += costs.next_block;
    Player(block, costs, timeline).play();
  }
  return timeline;
}

Timeline replayed(const std::function<void()>& work, const Costs& costs) {
  std::vector<BlockRecord> blocks = record(work);
  const auto idle = [](const BlockRecord& block) {
    return std::none_of(block.warps.begin(), block.warps.end(), [](const auto& steps) {
      return std::any_of(steps.begin(), steps.end(),
                         [](const Step& step) { return step.kind == Step::Kind::kWgmma; });
    });
  };
  blocks.erase(std::remove_if(blocks.begin(), blocks.end(), idle), blocks.end());
  return replay(blocks, costs);
}

}  // namespace fa::lab
