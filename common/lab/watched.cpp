#include "common/lab/watched.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "common/lab/watch.hpp"

namespace fa::lab {

void Findings::add(const std::string& kind, std::uint32_t site, std::uint32_t other,
                   const std::string& message, int distance,
                   const std::optional<std::vector<std::uintptr_t>>& stack) {
  if (count(kind, site, other, message, distance)) return;
  found_.push_back({kind, site, other, message, distance, 1, stack ? *stack : call_stack(),
                    order_.first_uses()});
}

void Findings::drop(const std::string& kind, std::uint32_t site) {
  const auto is = [&](const Found& found) { return found.kind == kind && found.site == site; };
  found_.erase(std::remove_if(found_.begin(), found_.end(), is), found_.end());
}

bool Findings::count(const std::string& kind, std::uint32_t site, std::uint32_t other,
                     const std::string& message, int distance) {
  for (Found& found : found_) {
    if (found.kind != kind || found.site != site || found.other != other) continue;
    ++found.count;
    if (distance > found.distance) {
      found.message = message;
      found.distance = distance;
      found.first_uses = order_.first_uses();
    }
    return true;
  }
  return false;
}

bool Findings::has(const std::string& kind, std::uint32_t site, std::uint32_t other) const {
  return std::any_of(found_.begin(), found_.end(), [&](const Found& found) {
    return found.kind == kind && found.site == site && found.other == other;
  });
}

bool Findings::has(const std::string& kind, std::uint32_t other) const {
  return std::any_of(found_.begin(), found_.end(), [&](const Found& found) {
    return found.kind == kind && found.other == other;
  });
}

std::vector<std::uintptr_t> Findings::codes() const {
  std::vector<std::uintptr_t> result;
  for (const Found& found : found_) {
    result.insert(result.end(), found.stack.begin(), found.stack.end());
  }
  return result;
}

std::string Findings::message_of(const Found& found, const Sites& sites) {
  const std::string at = sites.line(found.site), other = sites.line(found.other);
  std::string message = found.message;
  const std::size_t begin = message.find("@?");
  if (begin != std::string::npos) {
    std::uint32_t first = 0, first_other = 0;  // of all instructions of the two lines
    for (std::uint32_t site = 0; site < found.first_uses.size(); ++site) {
      if (found.first_uses[site] == 0) continue;
      const std::string line = sites.line(site);
      for (const auto& [of, use] : {std::pair{&at, &first}, {&other, &first_other}}) {
        if (line == *of && *use - 1 > found.first_uses[site] - 1) *use = found.first_uses[site];
      }
    }
    const std::size_t b = message.find("@|", begin), c = message.find("@|", b + 2);
    const std::size_t end = message.find("@.", c);
    const auto part = [&](std::size_t from, std::size_t to) {
      return message.substr(from + 2, to - from - 2);
    };
    message = message.substr(0, begin) + (first == first_other  ? part(begin, b)
                                          : first_other < first ? part(b, c)
                                                                : part(c, end));
  }
  for (const auto& [mark, line] :
       {std::pair{"@1", &at}, {"@2", &other}, {"the other line", &other}}) {
    if (line->empty()) continue;
    const std::size_t file = line->rfind(':') + 1;
    const bool same = file > 0 && at.compare(0, file, *line, 0, file) == 0;
    const std::string text = same ? "line " + line->substr(file) : *line;
    for (std::size_t i = 0; (i = message.find(mark, i)) != std::string::npos; i += text.size()) {
      message.replace(i, std::strlen(mark), text);
    }
  }
  return message;
}

std::vector<Finding> Findings::report(const Sites& sites, const SourceLines& lines) const {
  std::vector<Finding> findings;
  std::vector<int> distances;
  for (const Found& found : found_) {
    const std::string at = sites.line(found.site);
    const Finding finding{found.kind,
                          at,
                          caller_of(lines, found.stack, at),
                          sites.line(found.other),
                          message_of(found, sites),
                          found.count};
    const auto same = std::find_if(findings.begin(), findings.end(), [&](const Finding& other) {
      return other.kind == finding.kind &&
             ((other.where == finding.where && other.other == finding.other) ||
              (other.where == finding.other && other.other == finding.where));
    });
    if (same == findings.end()) {
      findings.push_back(finding);
      distances.push_back(found.distance);
      continue;
    }
    same->count += finding.count;
    int& distance = distances[static_cast<std::size_t>(same - findings.begin())];
    if (found.distance > distance) {
      const std::int64_t count = same->count;
      *same = finding;
      same->count = count;
      distance = found.distance;
    }
  }
  return findings;
}

void Watched::launch_begins(const Launch& next, std::uint64_t stream) {
  launch = next;
  cluster = static_cast<std::size_t>(launch.cluster);
  threads = static_cast<std::size_t>(launch.block.count()) * cluster;
  for (Order* each : {&order, &executed}) {
    each->launch_begins(launch.block.count(), launch.cluster, launch.with_pdl, stream);
  }
}

std::string Watched::name_of(std::uint32_t id) const {
  const std::uint32_t number = order.in_block(id);
  const bool of_some_block = cluster > 1 || order.of_other_block(id);
  const Size at = launch.block_at(order.block_of(id));
  const std::int64_t block = (std::int64_t{at.z} * launch.grid.y + at.y) * launch.grid.x + at.x;
  const Size& size = launch.block;
  std::string thread = std::to_string(number);
  if (size.y * size.z > 1) {
    const std::string z = size.z > 1 ? fmt::format(", {}", number / size.x / size.y) : "";
    thread = fmt::format("({}, {}{})", number % size.x, number / size.x % size.y, z);
  }
  return fmt::format("thread {} (warp {}, lane {}){}", thread, number / kWarpSize,
                     number % kWarpSize, of_some_block ? fmt::format(" of block {}", block) : "");
}

std::string Watched::name_of(const Access& before) const {
  if (!order.of_other_launch(before)) return name_of(before.thread);
  return fmt::format("thread {} of block {} of an earlier launch", Order::in_cluster(before.thread),
                     Order::cluster_of(before.thread));
}

const char* Watched::name_of(AsyncUse use) {
  switch (use) {
    case AsyncUse::kCopy:
      return "the copy";
    case AsyncUse::kStore:
      return "the bulk store";
    case AsyncUse::kPeerCopy:
      return "the copy to another block";
    case AsyncUse::kTensorMatmul:
      return "the tcgen05_mma()";
    default:
      return "the wgmma()";
  }
}

}  // namespace fa::lab
