#include "common/attention/host/aliasing.hpp"

#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "common/tensor/random.hpp"

namespace fa::attention {
namespace {

// The bytes of a region, one by one.
std::vector<std::uint64_t> bytes_of(const MemoryRegion& region) {
  std::vector<std::uint64_t> bytes;
  const auto& [x, y, z] = region.dimensions;
  for (std::uint64_t i = 0; i < x.count * y.count * z.count; ++i) {
    const std::uint64_t row = i % x.count * x.stride + i / x.count % y.count * y.stride +
                              i / x.count / y.count * z.stride;
    for (std::uint64_t j = 0; j < region.row_bytes; ++j) bytes.push_back(region.address + row + j);
  }
  return bytes;
}

bool overlap_by_bytes(const MemoryRegion& x, const MemoryRegion& y) {
  std::vector<bool> used(1 << 16);
  for (const std::uint64_t byte : bytes_of(x)) used[byte] = true;
  for (const std::uint64_t byte : bytes_of(y)) {
    if (used[byte]) return true;
  }
  return false;
}

TEST_CASE("overlap() agrees with a comparison byte by byte") {
  int overlapping = 0, interleaved = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    std::uint64_t drawn = i << 8;
    const auto below = [&](std::uint64_t n) { return random_bits(3, drawn++) % n; };
    const auto region = [&] {
      MemoryRegion of{"", below(600), 1 + below(12)};
      for (auto& dimension : of.dimensions) dimension = {below(1u << below(8)), 1 + below(4)};
      return of;
    };
    const MemoryRegion x = region(), y = region();
    const bool expected = overlap_by_bytes(x, y);
    CAPTURE(i);
    REQUIRE(overlap(x, y) == expected);
    REQUIRE(overlap(y, x) == expected);
    const bool meet = x.address < y.address + y.last_row() + y.row_bytes &&
                      y.address < x.address + x.last_row() + x.row_bytes;
    overlapping += expected ? 1 : 0;
    interleaved += meet && !expected ? 1 : 0;
  }
  CHECK(overlapping > 10000);
  CHECK(interleaved > 1000);
}

TEST_CASE("Q, K and V in one tensor do not overlap, and one element more does") {
  // [batch, length, 3, heads, head_dim] in float16
  const std::uint64_t d = 256, heads = 65535, length = 1000000, row = 3 * heads * d;
  const auto at = [&](std::uint64_t address) {
    return MemoryRegion{"", address, d, {{{length * row, 40000}, {d, heads}, {row, length}}}};
  };
  const std::uint64_t first = 1 << 20;
  CHECK_FALSE(overlap(at(first), at(first + heads * d)));
  CHECK_FALSE(overlap(at(first), at(first + 2 * heads * d)));
  CHECK(overlap(at(first), at(first + heads * d - 2)));
  CHECK(overlap(at(first), at(first + 2 * heads * d + 2)));
}

TEST_CASE("regions at the ends of the address space") {
  const std::uint64_t half = std::uint64_t{1} << 63;
  const auto most = std::numeric_limits<std::uintptr_t>::max();
  const MemoryRegion low{"", 16, 16, {{{half - 64, 2}, {0, 1}, {0, 1}}}};
  const MemoryRegion high{"", most - half + 64, 16, {{{half - 96, 2}, {0, 1}, {0, 1}}}};
  CHECK_FALSE(overlap(low, high));
  CHECK(overlap(low, {"", half - 33, 1}));
  CHECK_FALSE(overlap(low, {"", half - 32, 1}));
  CHECK(overlap(high, {"", most - 32, 1}));
  CHECK_FALSE(overlap(high, {"", most - 16, 16}));
}

TEST_CASE("an empty region overlaps nothing") {
  CHECK_FALSE(overlap({"", 64, 0}, {"", 0, 128}));
}

}  // namespace
}  // namespace fa::attention
