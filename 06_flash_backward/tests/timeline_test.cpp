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

const char* const kNames[] = {"08_wgmma", "09_warp_specialized", "10_delayed_dq", "11_ordered_dq",
                              "12_store_then_reduce"};

// What the lab records of a step with the problem that is drawn.
const cli::RecordedStep& recorded(const std::string& name) {
  static std::map<std::string, cli::RecordedStep> known;
  if (known.count(name) == 0) {
    static const std::vector<backward::Backend> all = backward::backends();
    const LadderStep& step = attention::find_step(all.front(), name);
    known[name] = attention::recorded(
        step, *step.drawn, backward::make_inputs(*step.drawn, attention::Values::kNormal, 1),
        {"K", "Q", "V", "dO", "dV", "dK"});
  }
  return known[name];
}

// Calls a function with each step of all blocks, and its warp.
template <class Function>
void for_each_step(const std::string& name, Function function) {
  for (const BlockRecord& block : recorded(name).blocks) {
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

// Copies of each tensor, by its name; "" for runs of bytes.
std::map<std::string, int> copies_of(const std::string& name, Kind kind) {
  std::map<std::string, int> copies;
  for_each_step(name, [&](const Step& step, std::size_t) {
    if (step.kind != kind || (kind == Kind::kStore && step.adds)) return;
    ++copies[step.tensor < 0 ? ""
                             : recorded(name).tensors.at(static_cast<std::size_t>(step.tensor))];
  });
  return copies;
}

}  // namespace

TEST_CASE("steps 08 to 12 do the same matmuls") {
  for (const char* name : kNames) {
    CAPTURE(std::string(name));
    // Two blocks, 4 tiles of queries: five products of 2 * 64 * 128 * 128 operations, 4096 a cycle.
    CHECK(lab::peak_cycles(recorded(name).blocks) ==
          doctest::Approx(2 * 4 * 5 * (2. * 64 * 128 * 128 / 4096)));
    // The kernels before and after are left out.
    CHECK(recorded(name).blocks.size() == 2);
  }
}

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
    for (const Step& step : recorded(name).blocks[0].warps[0]) {
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

TEST_CASE("tensors have the right names in all steps") {
  for (const char* name : kNames) {
    CAPTURE(std::string(name));
    // In panels of 64 columns: K, V and their gradients of 4 warpgroups, 8 tiles of Q and of dO; a
    // run for each of these tiles.
    CHECK((copies_of(name, Kind::kLoad) ==
           std::map<std::string, int>{{"", 16}, {"K", 8}, {"Q", 16}, {"V", 8}, {"dO", 16}}));
    CHECK((copies_of(name, Kind::kStore) == std::map<std::string, int>{{"dK", 8}, {"dV", 8}}));
  }
}

TEST_CASE("step 13: seven matmuls, in blocks of queries and of keys") {
  // In 4 x 4 tiles of 64 queries and keys seven products of 2 * 64 * 64 * 256 operations, 4096 a
  // cycle.
  CHECK(lab::peak_cycles(recorded("13_wide_heads").blocks) ==
        doctest::Approx(16 * 7 * (2. * 64 * 64 * 256 / 4096)));
  CHECK(recorded("13_wide_heads").blocks.size() == 2 + 4);
  CHECK(additions_of("13_wide_heads").empty());
  CHECK(warps_with("13_wide_heads", Kind::kAdd).empty());
  // dV, dK and dQ: 4 tiles of 64 rows each, in 4 panels.
  CHECK((copies_of("13_wide_heads", Kind::kStore) ==
         std::map<std::string, int>{{"dK", 16}, {"dQ", 16}, {"dV", 16}}));
}
