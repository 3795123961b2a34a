#include <list>
#include <queue>
#include <unordered_map>

#include <fmt/format.h>

#include "05_flash_forward/src/sections.hpp"
#include "common/attention/tile_scheduler.cuh"
#include "common/cli/table.hpp"

namespace fa::flash {
namespace {

constexpr int kTile = 128;          // queries, and keys
constexpr int kHeadDim = 128;       // of 16-bit elements
constexpr int kTokens = 16384;      // batch * length
constexpr int kHeads = 16;          // of a sequence
constexpr double kTileStart = 0.6;  // the first load and the last store, in tiles of keys

DeviceProperties h100() {
  DeviceProperties gpu;
  gpu.name = "H100";
  gpu.sm_count = 132;
  gpu.l2_bytes = std::size_t{50} << 20;
  gpu.clock_hz = 1.98e9;
  gpu.memory_bandwidth = 3.35e12;
  return gpu;
}

// A cache that evicts the tile that was used longest ago.
class Cache {
 public:
  explicit Cache(std::size_t tiles) : tiles_(tiles) {}
  // Whether the tile was there; it is now.
  bool use(std::int64_t tile) {
    const auto [found, is_new] = places_.try_emplace(tile);
    if (!is_new) order_.erase(found->second);
    order_.push_front(tile);
    found->second = order_.begin();
    if (order_.size() > tiles_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    return !is_new;
  }

 private:
  std::size_t tiles_;
  std::list<std::int64_t> order_;
  std::unordered_map<std::int64_t, std::list<std::int64_t>::iterator> places_;
};

}  // namespace

Schedule simulate_schedule(const on_lab::TileScheduler& scheduler, int sms,
                           std::int64_t cache_bytes) {
  constexpr std::int64_t tile_bytes = std::int64_t{kTile} * kHeadDim * 2;
  const int tiles = scheduler.total_heads * scheduler.blocks;
  Cache cache(static_cast<std::size_t>(cache_bytes / tile_bytes));
  std::int64_t reads = 0;
  double work = 0, end = 0;
  // Tensor 0 is Q, 1 K, 2 V, 3 O; O is written, and takes a place.
  const auto use = [&](int tensor, int head, int block) {
    const bool hit =
        cache.use((std::int64_t{tensor} * scheduler.total_heads + head) * scheduler.blocks + block);
    if (!hit && tensor != 3) ++reads;
  };
  struct Sm {
    double time;
    int head, block, keys;  // the tile of queries, and its next tile of keys
    bool operator<(const Sm& other) const { return time > other.time; }
  };
  std::priority_queue<Sm> queue;
  int next = 0;
  const auto take = [&](double time) {
    end = std::max(end, time);
    if (next == tiles) return;
    const on_lab::WorkTile tile = work_tile(next++, scheduler);
    const int head = tile.batch * scheduler.heads + tile.head;
    use(0, head, tile.block);
    work += kTileStart + tile.block + 1;
    queue.push({time + kTileStart, head, tile.block, tile.block});
  };
  for (int sm = 0; sm < sms; ++sm) take(0);
  while (!queue.empty()) {
    Sm sm = queue.top();
    queue.pop();
    use(1, sm.head, sm.keys);
    use(2, sm.head, sm.keys);
    sm.time += 1;
    if (--sm.keys >= 0) {
      queue.push(sm);
    } else {
      use(3, sm.head, sm.block);
      take(sm.time);
    }
  }
  return {reads * tile_bytes, 1 - work / sms / end};
}

on_lab::TileScheduler modelled_scheduler(int length) {
  on_lab::Attention<bfloat16> a{};
  a.batch = kTokens / length;
  a.heads = a.kv_heads = kHeads;
  a.length_q = a.length_k = length;
  a.head_dim = a.head_dim_v = kHeadDim;
  a.causal = true;
  return on_lab::tile_scheduler(a, kTile, h100());
}

void show_schedule() {
  const DeviceProperties gpu = h100();
  fmt::print(
      "Order of tiles on an {}, a model: causal, {} tokens, {} heads, head_dim {}, 16 bits\n\n",
      gpu.name, kTokens, kHeads, kHeadDim);
  cli::Table table(
      {"keys", "K and V of a head, MB", "heads together", "choice", "read, MB", "idle, %"});
  for (const int length : {512, 1024, 4096, 16384}) {
    on_lab::TileScheduler scheduler = modelled_scheduler(length);
    const int chosen = scheduler.heads_together;
    for (const int together : {1, chosen, scheduler.total_heads}) {
      scheduler.heads_together = together;
      const Schedule of =
          simulate_schedule(scheduler, gpu.sm_count, static_cast<std::int64_t>(gpu.l2_bytes) / 2);
      table.add({std::to_string(length), fmt::format("{:.2f}", 4e-6 * length * kHeadDim),
                 std::to_string(together),
                 together == chosen ? "the rule's"
                 : together == 1    ? "one head"
                                    : "all heads",
                 fmt::format("{:.0f}", 1e-6 * static_cast<double>(of.bytes_read)),
                 fmt::format("{:.1f}", 100 * of.idle)});
    }
  }
  fmt::print("{}", table.text());
}

}  // namespace fa::flash
