#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "common/lab/record.hpp"

namespace fa::lab {
namespace {

using StepKind = Step::Kind;
using Steps = std::vector<Step>;
using Lines = std::vector<std::string>;
using Names = std::map<int, std::string>;  // of mbarriers

// "1 shuffle", "2 shuffles".
std::string plural(std::int64_t count, const std::string& one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string entry(const char* verb, const std::string& words) {
  return fmt::format("{:<9}{}", verb, words);
}

std::string tensor_name(int tensor, const std::vector<std::string>& tensors) {
  const auto index = static_cast<std::size_t>(tensor);
  if (tensor < 0) return "floats";
  return index < tensors.size() ? tensors[index] : fmt::format("tensor {}", index);
}

// Whether two steps differ in their bytes only.
bool alike(const Step& a, const Step& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == StepKind::kInit) return true;
  return a.barrier == b.barrier && a.tensor == b.tensor && a.adds == b.adds &&
         a.columns == b.columns && a.from_registers == b.from_registers &&
         a.by_columns == b.by_columns;
}

// See operations_text().
Names names_of(const BlockRecord& block, const std::vector<std::string>& tensors) {
  // How often copies of each tensor report to each barrier; panels of a tile count once. A tile
  // that comes once, with the first tiles of a ring, does not name the ring's stage.
  std::map<int, std::map<int, int>> loads;
  for (const Steps& steps : block.warps) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind != StepKind::kLoad || (i > 0 && alike(steps[i - 1], steps[i]))) continue;
      ++loads[steps[i].barrier][steps[i].tensor];
    }
  }
  Names names;
  for (auto& [barrier, tensors_there] : loads) {
    if (tensors_there.size() > 1) tensors_there.erase(-1);  // floats come with a tile
    int most = 0;
    for (const auto& [tensor, count] : tensors_there) most = std::max(most, count);
    for (const auto& [tensor, count] : tensors_there) {
      if (count < most) continue;
      std::string& name = names[barrier];
      name += (name.empty() ? "" : ", ") + tensor_name(tensor, tensors);
    }
  }
  for (const Steps& steps : block.warps) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind != StepKind::kWait || names.count(steps[i].barrier) > 0) continue;
      std::size_t next = i + 1;
      while (next < steps.size() && steps[next].kind == StepKind::kArrive) ++next;
      if (next == steps.size()) continue;
      const Step& then = steps[next];
      if (then.kind == StepKind::kLoad) names[steps[i].barrier] = "room for " + names[then.barrier];
      if (then.kind == StepKind::kStore && then.adds) names[steps[i].barrier] = "floats to add";
    }
  }
  return names;
}

// The lines of one warp, before those that repeat are folded.
class Writer {
 public:
  Writer(const Names& names, const std::vector<std::string>& tensors)
      : names_(names), tensors_(tensors) {}

  Lines lines_of(const Steps& steps) {
    lines_.clear();
    for (std::size_t i = 0; i < steps.size(); i += add(steps, i)) {
    }
    return lines_;
  }

 private:
  // Adds the line of a step and of those that belong to it; gives their number.
  std::size_t add(const Steps& steps, std::size_t i) {
    const Step& step = steps[i];
    switch (step.kind) {
      case StepKind::kInit:
      case StepKind::kLoad:
      case StepKind::kStore:
      case StepKind::kWgmma:
        return add_run(steps, i);
      case StepKind::kWork:
        lines_.push_back(entry("compute", work(step)));
        break;
      case StepKind::kArrive:
        lines_.push_back(step.bytes > 0
                             ? entry("expect", fmt::format("{} bytes: {}", step.bytes, name(step)))
                             : entry("arrive", name(step)));
        break;
      case StepKind::kWait:
        lines_.push_back(entry("wait", name(step)));
        break;
      case StepKind::kAdd:
        lines_.push_back(entry("add", fmt::format("{} bytes by atomics", step.bytes)));
        break;
      case StepKind::kWrite:
        lines_.push_back(entry("write", fmt::format("{} bytes", step.bytes)));
        break;
      case StepKind::kLook:
        lines_.push_back(entry("poll", "a flag in global memory"));
        break;
      case StepKind::kCommitStores:
        commit("stores", {"store", "add"});
        break;
      case StepKind::kCommit:
        commit("wgmma", {"wgmma"});
        break;
      case StepKind::kWaitStores:
        lines_.push_back(entry("wait", "stores have been read, " + groups(step)));
        break;
      case StepKind::kWaitArrivals:
        lines_.push_back(entry("wait", "stores have arrived, " + groups(step)));
        break;
      case StepKind::kWaitWgmma:
        lines_.push_back(entry("wait", "wgmma, " + groups(step)));
        break;
      case StepKind::kMeet:
        lines_.push_back(entry("wait", "__syncthreads()"));
        break;
      case StepKind::kNamedArrive:
        lines_.push_back(entry("arrive", fmt::format("named barrier {}", step.barrier)));
        break;
      case StepKind::kNamedWait:
        lines_.push_back(entry("wait", fmt::format("named barrier {}", step.barrier)));
        break;
    }
    return 1;
  }

