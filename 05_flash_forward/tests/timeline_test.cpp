// The order of operations shows the purpose of each step for Hopper.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "05_flash_forward/src/sections.hpp"

using namespace fa;
using flash::LadderStep;
using lab::BlockRecord;
using lab::Step;
using Kind = Step::Kind;

namespace {

const char* const kNames[] = {"09_wgmma", "10_warp_specialized", "11_overlap", "12_ping_pong",
                              "13_persistent"};

const LadderStep& step_of(const std::string& name) {
  static const std::vector<flash::Backend> all = flash::backends();
  return attention::find_step(all.front(), name);
}

// What the lab records of a step with the problem that is drawn.
const std::vector<BlockRecord>& blocks_of(const std::string& name) {
  static std::map<std::string, std::vector<BlockRecord>> known;
  if (known.count(name) == 0) {
    const LadderStep& step = step_of(name);
    known[name] = flash::recorded(step, flash::drawn_problem(step)).blocks;
  }
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

TEST_CASE("steps 09 to 13 do the same matmuls") {
  for (const char* name : kNames) {
    CAPTURE(std::string(name));
    // Two blocks of two warpgroups, 4 tiles of keys: two matmuls of 2 * 64 * 128 * 128 operations,
    // 4096 a cycle.
    CHECK(lab::peak_cycles(blocks_of(name)) ==
          doctest::Approx(2 * 2 * 4 * 2 * (2. * 64 * 128 * 128 / 4096)));
  }
}

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
  CHECK(warps_with(blocks_of("09_wgmma")[0], Kind::kLoad) == std::set<std::size_t>{0});
  for (const char* name : {"10_warp_specialized", "11_overlap", "12_ping_pong"}) {
    CAPTURE(std::string(name));
    const BlockRecord& block = blocks_of(name)[0];
    REQUIRE(warps_with(block, Kind::kLoad).size() == 1);
    CHECK(warps_with(block, Kind::kWgmma).count(*warps_with(block, Kind::kLoad).begin()) == 0);
    CHECK(warps_with(block, Kind::kWgmma).size() == 8);
  }
}

TEST_CASE(
    "in step 12 the warpgroups take turns before each pair of matmuls, in step 11 they do not") {
  CHECK(warps_with(blocks_of("11_overlap")[0], Kind::kNamedArrive).empty());
  const BlockRecord& block = blocks_of("12_ping_pong")[0];
  CHECK(warps_with(block, Kind::kNamedArrive) == warps_with(block, Kind::kWgmma));
  CHECK(warps_with(block, Kind::kNamedWait).size() == 8);
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
  const LadderStep& last = step_of("15_warpgroup_tiles");
  attention::Problem problem = flash::drawn_problem(last);
  const auto cycles = [&](const LadderStep& step) {
    return lab::peak_cycles(flash::recorded(step, problem).blocks);
  };
  CHECK(problem.causal);
  const double causal = cycles(last);
  CHECK(causal < cycles(step_of("14_lazy_rescaling")));
  problem.causal = false;
  CHECK(causal < cycles(last));
}
