// The order of operations shows what each Hopper step was written for.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "06_flash_backward/src/sections.hpp"

using namespace fa;
using backward::LadderStep;
using lab::BlockRecord;
using lab::Step;
using Kind = Step::Kind;

namespace {

// What the lab records of a step with the problem that is drawn.
const std::vector<BlockRecord>& blocks_of(const std::string& name) {
  static std::map<std::string, std::vector<BlockRecord>> known;
  if (known.count(name) == 0) {
    static const std::vector<backward::Backend> all = backward::backends();
    const LadderStep& step = attention::find_step(all.front(), name);
    const auto inputs = backward::make_inputs(*step.drawn, attention::Values::kNormal, 1);
    known[name] = attention::recorded(step, *step.drawn, inputs, {}).blocks;
  }
  return known[name];
}

// Calls a function with each step of all blocks, and its warp.
template <class Function>
void for_each_step(const std::string& name, Function function) {
  for (const BlockRecord& block : blocks_of(name)) {
    for (std::size_t warp = 0; warp < block.warps.size(); ++warp) {
      for (const Step& step : block.warps[warp]) function(step, warp);
    }
  }
}

// Bulk additions of each warp.
std::map<std::size_t, int> additions_of(const std::string& name) {
  std::map<std::size_t, int> count;
  for_each_step(name, [&](const Step& step, std::size_t warp) {
    if (step.kind == Kind::kStore && step.adds) ++count[warp];
  });
  return count;
}

std::set<std::size_t> warps_with(const std::string& name, Kind kind) {
  std::set<std::size_t> warps;
  for_each_step(name, [&](const Step& step, std::size_t warp) {
    if (step.kind == kind) warps.insert(warp);
  });
  return warps;
}

}  // namespace

TEST_CASE("from step 09 on no MMA warp adds to dQ") {
  CHECK(warps_with("08_wgmma", Kind::kAdd) == warps_with("08_wgmma", Kind::kWgmma));
  CHECK(additions_of("08_wgmma").empty());
  for (const char* name :
       {"09_warp_specialized", "10_delayed_dq", "11_ordered_dq", "12_store_then_reduce"}) {
    CAPTURE(std::string(name));
    CHECK(warps_with(name, Kind::kAdd).empty());
    // Two blocks of 4 tiles, for each of the two warpgroups.
    CHECK((additions_of(name) == std::map<std::size_t, int>{{9, 8}, {10, 8}}));
    CHECK(warps_with(name, Kind::kLoad) == std::set<std::size_t>{8});
    CHECK(warps_with(name, Kind::kWgmma).size() == 8);
  }
}

TEST_CASE("step 10 begins dQ a tile later than step 09") {
  // Products of a warpgroup until its first one of dQ: step 09 has S, dP and dV of a tile before
  // it, step 10 all but dQ of the first tile, and S and dP of the second.
  const auto before_d_q = [](const std::string& name) {
    int count = 0;
    for (const Step& step : blocks_of(name)[0].warps[0]) {
      if (step.kind != Kind::kWgmma) continue;
      if (step.by_columns && !step.from_registers) break;
      ++count;
    }
    return count;
  };
  // S and dP are 8 products 16 deep each, dV and dK 4.
  CHECK(before_d_q("08_wgmma") == 8 + 8 + 4 + 4);
  CHECK(before_d_q("09_warp_specialized") == 8 + 8 + 4);
  CHECK(before_d_q("10_delayed_dq") == 8 + 8 + 4 + 4 + 8 + 8);
}

TEST_CASE("step 11 asks for its turn before it adds, step 10 does not") {
  CHECK(warps_with("10_delayed_dq", Kind::kLook).empty());
  CHECK((warps_with("11_ordered_dq", Kind::kLook) == std::set<std::size_t>{9, 10}));
}
