// The order of operations shows the purpose of each step for Hopper; and the order of tiles.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "05_flash_forward/src/backend.hpp"
#include "common/attention/host/sections.hpp"
#include "common/attention/tile_scheduler.cuh"

using namespace fa;
using namespace fa::attention;
using lab::BlockRecord;
using lab::Step;
using Kind = Step::Kind;

namespace {

const flash::LadderStep& step_of(const std::string& name) {
  static const std::vector<flash::Backend> all = flash::backends();
  return find_step(all.front(), name);
}

std::vector<BlockRecord> blocks_of(const flash::LadderStep& step, const Problem& problem) {
  return recorded(step, problem, make_inputs(problem, Values::kNormal, 1), {}).blocks;
}

// What the lab records of a step with the problem that is drawn.
const std::vector<BlockRecord>& blocks_of(const std::string& name) {
  static std::map<std::string, std::vector<BlockRecord>> known;
  if (known.count(name) == 0) {
    const flash::LadderStep& step = step_of(name);
    known[name] = blocks_of(step, *step.drawn);
  }
  return known[name];
}

// Exponentials of a warp while a matmul of it is in flight, in the order of the source.
std::int64_t exponentials_beside_matmuls(const std::vector<Step>& steps) {
  std::int64_t sum = 0;
  int in_flight = 0;  // groups
  for (const Step& step : steps) {
    if (step.kind == Kind::kCommit) ++in_flight;
    if (step.kind == Kind::kWaitWgmma) in_flight = std::min(in_flight, step.count);
    if (in_flight > 0) sum += step.exponentials;
  }
  return sum;
}

}  // namespace

TEST_CASE("steps 09 and 10 compute their softmax while no matmul is in flight") {
  for (const char* name : {"09_wgmma", "10_warp_specialized"}) {
    CAPTURE(std::string(name));
    for (const std::size_t warp : {0, 4}) {
      CHECK(exponentials_beside_matmuls(blocks_of(name)[0].warps[warp]) == 0);
    }
  }
}

TEST_CASE("from step 11 on the source has the softmax between the issue of P V and its wait") {
  for (const char* name : {"11_overlap", "12_ping_pong", "13_persistent"}) {
    CAPTURE(std::string(name));
    for (const std::size_t warp : {0, 4}) {
      // Of 4 tiles of keys those of 3: 64 exponentials each.
      CHECK(exponentials_beside_matmuls(blocks_of(name)[0].warps[warp]) >= 3 * 64);
    }
  }
}

TEST_CASE("from step 10 on a warp that does not multiply issues the copies") {
  CHECK(blocks_of("09_wgmma")[0].warps_with(Kind::kLoad) == std::set<std::size_t>{0});
  for (const char* name : {"10_warp_specialized", "11_overlap", "12_ping_pong"}) {
    CAPTURE(std::string(name));
    const BlockRecord& block = blocks_of(name)[0];
    REQUIRE(block.warps_with(Kind::kLoad).size() == 1);
    CHECK(block.warps_with(Kind::kWgmma).count(*block.warps_with(Kind::kLoad).begin()) == 0);
    CHECK(block.warps_with(Kind::kWgmma).size() == 8);
  }
}

TEST_CASE(
    "in step 12 the warpgroups take turns before each pair of matmuls, in step 11 they do not") {
  CHECK(blocks_of("11_overlap")[0].warps_with(Kind::kNamedArrive).empty());
  const BlockRecord& block = blocks_of("12_ping_pong")[0];
  CHECK(block.warps_with(Kind::kNamedArrive) == block.warps_with(Kind::kWgmma));
  CHECK(block.warps_with(Kind::kNamedWait).size() == 8);
}

TEST_CASE("one block of step 13 computes what two of step 12 do") {
  CHECK(blocks_of("12_ping_pong").size() == 2);
  REQUIRE(blocks_of("13_persistent").size() == 1);
  // Q of both tiles of queries, of two warpgroups each, in two panels.
  int copies_of_q = 0;
  for (const auto& steps : blocks_of("13_persistent")[0].warps) {
    for (const Step& step : steps) copies_of_q += step.kind == Kind::kLoad && step.tensor == 0;
  }
  CHECK(copies_of_q == 2 * 2 * 2);
}

TEST_CASE("under the mask step 15 has fewer matmuls than step 14") {
  const flash::LadderStep& last = step_of("15_warpgroup_tiles");
  Problem problem = *last.drawn;
  const auto cycles = [&](const flash::LadderStep& step) {
    return lab::peak_cycles(blocks_of(step, problem));
  };
  CHECK(problem.causal);
  const double causal = cycles(last);
  CHECK(causal < cycles(step_of("14_lazy_rescaling")));
  problem.causal = false;
  CHECK(causal < cycles(last));
}

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
