#include "common/lab/measured.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

namespace fa::lab {
namespace {

using Kind = Span::Kind;

// Cycles without a stamp, behind the last matmul or copy of a warp, after which the next kernel has
// begun. Kernels are some 2000 cycles apart.
constexpr double kKernelGap = 1500;

const char kFirstWord[] = "stamps";

// Quarters of an SM. Each has a tensor core and runs every fourth warp.
constexpr int kSubPartitions = 4;

bool waits(StampKind kind) {
  return kind >= StampKind::kWaitBarrier && kind <= StampKind::kWaitCounter;
}

// A stamp at a time since the first block began.
struct Event {
  double at;
  Stamp stamp;
};

// A matmul that has been issued.
struct Group {
  Kind kind;
  double begin;
};

// What a warp did in one block.
class MeasuredWarp {
 public:
  MeasuredWarp(int warp, Timeline& timeline, const std::set<std::uint32_t>& of_copies)
      : warp_(warp), timeline_(timeline), of_copies_(of_copies) {}

  void add(const Event& event) {
    const double at = event.at;
    const Stamp& stamp = event.stamp;
    switch (stamp.kind()) {
      case StampKind::kIssueScores:
      case StampKind::kIssueByColumns:
      case StampKind::kIssueOutput:
        work_until(at);
        if (issued_.begin >= 0) break;  // a part of the same group
        issued_ = {stamp.kind() == StampKind::kIssueScores      ? Kind::kScores
                   : stamp.kind() == StampKind::kIssueByColumns ? Kind::kByColumns
                                                                : Kind::kOutput,
                   at};
        break;
      case StampKind::kCommit:
        if (issued_.begin < 0) issued_ = {Kind::kOutput, last_};
        groups_.push_back(issued_);
        issued_.begin = -1;
        break;
      case StampKind::kLoad:
      case StampKind::kLoadBytes:
      case StampKind::kStore:
      case StampKind::kStoreFloats:
        work_until(at);
        break;
      case StampKind::kEnd:
        end_wait(at);
        break;
      default:
        if (waits(stamp.kind())) {
          work_until(at);
          waiting_ = stamp;
        }
    }
    last_ = at;
  }

 private:
  // The time since the last event is work, unless it is the warp's first.
  void work_until(double at) {
    if (last_ >= 0 && at > last_ && issued_.begin < 0) span(Kind::kWork, at);
  }
  void span(Kind kind, double end) { timeline_.warps.push_back({kind, last_, end, warp_, 0}); }
  void end_wait(double at) {
    if (!waits(waiting_.kind())) return;  // its begin is missing
    switch (waiting_.kind()) {
      case StampKind::kWaitBarrier:
        span(of_copies_.count(waiting_.barrier()) > 0 ? Kind::kWaitsForCopy : Kind::kWaitsForOthers,
             at);
        break;
      case StampKind::kWaitMatmuls:
        span(Kind::kWaitsForMatmuls, at);
        end_matmuls(static_cast<int>(waiting_.detail()), at);
        break;
      case StampKind::kWaitStores:
        span(Kind::kWaitsForStores, at);
        break;
      default:
        span(Kind::kWaitsForOthers, at);
    }
    waiting_ = {};
  }
  // Ends all groups but the youngest. They are computed one after the other.
  void end_matmuls(int left, double at) {
    while (static_cast<int>(groups_.size()) > left) {
      const Group& group = groups_.front();
      const double begin = std::max(group.begin, ended_);
      if (warp_ % kSubPartitions == 0)
        timeline_.matmuls.push_back({group.kind, begin, at, warp_, 0});
      ended_ = at;
      groups_.erase(groups_.begin());
    }
  }

  int warp_;
  Timeline& timeline_;
  const std::set<std::uint32_t>& of_copies_;  // barriers that copies report to
  double last_ = -1, ended_ = 0;
  Stamp waiting_;
  Group issued_{Kind::kScores, -1};
  std::vector<Group> groups_;
};

// Events by time, the clock's wrap undone.
std::vector<Event> in_order(const std::vector<Stamp>& stamps) {
  std::vector<Event> events;
  std::uint32_t low = std::numeric_limits<std::uint32_t>::max(), high = 0;
  for (const Stamp& stamp : stamps) {
    low = std::min(low, stamp.clock);
    high = std::max(high, stamp.clock);
  }
  const bool wraps = !stamps.empty() && high - low > 1u << 31;
  for (const Stamp& stamp : stamps) {
    const double turn = wraps && stamp.clock < 1u << 31 ? 4294967296.0 : 0;
    events.push_back({stamp.clock + turn, stamp});
  }
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.at < b.at; });
  return events;
}

// The blocks that multiply: the events from one kBlock to the next.
std::vector<std::vector<Event>> blocks_of(const std::vector<Event>& events) {
  std::vector<std::vector<Event>> blocks;
  for (const Event& event : events) {
    if (event.stamp.kind() == StampKind::kBlock) blocks.emplace_back();
    if (!blocks.empty()) blocks.back().push_back(event);
  }
  blocks.erase(std::remove_if(blocks.begin(), blocks.end(),
                              [](const std::vector<Event>& block) {
                                return std::none_of(
                                    block.begin(), block.end(), [](const Event& event) {
                                      return event.stamp.kind() == StampKind::kCommit;
                                    });
                              }),
               blocks.end());
  return blocks;
}

