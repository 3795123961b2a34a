#include "common/lab/traffic.hpp"

#include <algorithm>
#include <bitset>
#include <string>

#include "common/lab/watch.hpp"

namespace fa::lab {
namespace {

constexpr std::uint64_t kSectorBytes = 32;

int lanes_in(std::uint32_t mask) {
  return static_cast<int>(std::bitset<32>(mask).count());
}

std::int64_t sectors(const Request& request) {
  std::int64_t touched = 0;
  request.for_units(0, kWarpSize, kSectorBytes, [&](std::uint64_t) { ++touched; });
  return touched;
}

std::int64_t best_sectors(std::int64_t bytes) {
  constexpr auto sector = static_cast<std::int64_t>(kSectorBytes);
  return (bytes + sector - 1) / sector;
}

}  // namespace

// In requests, shared memory is as a GPU lays it out: static arrays, then dynamic memory.
void Traffic::block_begins(int threads, const std::byte* statics, std::size_t static_bytes,
                           const std::byte* dynamic) {
  threads_ = threads;
  statics_ = reinterpret_cast<std::uint64_t>(statics) / 128 * 128;
  dynamic_ = reinterpret_cast<std::uint64_t>(dynamic);
  dynamic_position_ = static_cast<std::uint64_t>(static_bytes) / 128 * 128 + 256;
  const auto warps = static_cast<std::size_t>((threads + kWarpSize - 1) / kWarpSize);
  warps_.resize(warps);
  for (OfWarp& warp : warps_) {
    if (!warp.pending.empty()) warp = {};  // of a block that was given up
  }
  alive_.assign(warps, 0xffffffffu);
  if (threads % kWarpSize != 0) {
    alive_.back() = (1u << (threads % kWarpSize)) - 1;
  }
}

void Traffic::thread_ends(const Thread& thread) {
  const auto warp = static_cast<std::size_t>(thread.place / kWarpSize);
  alive_[warp] &= ~(1u << thread.lane);
  if (alive_[warp] == 0) count(warp);
}

void Traffic::block_meets(std::size_t first, std::size_t warps) {
  for (std::size_t warp = first; warp < first + warps; ++warp) count(warp);
}

std::uint64_t Traffic::position(Memory memory, const std::byte* address) {
  const auto absolute = reinterpret_cast<std::uint64_t>(address);
  if (memory == Memory::kDynamicShared) {
    return dynamic_position_ + absolute - dynamic_;
  }
  if (memory == Memory::kGlobal) return absolute;
  const std::uint64_t result = absolute - statics_;
  lowest_static_ = std::min(lowest_static_, result / 4 * 4);
  return result;
}

// The same with bytes counted from the first that was touched. It moves all lanes by whole words.
Request Traffic::from_first_byte(Request request) const {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (!request.has(lane)) continue;
    std::uint64_t& address = request.address[static_cast<std::size_t>(lane)];
    address -= address < dynamic_position_ ? lowest_static_ : dynamic_position_;
  }
  return request;
}

void Traffic::access(Memory memory, const std::byte* address, std::size_t size, bool write,
                     bool atomic, std::uint32_t site) {
  const auto warp = static_cast<std::size_t>(current->place / kWarpSize);
  const auto lane = static_cast<std::size_t>(current->lane);
  // One line may read and write; its two instructions are kept apart.
  OfWarp& of_warp = warps_[warp];
  const std::size_t key = 2 * std::size_t{site} + (write ? 1 : 0);
  if (key >= of_warp.places.size()) of_warp.places.resize(key + 1);
  std::uint32_t& place = of_warp.places[key];
  if (place == 0) {
    of_warp.sites.emplace_back();
    place = static_cast<std::uint32_t>(of_warp.sites.size());
  }
  OfSite& traffic = of_warp.sites[place - 1];
  if (traffic.requests.empty()) of_warp.pending.push_back(place - 1);
  traffic.site = site;
  traffic.shared = memory != Memory::kGlobal;
  traffic.write = write;
  traffic.atomic = atomic;
  const std::size_t execution = traffic.executions[lane]++;
  if (traffic.requests.size() <= execution) {
    traffic.requests.resize(execution + 1);
  }
  Request& request = traffic.requests[execution];
  request.address[lane] = position(memory, address);
  request.lanes |= 1u << lane;
  request.size = static_cast<std::uint32_t>(size);
}

void Traffic::count(std::size_t warp) {
  for (const std::size_t place : warps_[warp].pending) {
    OfSite& traffic = warps_[warp].sites[place];
    Counted& c = counted_[{traffic.site, traffic.shared, traffic.write}];
    const int existing = std::min(kWarpSize, threads_ - static_cast<int>(warp) * kWarpSize);
    for (const Request& request : traffic.requests) {
      const std::int64_t bytes = request.bytes();
      ++c.requests;
      c.diverged += lanes_in(request.lanes) < existing;
      c.atomics += traffic.atomic;
      c.bytes += bytes;
      if (traffic.shared) {
        const std::int64_t rounds = wavefronts(request);
        const std::int64_t ideal = best_wavefronts(request);
        c.wavefronts += rounds;
        c.ideal += ideal;
        // Of requests that are as bad, the one at the lowest addresses is the easiest to read.
        if (conflicts_more(rounds, ideal, c.worst_wavefronts, best_wavefronts(c.worst)) ||
            (rounds == c.worst_wavefronts && request.lanes == c.worst.lanes &&
             request.address < c.worst.address)) {
          c.worst = request;
          c.worst_wavefronts = rounds;
        }
      } else {
        c.sectors += sectors(request);
        c.ideal += best_sectors(bytes);
      }
    }
    traffic.executions.fill(0);
    traffic.requests.clear();
  }
  warps_[warp].pending.clear();
}

void Traffic::copy(const std::vector<const std::byte*>& rows, std::size_t size, bool write,
                   bool atomic, bool counted, std::uint32_t site) {
  Counted& c = counted_[{site, false, write}];
  for (const std::byte* address : rows) {
    Request row;
    row.address[0] = reinterpret_cast<std::uint64_t>(address);
    row.lanes = 1;
    row.size = static_cast<std::uint32_t>(size);
    const auto bytes = static_cast<std::int64_t>(size);
    c.bytes += bytes;
    c.sectors += sectors(row);
    c.ideal += best_sectors(bytes);
  }
  c.requests += counted;
  c.atomics += counted && atomic;
}

std::vector<LineTraffic> Traffic::report(const Sites& sites) const {
  std::map<std::tuple<std::string, bool, bool>, LineTraffic> by_line;
  for (const auto& [key, counted] : counted_) {
    const auto& [site, shared, write] = key;
    const std::string at = sites.line(site);
    LineTraffic& line = by_line[{at, shared, write}];
    line.where = at;
    line.shared = shared;
    line.write = write;
    line.requests += counted.requests;
    line.diverged += counted.diverged;
    line.atomics += counted.atomics;
    line.bytes += counted.bytes;
    line.sectors += counted.sectors;
    line.wavefronts += counted.wavefronts;
    line.ideal += counted.ideal;
    if (shared && conflicts_more(counted.worst_wavefronts, best_wavefronts(counted.worst),
                                 wavefronts(line.worst), best_wavefronts(line.worst))) {
      line.worst = from_first_byte(counted.worst);
    }
  }
  std::vector<LineTraffic> result;
  for (const auto& entry : by_line) result.push_back(entry.second);
  return result;
}

}  // namespace fa::lab
