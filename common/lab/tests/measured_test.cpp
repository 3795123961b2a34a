// Timelines of stamps that are made by hand.
#include "common/lab/measured.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/testing/process.hpp"

namespace fa::lab {
namespace {

using Kind = Span::Kind;
using testing::contains;
using testing::message_of;

constexpr std::uint32_t kStart = 5000;  // on the clock

Stamp at(std::uint32_t cycle, int warp, StampKind kind, std::uint32_t detail = 0) {
  return {warp, kStart + cycle, static_cast<std::uint32_t>(kind) | detail << 8};
}

// A block of a producer, warp 4, and a consumer, warp 0: a copy of tensor 9 to barrier 7, a matmul
// of scores and one of the output, both in flight together.
std::vector<Stamp> block(std::uint32_t begin) {
  using S = StampKind;
  std::vector<Stamp> stamps{at(0, 0, S::kBlock),
                            at(10, 4, S::kLoad, 7 | 9 << 15),
                            at(20, 0, S::kWaitBarrier, 7),
                            at(120, 0, S::kEnd),
                            at(130, 0, S::kIssueScores),
                            at(140, 0, S::kCommit),
                            at(145, 0, S::kIssueOutput),
                            at(150, 0, S::kCommit),
                            at(155, 0, S::kWaitMatmuls, 1),
                            at(300, 0, S::kEnd),
                            at(500, 0, S::kWaitMatmuls, 0),
                            at(600, 0, S::kEnd),
                            at(650, 0, S::kStore, 2 << 15),
                            at(660, 0, S::kWaitStores),
                            at(800, 0, S::kEnd)};
  for (Stamp& stamp : stamps) stamp.clock += begin;
  return stamps;
}

// The spans of a kind, "begin-end" with spaces between.
std::string times(const std::vector<Span>& spans, Kind kind, int warp = 0) {
  std::string text;
  for (const Span& span : spans) {
    if (span.kind != kind || span.warp != warp) continue;
    text += (text.empty() ? "" : " ") + std::to_string(static_cast<int>(span.begin)) + "-" +
            std::to_string(static_cast<int>(span.end));
  }
  return text;
}

TEST_CASE("a timeline of stamps has waits, work between them, matmuls and copies") {
  const Timeline timeline = timeline_of_stamps(block(0));
  CHECK(timeline.cycles == 800);
  CHECK(timeline.blocks == std::vector<double>{0});
  CHECK(times(timeline.warps, Kind::kWaitsForCopy) == "20-120");
  CHECK(times(timeline.warps, Kind::kWaitsForMatmuls) == "155-300 500-600");
  CHECK(times(timeline.warps, Kind::kWaitsForStores) == "660-800");
  // Softmax is between the waits for matmuls.
  CHECK(contains(times(timeline.warps, Kind::kWork), "300-500"));
  // The second matmul begins when the first one has ended.
  CHECK(times(timeline.matmuls, Kind::kScores) == "130-300");
  CHECK(times(timeline.matmuls, Kind::kOutput) == "300-600");
  CHECK(times(timeline.copies, Kind::kLoad, 4) == "10-120");
  CHECK(times(timeline.copies, Kind::kStore) == "650-800");
  // Tensors by first appearance.
  CHECK(timeline.copies.at(0).tensor == 0);
  CHECK(timeline.copies.at(1).tensor == 1);
  const std::vector<Lane> lanes = lanes_of(timeline);
  REQUIRE(lanes.size() == 2);
  CHECK(lanes[0].name == "producer");
  CHECK(lanes[1].warp == 0);
}

TEST_CASE("stamps are sorted, also where the clock wraps") {
  std::vector<Stamp> stamps = block(0);
  std::swap(stamps[2], stamps[11]);
  for (Stamp& stamp : stamps) stamp.clock -= kStart + 200;  // 0 is in the middle
  const Timeline timeline = timeline_of_stamps(stamps);
  CHECK(timeline.cycles == 800);
  CHECK(times(timeline.matmuls, Kind::kOutput) == "300-600");
}

TEST_CASE("each block is drawn, and kernels without matmuls are not") {
  std::vector<Stamp> stamps{at(0, 0, StampKind::kWaitNamed, 1), at(5, 0, StampKind::kEnd)};
  for (const std::uint32_t begin : {3000u, 4000u}) {
    for (const Stamp& stamp : block(begin)) stamps.push_back(stamp);
  }
  // A kernel that follows has no kBlock of its own, but comes later.
  stamps.push_back(at(9000, 0, StampKind::kWaitNamed, 1));
  stamps.push_back(at(9100, 0, StampKind::kEnd));
  const Timeline timeline = timeline_of_stamps(stamps);
  CHECK(timeline.blocks == std::vector<double>{0, 1000});
  CHECK(timeline.cycles == 1800);
  CHECK(times(timeline.warps, Kind::kWaitsForOthers).empty());
  CHECK(timeline_of_stamps({}).cycles == 0);
}

TEST_CASE("a missing stamp does not corrupt other spans") {
  for (std::size_t missing = 0; missing < block(0).size(); ++missing) {
    std::vector<Stamp> stamps = block(0);
    stamps.erase(stamps.begin() + static_cast<std::ptrdiff_t>(missing));
    const Timeline timeline = timeline_of_stamps(stamps);
    for (const auto* spans : {&timeline.warps, &timeline.matmuls, &timeline.copies}) {
      for (const Span& span : *spans) {
        CHECK(span.begin >= 0);
        CHECK(span.end >= span.begin);
        CHECK(span.end <= 800);
      }
    }
  }
}

TEST_CASE("files of stamps are read as they were written") {
  const StampedRuns written{"a GPU, its driver",
                            {{"09_wgmma", 0.25, 0.5, block(0)}, {"10_other", 1, 2, {}}}};
  const auto file = std::filesystem::temp_directory_path() / "fa_stamps.txt";
  std::ofstream(file) << stamps_text(written);
  const StampedRuns read = read_stamps(file);
  CHECK(read.source == written.source);
  REQUIRE(read.runs.size() == 2);
  const StampedRun* const run = read.find("09_wgmma");
  REQUIRE(run != nullptr);
  CHECK(run->stamped_milliseconds == 0.5);
  REQUIRE(run->stamps.size() == block(0).size());
  CHECK(run->stamps[1].clock == block(0)[1].clock);
  CHECK(run->stamps[1].what == block(0)[1].what);
  CHECK(read.find("10_other")->stamps.empty());
  CHECK(read.find("11_overlap") == nullptr);

  const std::string text = stamps_text(written);
  for (const std::string& wrong : {text.substr(0, text.size() / 2), std::string("{}\n")}) {
    std::ofstream(file) << wrong;
    CHECK(contains(message_of<std::runtime_error>([&] { read_stamps(file); }), "file of stamps"));
  }
  std::filesystem::remove(file);
  CHECK_THROWS_AS(read_stamps(file), std::runtime_error);
}

}  // namespace
}  // namespace fa::lab
