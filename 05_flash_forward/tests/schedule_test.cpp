// The order of tiles, how many heads are processed together, and the model of both.
#include <set>
#include <tuple>

#include <doctest/doctest.h>

#include "05_flash_forward/src/sections.hpp"

using namespace fa;
using flash::modelled_scheduler;
using flash::simulate_schedule;

namespace {

constexpr std::int64_t kTileBytes = 128 * 128 * 2;

DeviceProperties gpu() {
  DeviceProperties result;
  result.sm_count = 100;
  result.l2_bytes = std::size_t{40} << 20;
  result.clock_hz = 1e9;
  result.memory_bandwidth = 1e12;  // 410 FLOPs in the time of a byte
  return result;
}

on_lab::Attention<bfloat16> causal(int batch, int heads, int kv_heads, int length_q, int length_k,
                                   int head_dim) {
  on_lab::Attention<bfloat16> a{};
  a.batch = batch;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.length_q = length_q;
  a.length_k = length_k;
  a.head_dim = a.head_dim_v = head_dim;
  a.causal = true;
  return a;
}

}  // namespace

TEST_CASE("each tile comes once, the longest first, and the last heads are not fewer") {
  constexpr int blocks = 5, heads = 3;
  for (int total_heads = 3; total_heads <= 12; total_heads += 3) {
    for (int together = 0; together <= total_heads; ++together) {
      CAPTURE(total_heads);
      CAPTURE(together);
      const on_lab::TileScheduler scheduler{blocks, heads, total_heads, together};
      std::set<std::tuple<int, int, int>> tiles;
      int last_longest = 0;  // index of the last tile with the most keys
      for (int i = 0; i < total_heads * blocks; ++i) {
        const on_lab::WorkTile tile = work_tile(i, scheduler);
        CHECK(tile.block >= 0);
        CHECK(tile.block < blocks);
        CHECK(tile.head < heads);
        CHECK(tile.batch < total_heads / heads);
        tiles.emplace(tile.batch, tile.head, tile.block);
        if (tile.block == blocks - 1) last_longest = i;
      }
      CHECK(tiles.size() == static_cast<std::size_t>(total_heads * blocks));
      if (together == 0) continue;
      CHECK(work_tile(0, scheduler).block == blocks - 1);
      CHECK(last_longest == total_heads * blocks - together * (blocks - 1) - 1);
    }
  }
}

TEST_CASE("memory limits short sequences, tensor cores long ones") {
  // N / 4 FLOPs for each byte
  CHECK(limited_by_memory(causal(1, 1, 1, 1600, 1600, 64), gpu()));
  CHECK_FALSE(limited_by_memory(causal(1, 1, 1, 1700, 1700, 64), gpu()));
  // With four query heads for each head of K and V, 2 N / 5.
  CHECK(limited_by_memory(causal(1, 4, 1, 1000, 1000, 64), gpu()));
  CHECK_FALSE(limited_by_memory(causal(1, 4, 1, 1050, 1050, 64), gpu()));
  // One query sees all keys, and nearly all bytes are theirs.
  CHECK(limited_by_memory(causal(1, 1, 1, 1, 1 << 20, 64), gpu()));
  CHECK(limited_by_memory(causal(1, 1, 1, 1 << 20, 1, 64), gpu()));
}

TEST_CASE("each SM gets four tiles of a group of heads; where memory limits K and V fit into L2") {
  const auto together = [](const on_lab::Attention<bfloat16>& a) {
    return tile_scheduler(a, 128, gpu()).heads_together;
  };
  // 32 tiles of a head: 12.5 heads have 400 tiles; 64 heads are 5 groups of about so many.
  CHECK(together(causal(4, 16, 16, 4096, 4096, 128)) == 13);
  // K and V of a head have 256 KiB, so 40 of them a quarter of the cache.
  CHECK(together(causal(20, 16, 16, 512, 512, 128)) == 40);
  // The query heads of a head of K and V stay together: 128 tiles of each.
  CHECK(together(causal(4, 32, 8, 4096, 4096, 128)) == 4 * 4);
  // A head with more tiles than four for each SM is a group of its own.
  CHECK(together(causal(1, 4, 4, 1 << 17, 1 << 17, 128)) == 1);
  // With more than 128 columns 16 heads at least, or all.
  CHECK(together(causal(1, 32, 32, 1 << 16, 1 << 16, 256)) == 16);
  CHECK(together(causal(1, 8, 8, 1 << 16, 1 << 16, 256)) == 8);
  on_lab::Attention<bfloat16> full = causal(4, 16, 16, 4096, 4096, 128);
  full.causal = false;
  CHECK(together(full) == 0);
}

TEST_CASE("the model reads what a cache cannot keep, and counts SMs without a tile as idle") {
  const on_lab::TileScheduler scheduler{4, 3, 6, 2};  // 24 tiles of queries, 4 of keys in a head
  const flash::Schedule kept = simulate_schedule(scheduler, 5, 1000 * kTileBytes);
  CHECK(kept.bytes_read == 3 * 24 * kTileBytes);  // Q, K and V once
  const flash::Schedule lost = simulate_schedule(scheduler, 5, kTileBytes);
  CHECK(lost.bytes_read == (24 + 6 * 2 * (1 + 2 + 3 + 4)) * kTileBytes);
  CHECK(lost.idle == doctest::Approx(kept.idle));
  CHECK(simulate_schedule(scheduler, 1, kTileBytes).idle == doctest::Approx(0));
  // One head on two SMs, longest first: 4.6 + 1.6 and 3.6 + 2.6, so that both end together; head by
  // head in ascending order 1.6 + 3.6 and 2.6 + 4.6.
  CHECK(simulate_schedule({4, 1, 1, 1}, 2, kTileBytes).idle == doctest::Approx(0));
  CHECK(simulate_schedule({4, 1, 1, 0}, 2, kTileBytes).idle == doctest::Approx(1 - 12.4 / 14.4));
}

TEST_CASE("in the model short sequences read their inputs once, and SMs are hardly idle") {
  for (const int length : {512, 1024, 2048, 4096, 8192, 16384}) {
    CAPTURE(length);
    on_lab::TileScheduler scheduler = modelled_scheduler(length);
    constexpr std::int64_t cache = std::int64_t{25} << 20;
    constexpr std::int64_t inputs = std::int64_t{3} * 16384 * 16 * 128 * 2;
    const flash::Schedule chosen = simulate_schedule(scheduler, 132, cache);
    CHECK(chosen.idle < 0.03);
    if (length <= 1024) CHECK(chosen.bytes_read <= inputs * 102 / 100);
    scheduler.heads_together = scheduler.total_heads;
    CHECK(simulate_schedule(scheduler, 132, cache).bytes_read > chosen.bytes_read);
    scheduler.heads_together = 1;
    CHECK(simulate_schedule(scheduler, 132, cache).idle >= chosen.idle);
  }
}
