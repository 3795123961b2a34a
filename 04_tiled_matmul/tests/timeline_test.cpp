// The timelines show the improvement that each rung for Hopper is written for, and what the page
// says about it.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "04_tiled_matmul/src/sections.hpp"

using namespace fa;
using lab::Span;
using lab::Timeline;
using tiled::kDrawn;
using Kind = Span::Kind;

namespace {

const char* const kRungs[] = {"19_matmul_wgmma", "20_matmul_stages", "21_matmul_persistent"};
// Cycles of the matmuls of a step, of the copies of its tiles one after the other, of the stores of
// a tile of C.
constexpr double kStep = 2 * 128. * 256 * 64 / 4096;
const double kCopy = (128 + 256) * 64 * 2. / lab::Costs().copied_bytes;
const double kWrite = 128. * 256 * 4 / lab::Costs().copied_bytes;
// Copies of a step: A, and B in panels of 64 columns.
constexpr int kCopies = 1 + 4;

Timeline timeline_of(const std::string& name, const tiled::MatmulSizes& sizes,
                     const lab::Costs& costs = {}) {
  static const std::vector<tiled::Backend> all = tiled::backends();
  for (const tiled::Kernel& rung : tiled::group_of(all.front(), "mma").kernels) {
    if (rung.name == name) {
      return tiled::timeline_of(all.front(), rung, sizes, costs);
    }
  }
  FAIL("no rung " << name);
  return {};
}

// The timeline that is drawn of a rung.
const Timeline& drawn(const std::string& name) {
  static std::map<std::string, Timeline> known;
  if (known.count(name) == 0) known[name] = timeline_of(name, kDrawn);
  return known[name];
}

// When the tensor cores begin the second tile of C.
double second_tile(const Timeline& timeline) {
  double busy = 0;
  for (const Span& product : timeline.matmuls) {
    if (busy > (8 - 0.01) * kStep) return product.begin;
    busy += product.end - product.begin;
  }
  FAIL("there is no second tile");
  return 0;
}

// When all warps have written the first tile of C.
double first_is_written(const Timeline& timeline) {
  double end = 0;
  for (const Span& span : timeline.warps) {
    if (span.kind != Kind::kWrites) continue;
    if (end > 0 && span.begin > end + kStep) break;
    end = span.end;
  }
  return end;
}

// Cycles in which any warp writes to C.
double writing(const Timeline& timeline) {
  std::vector<Span> writes;
  std::copy_if(timeline.warps.begin(), timeline.warps.end(), std::back_inserter(writes),
               [](const Span& span) { return span.kind == Kind::kWrites; });
  std::sort(writes.begin(), writes.end(),
            [](const Span& x, const Span& y) { return x.begin < y.begin; });
  double sum = 0, end = 0;
  for (const Span& span : writes) {
    sum += std::max(0.0, span.end - std::max(span.begin, end));
    end = std::max(end, span.end);
  }
  return sum;
}

// Cycles in which copies are in flight while tensor cores multiply.
double copies_during_matmuls(const Timeline& timeline) {
  double both = 0;
  for (const Span& product : timeline.matmuls) {
    for (const Span& copy : timeline.copies) {
      both += std::max(0.0, std::min(copy.end, product.end) - std::max(copy.begin, product.begin));
    }
  }
  return both;
}

}  // namespace

TEST_CASE("tensor cores do the same work in rungs 19 to 21, in less time") {
  double share = 0;
  for (const char* name : kRungs) {
    CAPTURE(std::string(name));
    const Timeline& timeline = drawn(name);
    CHECK(timeline.tensor_busy == doctest::Approx(2 * 8 * kStep));
    CHECK(timeline.tensor_share() > 1.1 * share);
    share = timeline.tensor_share();
    // All bytes of two tiles of C, at the rate of the model.
    CHECK(writing(timeline) == doctest::Approx(2 * kWrite));
  }
}

TEST_CASE("in rung 19 nothing is copied while tensor cores work") {
  CHECK(copies_during_matmuls(drawn("19_matmul_wgmma")) == 0);
  // A step is its copies, then its matmuls. Both warpgroups ask for their warp index at the same
  // time, in each block.
  const lab::Costs costs;
  CHECK(drawn("19_matmul_wgmma").cycles ==
        doctest::Approx(16 * (kCopy + costs.copy_latency + kStep) +
                        2 * (kWrite + 2 * costs.exchange) + costs.next_block));
}