  // Adds one line for steps that differ in their bytes only.
  std::size_t add_run(const Steps& steps, std::size_t i) {
    const Step& first = steps[i];
    std::size_t count = 0;
    std::int64_t bytes = 0;
    while (i + count < steps.size() && alike(first, steps[i + count])) {
      bytes += steps[i + count++].bytes;
    }
    const std::string sized =
        fmt::format("{} bytes of {}", bytes, tensor_name(first.tensor, tensors_));
    if (first.kind == StepKind::kInit) {
      lines_.push_back(entry("init", plural(static_cast<std::int64_t>(count), "mbarrier")));
    } else if (first.kind == StepKind::kLoad) {
      lines_.push_back(entry("load", sized));
    } else if (first.kind == StepKind::kStore) {
      lines_.push_back(first.adds ? entry("add", fmt::format("{} bytes of floats by a copy", bytes))
                                  : entry("store", sized));
    } else {
      lines_.push_back(entry("wgmma", fmt::format("{} x (64 x {} x 16){}{}", count, first.columns,
                                                  first.from_registers ? ", A in registers" : "",
                                                  first.by_columns ? ", B by columns" : "")));
    }
    return count;
  }
  // The line before says that its group is closed, or a line of its own does.
  void commit(const char* what, const std::vector<std::string>& verbs) {
    const bool closes =
        !lines_.empty() && std::any_of(verbs.begin(), verbs.end(), [&](const std::string& verb) {
          return lines_.back().rfind(verb, 0) == 0;
        });
    if (closes) {
      lines_.back() += "; commit";
    } else {
      lines_.push_back(entry("commit", what));
    }
  }

  std::string name(const Step& step) const {
    const auto found = names_.find(step.barrier);
    return found != names_.end() ? found->second : fmt::format("mbarrier {}", step.barrier);
  }
  static std::string work(const Step& step) {
    std::string words;
    if (step.exponentials > 0) words = plural(step.exponentials, "exponential");
    if (step.exponentials > 0 && step.exchanges > 0) words += ", ";
    if (step.exchanges == 1) words += "1 shuffle or vote";
    if (step.exchanges > 1) words += fmt::format("{} shuffles or votes", step.exchanges);
    return words;
  }
  static std::string groups(const Step& step) {
    return step.count == 0 ? "all groups" : "all but " + plural(step.count, "group");
  }

  const Names& names_;
  const std::vector<std::string>& tensors_;
  Lines lines_;
};

// How often lines[begin, begin + period) stands there in a row.
std::size_t repeats(const Lines& lines, std::size_t begin, std::size_t period) {
  std::size_t same = 0;
  while (begin + period + same < lines.size() &&
         lines[begin + same] == lines[begin + period + same]) {
    ++same;
  }
  return 1 + same / period;
}

// Writes lines; those that repeat once, with their number. Of all repetitions that begin at a line
// the longest counts, of equally long ones that with the shortest period.
void fold(const Lines& lines, const std::string& indent, std::string& text) {
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t period = 1, times = repeats(lines, i, 1);
    for (std::size_t p = 2; i + 2 * p <= lines.size(); ++p) {
      const std::size_t count = repeats(lines, i, p);
      if (count > 1 && count * p > (times > 1 ? times * period : 0)) {
        period = p;
        times = count;
      }
    }
    if (times == 1) {
      text += indent + lines[i++] + "\n";
      continue;
    }
    text += fmt::format("{}{} times\n", indent, times);
    const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(i);
    fold({begin, begin + static_cast<std::ptrdiff_t>(period)}, indent + "  ", text);
    i += period * times;
  }
}

