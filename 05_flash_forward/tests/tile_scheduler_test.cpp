// The order in which persistent blocks take tiles, in the lab.
#include "common/attention/tile_scheduler.cuh"

#include <set>
#include <tuple>

#include <doctest/doctest.h>

using namespace fa;
using on_lab::TileScheduler;
using on_lab::work_tile;
using on_lab::WorkTile;

TEST_CASE("each tile comes once, the longest first, and the last heads are not fewer") {
  constexpr int blocks = 5, heads = 3;
  for (int total_heads = 3; total_heads <= 12; total_heads += 3) {
    for (int together = 0; together <= total_heads; ++together) {
      CAPTURE(total_heads);
      CAPTURE(together);
      const TileScheduler scheduler{blocks, heads, total_heads, together};
      std::set<std::tuple<int, int, int>> tiles;
      int last_longest = 0;  // index of the last tile with the most keys
      for (int i = 0; i < total_heads * blocks; ++i) {
        const WorkTile tile = work_tile(i, scheduler);
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