TEST_CASE("in rung 20 copies follow each other while matmuls run") {
  const Timeline& timeline = drawn("20_matmul_stages");
  CHECK(copies_during_matmuls(timeline) > timeline.tensor_busy);
  // Of the first block, one begins where the one before it leaves: landing takes the latency
  // longer.
  for (std::size_t i = 1; i < 8 * kCopies; ++i) {
    CAPTURE(i);
    CHECK(timeline.copies[i].begin + lab::Costs().copy_latency ==
          doctest::Approx(timeline.copies[i - 1].end));
  }
  // Between the two blocks nothing runs until C is written, the next one has begun and its first
  // tiles have arrived.
  REQUIRE(timeline.blocks.size() == 2);
  const double begin = second_tile(timeline);
  CHECK(begin > timeline.blocks[1] + lab::Costs().copy_latency + kCopy);
  CHECK(timeline.blocks[1] ==
        doctest::Approx(first_is_written(timeline) + lab::Costs().next_block));
}

TEST_CASE("a consumer fetches in rungs 19 and 20, the producer in 21") {
  for (const char* name : {"19_matmul_wgmma", "20_matmul_stages"}) {
    CAPTURE(std::string(name));
    const auto lanes = lab::lanes_of(drawn(name));
    REQUIRE(lanes.size() == 2);
    CHECK(lanes[0].name == "consumer 0");
    for (const Span& copy : drawn(name).copies) CHECK(copy.warp == 0);
  }
  const auto lanes = lab::lanes_of(drawn("21_matmul_persistent"));
  REQUIRE(lanes.size() == 3);
  CHECK(lanes[0].name == "producer");
}

TEST_CASE("rung 21 fetches for the next tile of C while it writes this one") {
  const auto steps_begun = [](const std::string& name) {
    const Timeline& timeline = drawn(name);
    const double end = std::min(first_is_written(timeline), second_tile(timeline));
    return static_cast<double>(std::count_if(timeline.copies.begin(), timeline.copies.end(),
                                             [&](const Span& copy) { return copy.begin < end; })) /
           kCopies;
  };
  CHECK(steps_begun("20_matmul_stages") == 8);
  CHECK(steps_begun("21_matmul_persistent") > 8 + 3);
  CHECK(drawn("20_matmul_stages").blocks.size() == 2);
  CHECK(drawn("21_matmul_persistent").blocks.size() == 1);
  // A consumer continues before the other one has written its rows.
  CHECK(second_tile(drawn("21_matmul_persistent")) <
        first_is_written(drawn("21_matmul_persistent")));
}

TEST_CASE("rung 21 multiplies four steps of its second tile without a gap") {
  const auto gaps = [](const std::string& name, int steps) {
    const Timeline& timeline = drawn(name);
    const double begin = second_tile(timeline), end = begin + steps * kStep;
    double busy = 0;
    for (const Span& product : timeline.matmuls) {
      busy += std::max(0.0, std::min(product.end, end) - std::max(product.begin, begin));
    }
    return end - begin - busy;
  };
  CHECK(gaps("20_matmul_stages", 4) > 0.1 * kStep);
  CHECK(gaps("21_matmul_persistent", 4) < 0.01 * kStep);
  CHECK(gaps("21_matmul_persistent", 6) > 0.1 * kStep);
}

TEST_CASE("the copies are what limits rungs 20 and 21 in the model") {
  tiled::MatmulSizes deeper = kDrawn;
  deeper.k *= 8;
  std::map<std::string, double> share;
  for (const char* name : kRungs) {
    CAPTURE(std::string(name));
    share[name] = timeline_of(name, deeper).tensor_share();
    CHECK(timeline_of(name, deeper, cli::at_once()).tensor_share() > 0.98);
  }
  // A step's tiles take longer to arrive than to be multiplied.
  CHECK(kCopy > 1.1 * kStep);
  CHECK(share["21_matmul_persistent"] < kStep / kCopy);
  // With long sums, beginnings and ends count for less.
  CHECK(share["20_matmul_stages"] > share["21_matmul_persistent"] - 0.05);
  CHECK(share["20_matmul_stages"] > share["19_matmul_wgmma"] + 0.3);
}
