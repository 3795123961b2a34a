// The order of operations shows the improvement that each step for Hopper is written for.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "04_tiled_matmul/src/sections.hpp"

using namespace fa;
using lab::BlockRecord;
using lab::Step;
using tiled::kDrawn;
using Kind = Step::Kind;

namespace {

const char* const kHopperSteps[] = {"19_matmul_wgmma", "20_matmul_stages", "21_matmul_persistent"};
// Steps along k of a tile of C, and copies of a step: A, and B in panels of 64 columns.
constexpr int kSteps = 8, kCopies = 1 + 4;

const std::vector<BlockRecord>& blocks_of(const std::string& name) {
  static const std::vector<tiled::Backend> all = tiled::backends();
  static std::map<std::string, std::vector<BlockRecord>> known;
  if (known.count(name) == 0) {
    for (const tiled::Kernel& step : tiled::group_of(all.front(), "mma").kernels) {
      if (step.name == name) known[name] = tiled::recorded(all.front(), step).blocks;
    }
  }
  REQUIRE(!known[name].empty());
  return known[name];
}

// The warps of a block that do something.
std::set<std::size_t> warps_with(const BlockRecord& block, Kind kind) {
  std::set<std::size_t> warps;
  for (std::size_t w = 0; w < block.warps.size(); ++w) {
    for (const Step& step : block.warps[w]) {
      if (step.kind == kind) warps.insert(w);
    }
  }
  return warps;
}

// Copies that a warp issues before its first matmul.
int copies_before_matmuls(const std::vector<Step>& steps) {
  int copies = 0;
  for (const Step& step : steps) {
    if (step.kind == Kind::kWgmma) break;
    copies += step.kind == Kind::kLoad;
  }
  return copies;
}

// Copies that a warp issues while one of its matmuls is in flight.
int copies_during_matmuls(const std::vector<Step>& steps) {
  int copies = 0;
  bool in_flight = false;
  for (const Step& step : steps) {
    if (step.kind == Kind::kWgmma) in_flight = true;
    if (step.kind == Kind::kWaitWgmma && step.count == 0) in_flight = false;
    copies += in_flight && step.kind == Kind::kLoad;
  }
  return copies;
}

}  // namespace

TEST_CASE("steps 19 to 21 do the same matmuls") {
  for (const char* name : kHopperSteps) {
    CAPTURE(std::string(name));
    CHECK(lab::peak_cycles(blocks_of(name)) ==
          doctest::Approx(2. * kDrawn.m * kDrawn.n * kDrawn.k / 4096));
  }
  CHECK(blocks_of("20_matmul_stages").size() == 2);
  CHECK(blocks_of("21_matmul_persistent").size() == 1);
}

TEST_CASE("in step 19 nothing is copied while a matmul is in flight") {
  const std::vector<Step>& steps = blocks_of("19_matmul_wgmma")[0].warps[0];
  CHECK(copies_before_matmuls(steps) == kCopies);
  CHECK(copies_during_matmuls(steps) == 0);
}

TEST_CASE("step 20 issues the copies of several steps before its first matmul") {
  const std::vector<Step>& steps = blocks_of("20_matmul_stages")[0].warps[0];
  CHECK(copies_before_matmuls(steps) >= 3 * kCopies);
  CHECK(std::count_if(steps.begin(), steps.end(), [](const Step& step) {
          return step.kind == Kind::kLoad;
        }) == kSteps * kCopies);
}

TEST_CASE("a consumer fetches in steps 19 and 20, the producer in 21") {
  for (const char* name : {"19_matmul_wgmma", "20_matmul_stages"}) {
    CAPTURE(std::string(name));
    CHECK(warps_with(blocks_of(name)[0], Kind::kLoad) == std::set<std::size_t>{0});
    CHECK(warps_with(blocks_of(name)[0], Kind::kWgmma).count(0) == 1);
  }
  const BlockRecord& persistent = blocks_of("21_matmul_persistent")[0];
  const std::set<std::size_t> producers = warps_with(persistent, Kind::kLoad);
  REQUIRE(producers.size() == 1);
  CHECK(warps_with(persistent, Kind::kWgmma).count(*producers.begin()) == 0);
  CHECK(warps_with(persistent, Kind::kWgmma).size() == 8);
}

TEST_CASE("the producer of step 21 waits for free stages only, through both tiles of C") {
  const BlockRecord& block = blocks_of("21_matmul_persistent")[0];
  const std::vector<Step>& steps = block.warps[*warps_with(block, Kind::kLoad).begin()];
  int copies = 0;
  for (const Step& step : steps) {
    copies += step.kind == Kind::kLoad;
    if (copies > 0) {
      CHECK((step.kind == Kind::kLoad || step.kind == Kind::kWait || step.kind == Kind::kArrive));
    }
  }
  CHECK(copies == 2 * kSteps * kCopies);
}