// Leaves the events of a kernel that follows away: see kKernelGap.
std::vector<Event> of_this_kernel(const std::vector<Event>& block) {
  std::map<int, std::vector<Event>> warps;
  for (const Event& event : block) warps[event.stamp.warp].push_back(event);
  std::vector<Event> result;
  for (const auto& [warp, events] : warps) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const StampKind kind = events[i].stamp.kind();
      if (kind == StampKind::kCommit || kind == StampKind::kLoad) last = i;
    }
    std::size_t end = last + 1;
    while (end < events.size() && (waits(events[end - 1].stamp.kind()) ||
                                   events[end].at - events[end - 1].at < kKernelGap)) {
      ++end;
    }
    result.insert(result.end(), events.begin(), events.begin() + static_cast<std::ptrdiff_t>(end));
  }
  std::sort(result.begin(), result.end(),
            [](const Event& a, const Event& b) { return a.at < b.at; });
  return result;
}

// The copies of a block. Those whose end no wait shows end with the block.
std::vector<Span> copies_of(const std::vector<Event>& block,
                            std::map<std::uint32_t, int>& tensors) {
  std::vector<Span> copies;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const Stamp& stamp = block[i].stamp;
    const StampKind kind = stamp.kind();
    const bool loads = kind == StampKind::kLoad || kind == StampKind::kLoadBytes;
    if (!loads && kind != StampKind::kStore && kind != StampKind::kStoreFloats) continue;
    int tensor = -1;
    if (kind == StampKind::kLoad || kind == StampKind::kStore) {
      tensor = tensors.try_emplace(stamp.tensor(), static_cast<int>(tensors.size())).first->second;
    }
    // The end of the first wait that ends behind the copy: at its barrier, by any warp; or for
    // stores, by this one.
    std::map<int, Stamp> waiting;
    double end = block.back().at;
    for (std::size_t j = 0; j < block.size(); ++j) {
      const Stamp& other = block[j].stamp;
      if (waits(other.kind())) waiting[other.warp] = other;
      if (other.kind() != StampKind::kEnd || j < i) continue;
      const Stamp& what = waiting[other.warp];
      const bool ends =
          loads ? what.kind() == StampKind::kWaitBarrier && what.barrier() == stamp.barrier()
                : what.kind() == StampKind::kWaitStores && other.warp == stamp.warp;
      if (ends) {
        end = block[j].at;
        break;
      }
    }
    copies.push_back({loads                             ? Kind::kLoad
                      : kind == StampKind::kStoreFloats ? Kind::kBulkAdd
                                                        : Kind::kStore,
                      block[i].at, end, stamp.warp, tensor});
  }
  return copies;
}

}  // namespace

const StampedRun* StampedRuns::find(const std::string& kernel) const {
  for (const StampedRun& run : runs) {
    if (run.kernel == kernel) return &run;
  }
  return nullptr;
}

std::string stamps_text(const StampedRuns& runs) {
  std::string text = fmt::format("{}\t{}\n", kFirstWord, runs.source);
  for (const StampedRun& run : runs.runs) {
    text += fmt::format("{}\t{:.6f}\t{:.6f}\t{}\n", run.kernel, run.milliseconds,
                        run.stamped_milliseconds, run.stamps.size());
    for (const Stamp& stamp : run.stamps) {
      text += fmt::format("{}\t{}\t{}\n", stamp.warp, stamp.clock, stamp.what);
    }
  }
  return text;
}

StampedRuns read_stamps(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file.string() + " cannot be read");
  StampedRuns result;
  std::string line, word;
  if (!std::getline(in, line) || line.rfind(std::string(kFirstWord) + "\t", 0) != 0) {
    throw std::runtime_error(file.string() + " is not a file of stamps");
  }
  result.source = line.substr(sizeof kFirstWord);
  while (std::getline(in, line)) {
    std::istringstream words(line);
    StampedRun run;
    std::size_t count = 0;
    words >> run.kernel >> run.milliseconds >> run.stamped_milliseconds >> count;
    for (std::size_t i = 0; words && i < count; ++i) {
      Stamp stamp;
      if (!(in >> stamp.warp >> stamp.clock >> stamp.what)) words.setstate(std::ios::failbit);
      run.stamps.push_back(stamp);
    }
    if (!words) throw std::runtime_error(file.string() + " is not a whole file of stamps");
    std::getline(in, line);  // the rest of the last line
    result.runs.push_back(std::move(run));
  }
  return result;
}

Timeline timeline_of_stamps(std::vector<Stamp> stamps) {
  Timeline timeline;
  std::map<std::uint32_t, int> tensors;
  double origin = -1;
  for (const std::vector<Event>& whole : blocks_of(in_order(stamps))) {
    std::vector<Event> block = of_this_kernel(whole);
    if (origin < 0) origin = block.front().at;
    for (Event& event : block) event.at -= origin;
    timeline.blocks.push_back(block.front().at);
    const std::vector<Span> copies = copies_of(block, tensors);
    timeline.copies.insert(timeline.copies.end(), copies.begin(), copies.end());
    std::set<std::uint32_t> of_copies;
    for (const Event& event : block) {
      if (event.stamp.kind() == StampKind::kLoad || event.stamp.kind() == StampKind::kLoadBytes) {
        of_copies.insert(event.stamp.barrier());
      }
    }
    std::map<int, MeasuredWarp> warps;
    for (const Event& event : block) {
      const int warp = event.stamp.warp;
      warps.try_emplace(warp, warp, timeline, of_copies).first->second.add(event);
    }
    timeline.cycles = block.back().at;
  }
  std::stable_sort(timeline.matmuls.begin(), timeline.matmuls.end(),
                   [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return timeline;
}

}  // namespace fa::lab