// "1", "1 and 2", "1 to 3, 5".
std::string ranges(const std::vector<std::size_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format(last == i + 1 ? ", {}" : " to {}", numbers[last]);
    i = last + 1;
  }
  return text;
}

// What a warp is for.
const char* role_of(const Steps& steps) {
  const auto has = [&](auto chosen) { return std::any_of(steps.begin(), steps.end(), chosen); };
  if (has([](const Step& step) { return step.kind == StepKind::kWgmma; })) return " (consumer)";
  if (has([](const Step& step) { return step.kind == StepKind::kLoad; })) return " (producer)";
  if (has([](const Step& step) { return step.kind == StepKind::kStore; })) return " (adder)";
  return "";
}

// Whether one warp does what another one does, apart from some lines, and these.
bool is_part(const Lines& part, const Lines& whole, Lines& missing) {
  std::size_t found = 0;
  for (const std::string& one : whole) {
    if (found < part.size() && part[found] == one) {
      ++found;
    } else {
      missing.push_back(one);
    }
  }
  return found > 0 && found == part.size();
}

std::string text_of(const BlockRecord& block, const std::vector<std::string>& tensors) {
  constexpr std::size_t warpgroup = 4;
  const Names names = names_of(block, tensors);
  Writer writer(names, tensors);
  std::vector<std::pair<std::string, std::vector<std::size_t>>> bodies;  // and their warps
  Lines first;  // of the warpgroup's first warp
  for (std::size_t warp = 0; warp < block.warps.size(); ++warp) {
    const Lines lines = writer.lines_of(block.warps[warp]);
    if (warp % warpgroup == 0) first = lines;
    std::string body;
    Lines missing;
    if (is_part(lines, first, missing) && !missing.empty() && missing.size() < lines.size()) {
      body = fmt::format("  as warp {}, without\n", warp - warp % warpgroup);
      fold(missing, "    ", body);
    } else {
      fold(lines, "  ", body);
    }
    if (body.empty()) body = "  nothing that is recorded\n";
    const auto known = std::find_if(bodies.begin(), bodies.end(),
                                    [&](const auto& one) { return one.first == body; });
    if (known == bodies.end()) {
      bodies.push_back({body, {warp}});
    } else {
      known->second.push_back(warp);
    }
  }
  std::string text;
  for (const auto& [body, warps] : bodies) {
    text += fmt::format("warp{} {}{}\n{}", warps.size() > 1 ? "s" : "", ranges(warps),
                        role_of(block.warps[warps.front()]), body);
  }
  return text;
}

}  // namespace

std::vector<BlockRecord> record_matmuls(const std::function<void()>& work) {
  std::vector<BlockRecord> blocks = record(work);
  const auto idle = [](const BlockRecord& block) {
    return std::none_of(block.warps.begin(), block.warps.end(), [](const auto& steps) {
      return std::any_of(steps.begin(), steps.end(),
                         [](const Step& step) { return step.kind == StepKind::kWgmma; });
    });
  };
  blocks.erase(std::remove_if(blocks.begin(), blocks.end(), idle), blocks.end());
  return blocks;
}

double peak_cycles(const std::vector<BlockRecord>& blocks) {
  // A warp of a warpgroup computes 16 of the 64 rows of a wgmma.
  constexpr double flops_of_sm = 4096, rows = 16, depth = 16;
  double flops = 0;
  for (const BlockRecord& block : blocks) {
    for (const auto& steps : block.warps) {
      for (const Step& step : steps) {
        if (step.kind == StepKind::kWgmma) flops += 2 * rows * step.columns * depth;
      }
    }
  }
  return flops / flops_of_sm;
}

std::string operations_text(const std::vector<BlockRecord>& blocks,
                            const std::vector<std::string>& tensors) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> bodies;  // and their blocks
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string body = text_of(blocks[i], tensors);
    if (bodies.empty() || bodies.back().first != body) bodies.push_back({body, {}});
    bodies.back().second.push_back(i + 1);
  }
  std::string text;
  for (const auto& [body, numbers] : bodies) {
    text += fmt::format("{}block{} {} of {}\n{}", text.empty() ? "" : "\n",
                        numbers.size() > 1 ? "s" : "", ranges(numbers), blocks.size(), body);
  }
  return text;
}

}  // namespace fa::lab
