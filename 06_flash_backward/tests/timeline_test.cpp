// The timelines of the lab show what each Hopper rung was written for.
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "06_flash_backward/src/sections.hpp"

using namespace fa;
using backward::Rung;
using lab::Span;
using lab::Timeline;
using Kind = Span::Kind;

namespace {

// The timeline that is drawn of a rung.
const Timeline& drawn(const std::string& name) {
  static std::map<std::string, Timeline> known;
  if (known.count(name) == 0) {
    static const std::vector<backward::Backend> all = backward::backends();
    const Rung& rung = attention::find_rung(all.front(), name);
    known[name] = backward::timeline_of(rung, backward::drawn_problem(rung));
  }
  return known[name];
}

// Cycles that warps spend with something.
double sum_of(const Timeline& timeline, Kind kind) {
  double sum = 0;
  for (const Span& span : timeline.warps) {
    if (span.kind == kind) sum += span.end - span.begin;
  }
  return sum;
}

// Bulk additions, and the lane that they stand in.
std::map<int, int> additions_of(const Timeline& timeline) {
  std::map<int, int> count;
  for (const Span& copy : timeline.copies) {
    if (copy.kind == Kind::kBulkAdd) ++count[copy.warp];
  }
  return count;
}

const char* const kRungs[] = {"08_wgmma", "09_warp_specialized", "10_delayed_dq", "11_ordered_dq",
                              "12_store_then_reduce"};

}  // namespace

TEST_CASE("tensor cores do the same work in rungs 08 to 12, in less time") {
  for (const char* name : kRungs) {
    CAPTURE(std::string(name));
    // Two blocks, 4 tiles of queries: five products of 2 * 64 * 128 * 128 operations, 4096 a cycle.
    CHECK(drawn(name).tensor_busy == doctest::Approx(2 * 4 * 5 * (2. * 64 * 128 * 128 / 4096)));
    // The kernels before and after are left out.
    CHECK(drawn(name).blocks.size() == 2);
  }
  const auto range = [](const char* name) { return drawn(name).tensor_share(); };
  CHECK(range("09_warp_specialized") > range("08_wgmma") + 0.1);
  CHECK(range("10_delayed_dq") >= range("08_wgmma") + 0.1);
}

TEST_CASE("from rung 09 on no MMA warp adds to dQ") {
  CHECK(sum_of(drawn("08_wgmma"), Kind::kAdds) > 0);
  CHECK(additions_of(drawn("08_wgmma")).empty());
  CHECK(lab::lanes_of(drawn("08_wgmma")).size() == 2);
  for (const char* name :
       {"09_warp_specialized", "10_delayed_dq", "11_ordered_dq", "12_store_then_reduce"}) {
    CAPTURE(std::string(name));
    CHECK(sum_of(drawn(name), Kind::kAdds) == 0);
    // Two blocks of 4 tiles, for each of the two warpgroups.
    CHECK((additions_of(drawn(name)) == std::map<int, int>{{9, 8}, {10, 8}}));
    const auto lanes = lab::lanes_of(drawn(name));
    REQUIRE(lanes.size() == 5);
    CHECK(lanes[0].name == "producer");
    CHECK(lanes[3].name == "adder 0");
    CHECK(lanes[4].warp == 10);
  }
}

TEST_CASE("rung 10 begins dQ a tile later than rung 09") {
  // Products of a warpgroup until its first one of dQ ends: rung 09 has S, dP and dV of a tile
  // before it, rung 10 all but dQ of the first tile, and S and dP of the second.
  const auto before_d_q = [](const std::string& name) {
    int count = 0;
    for (const Span& product : drawn(name).matmuls) {
      if (product.warp != 0) continue;
      if (product.kind == Kind::kByColumns) break;
      ++count;
    }
    return count;
  };
  // S and dP are 8 products 16 deep each, dV and dK 4.
  CHECK(before_d_q("08_wgmma") == 8 + 8 + 4 + 4);
  CHECK(before_d_q("09_warp_specialized") == 8 + 8 + 4);
  CHECK(before_d_q("10_delayed_dq") == 8 + 8 + 4 + 4 + 8 + 8);
}

TEST_CASE("the drawn tensors have the names of the legend") {
  // K, Q, V, dO, dV and dK, in all rungs.
  for (const char* name : kRungs) {
    CAPTURE(std::string(name));
    std::map<int, int> copies;
    for (const Span& copy : drawn(name).copies) {
      if (copy.kind == Kind::kLoad || copy.kind == Kind::kStore) {
        ++copies[copy.tensor];
        CHECK((copy.kind == Kind::kStore) == (copy.tensor > 3));
      }
    }
    // In panels of 64 columns: K, V and their gradients of 4 warpgroups, 8 tiles of Q and of dO; a
    // run for each of these tiles.
    CHECK(
        (copies == std::map<int, int>{{-1, 16}, {0, 8}, {1, 16}, {2, 8}, {3, 16}, {4, 8}, {5, 8}}));
  }
}

TEST_CASE("rung 13: seven matmuls, in blocks of queries and of keys") {
  const Timeline& wide = drawn("13_wide_heads");
  // In 4 x 4 tiles of 64 queries and keys seven products of 2 * 64 * 64 * 256 operations, 4096 a
  // cycle.
  CHECK(wide.tensor_busy == doctest::Approx(16 * 7 * (2. * 64 * 64 * 256 / 4096)));
  CHECK(wide.blocks.size() == 2 + 4);
  CHECK(additions_of(wide).empty());
  CHECK(sum_of(wide, Kind::kAdds) == 0);
  CHECK(lab::lanes_of(wide).size() == 3);
  std::map<int, int> stores;
  for (const Span& copy : wide.copies) {
    if (copy.kind == Kind::kStore) ++stores[copy.tensor];
  }
  // dV, dK and dQ: 4 tiles of 64 rows each, in 4 panels.
  CHECK((stores == std::map<int, int>{{4, 16}, {5, 16}, {6, 16}}));
}
