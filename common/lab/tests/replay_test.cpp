// Records of the lab, and what a clock makes of them: sequences of steps made by hand, whose times
// can be computed by hand.
#include "common/lab/replay.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/gpu/hopper.cuh"
#include "common/gpu/launch.cuh"
#include "common/lab/record.hpp"
#include "common/lab/timeline.hpp"
#include "common/testing/process.hpp"

namespace fa::on_lab {
namespace {

using lab::BlockRecord;
using lab::Costs;
using lab::Span;
using lab::Step;
using lab::Timeline;
using testing::contains;
using testing::message_of;
using Kind = Step::Kind;
using Steps = std::vector<Step>;

Step step(Kind kind, int count = 0, int barrier = 0, std::int64_t bytes = 0) {
  Step result;
  result.kind = kind;
  result.count = count;
  result.barrier = barrier;
  result.bytes = bytes;
  return result;
}
Step work(std::int64_t exponentials, std::int64_t exchanges = 0) {
  Step result;
  result.exponentials = exponentials;
  result.exchanges = exchanges;
  return result;
}
Step matmul(int columns, bool from_registers = false) {
  Step result = step(Kind::kWgmma);
  result.columns = columns;
  result.from_registers = from_registers;
  return result;
}
// Steps of some warps; those between them do nothing.
BlockRecord block(const std::vector<std::pair<std::size_t, Steps>>& warps) {
  BlockRecord result;
  for (const auto& [warp, steps] : warps) {
    result.warps.resize(std::max(result.warps.size(), warp + 1));
    result.warps[warp] = steps;
  }
  return result;
}
// Round numbers: 32 bytes a cycle and 100 cycles, 10 cycles for a score, 25 for an exchange, 64 for
// 128 columns.
Costs costs() {
  Costs result;
  result.flops = 4096;
  result.exponential = 8;
  result.rest_of_score = 2;
  result.exchange = 25;
  result.copied_bytes = 32;
  result.copy_latency = 100;
  result.next_block = 50;
  result.waiting_matmuls = 1;
  return result;
}
// Replays one block with these costs.
Timeline play(const std::vector<std::pair<std::size_t, Steps>>& warps) {
  return lab::replay({block(warps)}, costs());
}
// When the last span of a warp ends.
double end_of(const Timeline& timeline, int warp) {
  double end = 0;
  for (const Span& span : timeline.warps) {
    if (span.warp == warp) end = std::max(end, span.end);
  }
  return end;
}
// The warps whose matmuls the tensor cores do, in their order.
std::string matmul_order_of(const Timeline& timeline) {
  std::string text;
  for (const Span& span : timeline.matmuls) {
    text += std::to_string(span.warp);
  }
  return text;
}

TEST_CASE("a warp's work takes what its scores and exchanges cost") {
  const Timeline timeline = play({{0, {work(3, 2), work(1)}}});
  CHECK(timeline.cycles == doctest::Approx(3 * 10 + 2 * 25 + 10));
  CHECK(timeline.tensor_share() == 0);
  CHECK(lab::replay({}, costs()).cycles == 0);
}

TEST_CASE("warps of a quarter share it, those of others do not") {
  const Timeline timeline = play({{0, {work(10)}}, {1, {work(10)}}, {4, {work(5)}}});
  CHECK(end_of(timeline, 1) == doctest::Approx(100));
  CHECK(end_of(timeline, 4) == doctest::Approx(100));  // 50 at half the speed
  CHECK(end_of(timeline, 0) == doctest::Approx(150));  // 50 of it alone
}

TEST_CASE("tensor cores do one matmul at a time, first come, first served") {
  const Steps three{matmul(128), matmul(128), matmul(128), step(Kind::kCommit),
                    step(Kind::kWaitWgmma)};
  const Steps one{matmul(64), step(Kind::kCommit), step(Kind::kWaitWgmma)};
  Timeline timeline = play({{0, three}, {4, one}, {5, one}});
  // One of a warp waits: the third one comes when the second one begins.
  CHECK(matmul_order_of(timeline) == "0040");
  CHECK(end_of(timeline, 0) == doctest::Approx(3 * 64 + 32));
  CHECK(end_of(timeline, 4) == doctest::Approx(2 * 64 + 32));
  CHECK(end_of(timeline, 5) == doctest::Approx(32));  // another quarter
  CHECK(timeline.tensor_share() == doctest::Approx(1));
  Costs unlimited = costs();
  unlimited.waiting_matmuls = 100;
  timeline = lab::replay({block({{0, three}, {4, one}})}, unlimited);
  CHECK(matmul_order_of(timeline) == "0004");
}

TEST_CASE("groups of matmuls are waited for but the youngest") {
  const Timeline timeline =
      play({{0,
             {matmul(128), step(Kind::kCommit), matmul(256, true), step(Kind::kCommit),
              step(Kind::kWaitWgmma, 1), work(1), step(Kind::kWaitWgmma, 0)}}});
  REQUIRE(timeline.warps.size() == 3);
  CHECK(timeline.warps[0].kind == Span::Kind::kWaitsForMatmuls);
  CHECK(timeline.warps[0].end == doctest::Approx(64));
  CHECK(timeline.warps[1].kind == Span::Kind::kWork);
  CHECK(timeline.warps[1].end == doctest::Approx(74));  // under a matmul
  CHECK(timeline.warps[2].end == doctest::Approx(64 + 128));
  CHECK(timeline.matmuls[0].kind == Span::Kind::kScores);
  CHECK(timeline.matmuls[1].kind == Span::Kind::kOutput);
}

TEST_CASE("copies come one after the other and end their barrier's phase") {
  const auto filling = [](int barrier) {
    return Steps{step(Kind::kArrive, 1, barrier, 3200), step(Kind::kLoad, 0, barrier, 1600),
                 step(Kind::kLoad, 0, barrier, 1600)};
  };
  Steps producer{step(Kind::kInit, 1, 0), step(Kind::kInit, 1, 1)};
  for (const int barrier : {0, 1}) {
    for (const Step& one : filling(barrier)) producer.push_back(one);
  }
  const Timeline timeline = play({{0, producer},
                                  {1, {step(Kind::kWait, 1, 0), work(1)}},
                                  {2, {step(Kind::kWait, 1, 1)}},
                                  {3, {step(Kind::kWait, 0, 0)}}});  // of no phase
  CHECK(end_of(timeline, 1) == doctest::Approx(100 + 100 + 10));
  CHECK(end_of(timeline, 2) == doctest::Approx(200 + 100));
  CHECK(end_of(timeline, 3) == 0);
  CHECK(timeline.warps.front().kind == Span::Kind::kWaitsForCopy);
  REQUIRE(timeline.copies.size() == 4);
  CHECK(timeline.copies[3].begin == doctest::Approx(150));  // its turn
  CHECK(timeline.copies[3].end == doctest::Approx(300));
}

TEST_CASE("a phase needs all arrivals, and a wait for others says so") {
  const Timeline timeline = play({{0, {step(Kind::kInit, 2, 7), step(Kind::kWait, 1, 7)}},
                                  {1, {work(2), step(Kind::kArrive, 1, 7)}},
                                  {2, {work(5), step(Kind::kArrive, 1, 7)}}});
  CHECK(end_of(timeline, 0) == doctest::Approx(50));
  CHECK(timeline.warps.back().kind == Span::Kind::kWaitsForOthers);
}

TEST_CASE("all warps that have not ended meet at a block's barrier") {
  const Timeline timeline = play({{0, {step(Kind::kMeet), work(1), step(Kind::kMeet)}},
                                  {1, {work(4), step(Kind::kMeet), step(Kind::kMeet)}},
                                  {2, {work(9)}}});
  // The first one lets warps 0 and 1 wait for the end of warp 2.
  CHECK(end_of(timeline, 0) == doctest::Approx(90 + 10));
  CHECK(end_of(timeline, 1) == doctest::Approx(90 + 10));
}

TEST_CASE("a warp that only arrives at a named barrier does not block") {
  const Timeline timeline = play({{0, {step(Kind::kNamedWait, 64, 3), work(1)}},
                                  {1, {work(6), step(Kind::kNamedArrive, 64, 3), work(1)}},
                                  {2, {step(Kind::kNamedArrive, 64, 4)}}});
  CHECK(end_of(timeline, 0) == doctest::Approx(70));
  CHECK(end_of(timeline, 1) == doctest::Approx(70));
  CHECK(timeline.warps.front().kind == Span::Kind::kWork);
}

TEST_CASE("stores are waited for by groups, and blocks follow each other") {
  const Steps storing{step(Kind::kStore, 0, 0, 3200), step(Kind::kCommitStores),
                      step(Kind::kStore, 0, 0, 320),  step(Kind::kCommitStores),
                      step(Kind::kWaitStores, 1),     work(3),
                      step(Kind::kWaitStores, 0)};
  Timeline timeline = play({{0, storing}});
  CHECK(timeline.cycles == doctest::Approx(130));  // the second is over then
  CHECK(timeline.warps.front().kind == Span::Kind::kWaitsForStores);
  CHECK(timeline.warps.front().end == doctest::Approx(100));
  timeline = lab::replay({block({{0, {work(1)}}}), block({{0, storing}})}, costs());
  CHECK(timeline.cycles == doctest::Approx(10 + 50 + 130));
  REQUIRE(timeline.blocks.size() == 2);
  CHECK(timeline.blocks[1] == doctest::Approx(60));
}

TEST_CASE("atomic additions go to memory one after the other") {
  Step addition;
  addition.kind = Kind::kAdd;
  addition.bytes = 3200;
  const Timeline timeline = play({{0, {addition, work(1)}}, {1, {work(1), addition}}});
  CHECK(end_of(timeline, 0) == doctest::Approx(110));
  CHECK(end_of(timeline, 1) == doctest::Approx(200));
  CHECK(timeline.warps[1].kind == Span::Kind::kAdds);
}

TEST_CASE("stores go to memory as atomic additions do") {
  Step writing;
  writing.kind = Kind::kWrite;
  writing.bytes = 3200;
  Step addition = writing;
  addition.kind = Kind::kAdd;
  const Timeline timeline = play({{0, {writing}}, {1, {addition}}});
  CHECK(end_of(timeline, 0) == doctest::Approx(100));
  CHECK(end_of(timeline, 1) == doctest::Approx(200));
  CHECK(timeline.warps[0].kind == Span::Kind::kWrites);
}

TEST_CASE("a bulk store is read before it arrives; polling takes one latency") {
  const auto end_with = [](Kind kind) {
    return play({{0, {step(Kind::kStore, 0, 0, 3200), step(Kind::kCommitStores), step(kind)}}})
        .cycles;
  };
  CHECK(end_with(Kind::kWaitStores) == doctest::Approx(100));
  CHECK(end_with(Kind::kWaitArrivals) == doctest::Approx(200));
  const Timeline timeline = play({{0, {step(Kind::kLook), work(1)}}});
  CHECK(timeline.cycles == doctest::Approx(110));
  CHECK(timeline.warps.front().kind == Span::Kind::kWaitsForOthers);
}

TEST_CASE("a wait that never ends is refused in one sentence") {
  CHECK(message_of<std::runtime_error>([] {
          play({{1, {work(1), step(Kind::kWait, 1, 0)}}});
        }) == "warp 1 waits at its step 2 of 2 for what never comes");
}

// ---------------------------------------------------------------- records

struct Shared {
  __align__(128) float numbers[64];
  Mbarrier full;
};

// Two warps: one copies, both wait, take three exponentials, meet at a named barrier.
__global__ void small_kernel(const float* in, float* out) {
  Shared& shared = *dynamic_shared<Shared>();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (threadIdx.x == 32) {
    shared.full.init(1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 37) {
    shared.full.arrive_and_expect(256);
    bulk_load(shared.numbers, in, 256, shared.full);
  }
  shared.full.wait(0);
  float x = shared.numbers[threadIdx.x];
  for (int i = 0; i < 3; ++i) x = exp2_approx(x);
  x = warp_max<4>(x);
  if (warp == 0) {
    named_barrier_wait(5, 64);
    x = warp_max<2>(x);  // an exchange without an exponential
  } else {
    named_barrier_arrive(5, 64);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

std::vector<BlockRecord> record_of_small(unsigned blocks) {
  const DeviceBuffer<float> in(64);
  DeviceBuffer<float> out(64 * blocks);
  return lab::record([&] {
    CHECK(device_properties().sm_count == 1);
    launch(small_kernel, {{blocks}, {64}, sizeof(Shared)}, in.data(), out.data());
  });
}

TEST_CASE("a record has each warp's steps in their order") {
  const std::vector<BlockRecord> blocks = record_of_small(3);
  CHECK(lab::recorder == nullptr);
  REQUIRE(blocks.size() == 3);
  for (const BlockRecord& one : blocks) {
    REQUIRE(one.warps.size() == 2);
    const auto kinds_of = [&](std::size_t warp) {
      std::vector<Kind> kinds;
      for (const Step& of_warp : one.warps[warp]) {
        kinds.push_back(of_warp.kind);
      }
      return kinds;
    };
    CHECK((kinds_of(0) == std::vector<Kind>{Kind::kMeet, Kind::kWait, Kind::kWork, Kind::kNamedWait,
                                            Kind::kWork}));
    CHECK(one.warps[0].back().exchanges == 1);
    const Steps& second = one.warps[1];
    // Lane 0 reaches its wait first and continues last.
    CHECK((kinds_of(1) == std::vector<Kind>{Kind::kInit, Kind::kMeet, Kind::kArrive, Kind::kLoad,
                                            Kind::kWait, Kind::kWork, Kind::kNamedArrive}));
    CHECK(second[0].count == 1);
    CHECK(second[2].bytes == 256);
    CHECK(second[3].bytes == 256);
    CHECK(second[4].count == 1);  // a phase has ended
    CHECK(second[5].exponentials == 3);
    CHECK(second[5].exchanges == 2);
    CHECK(second[6].barrier == 5);
    CHECK(second[6].count == 64);
  }
  const Timeline timeline = lab::replay(blocks, costs());
  // A copy of 256 bytes, then 3 scores and 3 shuffles, three times.
  CHECK(timeline.cycles == doctest::Approx(3 * (8 + 100 + 30 + 75) + 2 * 50));
}

// A warp adds by atomics, looks whether it is its turn, and has a copy add.
__global__ void adding_kernel(float* out, unsigned* turn) {
  Shared& shared = *dynamic_shared<Shared>();
  shared.numbers[threadIdx.x] = exp2_approx(1);
  atomicAdd(out + threadIdx.x, 1.0f);
  atomicAdd(out + threadIdx.x, 1.0f);
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x > 0) return;
  while (atomicAdd(turn, 0u) != 0) {
  }
  bulk_add(out, shared.numbers, 128);
  bulk_commit();
  bulk_wait_read<0>();
  bulk_wait<0>();
  atomicAdd(turn, 1u);
}

TEST_CASE("a record has additions in their order") {
  DeviceBuffer<float> out(32);
  DeviceBuffer<unsigned> turn(1);
  const std::vector<float> zeros(32);
  const std::vector<unsigned> first_turn(1);
  out.upload(zeros.data());
  turn.upload(first_turn.data());
  const std::vector<BlockRecord> blocks = lab::record([&] {
    launch(adding_kernel, {{1}, {32}, sizeof(Shared)}, out.data(), turn.data());
  });
  REQUIRE(blocks.size() == 1);
  const Steps& steps = blocks[0].warps.at(0);
  const Kind kinds[] = {Kind::kWork,  Kind::kAdd,          Kind::kMeet,       Kind::kLook,
                        Kind::kStore, Kind::kCommitStores, Kind::kWaitStores, Kind::kWaitArrivals};
  REQUIRE(steps.size() == std::size(kinds));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    CHECK((steps[i].kind == kinds[i]));
  }
  CHECK(steps[0].bytes == 0);
  CHECK(steps[1].bytes == 2 * 128);
  CHECK(steps[4].adds);
  CHECK(steps[4].tensor == -1);
  CHECK(steps[4].bytes == 128);
}

__global__ void storing_kernel(float* out) {
  float* const own = out + 2 * threadIdx.x;
  store2(own, exp2_approx(0.0f), 1);
  store2(own, 2, 3);
  store2(own, 4, 5);
  atomicAdd(own, 1.0f);
}

TEST_CASE("a record has stores and additions apart, 512 bytes at a time") {
  DeviceBuffer<float> out(64);
  const std::vector<BlockRecord> blocks = lab::record([&] {
    launch(storing_kernel, {{1}, {32}}, out.data());
  });
  REQUIRE(blocks.size() == 1);
  const Steps& steps = blocks[0].warps.at(0);
  REQUIRE(steps.size() == 4);
  CHECK((steps[0].kind == Kind::kWork));
  CHECK(steps[0].bytes == 0);
  CHECK((steps[1].kind == Kind::kWrite));
  CHECK(steps[1].bytes == 512);
  CHECK((steps[2].kind == Kind::kWrite));
  CHECK(steps[2].bytes == 256);
  CHECK((steps[3].kind == Kind::kAdd));
  CHECK(steps[3].bytes == 128);
  // Nothing is multiplied, so nothing is played.
  CHECK(lab::replayed(
            [&] {
              launch(storing_kernel, {{1}, {32}}, out.data());
            },
            costs())
            .cycles == 0);
}

TEST_CASE("only one record is made at a time, and none after an error") {
  CHECK_THROWS_AS(lab::record([] { lab::record([] {}); }), std::logic_error);
  CHECK(lab::recorder == nullptr);
  CHECK(record_of_small(1).size() == 1);
}

// ---------------------------------------------------------------- drawings

TEST_CASE("a timeline has a lane for the producer and for each consumer") {
  const Timeline timeline = play(
      {{0,
        {step(Kind::kInit, 1, 0), step(Kind::kArrive, 1, 0, 3200), step(Kind::kLoad, 0, 0, 1600),
         step(Kind::kLoad, 0, 0, 1600)}},
       {4, {step(Kind::kWait, 1, 0), matmul(128), step(Kind::kCommit), step(Kind::kWaitWgmma)}}});
  const auto lanes = lab::lanes_of(timeline);
  REQUIRE(lanes.size() == 2);
  CHECK(lanes[0].name == "producer");
  CHECK(lanes[1].name == "consumer 0");
  CHECK(lanes[1].warp == 4);
  const std::vector<lab::NamedTimeline> named{{"a & b", timeline}};
  const lab::Legend legend{{"K"}, {{Span::Kind::kLoad, "copy"}, {Span::Kind::kScores, "Q & K"}}};
  const std::string svg = lab::draw_timelines(named, legend);
  CHECK(svg == lab::draw_timelines(named, legend));
  CHECK(contains(svg, ">Q &amp; K</text>"));
  CHECK(contains(svg, ">a &amp; b</text>"));
  CHECK(contains(svg, ">264 cycles, tensor cores busy for 24 %</text>"));
  // Two panels are one tile.
  const std::size_t tile = svg.find(">K</text>");
  REQUIRE(tile != std::string::npos);
  CHECK(svg.find(">K</text>", tile + 1) == std::string::npos);
  CHECK(contains(svg, ">consumer 0</text>"));
  // Half the scale: the matmul has half the width, 64 of 264 cycles on 658.
  CHECK(contains(svg, "width=\"159.5\" height=\"20\" fill=\"#8fbce6\""));
  CHECK(contains(lab::draw_timelines(named, legend, 528),
                 "width=\"79.8\" height=\"20\" fill=\"#8fbce6\""));
  const std::string json = lab::timelines_json(named, {"K"});
  CHECK(contains(json, "\"cycles\": 264.0, \"tensor_busy\": 64.0"));
  CHECK(contains(json,
                 "{\"lane\": \"copies\", \"warp\": 0, \"kind\": \"load\", "
                 "\"begin\": 0.0, \"end\": 150.0, \"tensor\": \"K\"}"));
}

TEST_CASE(
    "a measured timeline shows its first block, without stripes, and a legend of what it shows") {
  Timeline timeline;
  timeline.cycles = 658;  // a pixel each, if all were drawn
  timeline.blocks = {0, 329};
  timeline.matmuls = {{Span::Kind::kScores, 0, 100, 0, 0}, {Span::Kind::kOutput, 400, 500, 0, 0}};
  timeline.warps = {{Span::Kind::kWork, 110, 120, 0, 0},
                    {Span::Kind::kWork, 121, 130, 0, 0},   // 2 pixels further: the same
                    {Span::Kind::kWork, 200, 201, 0, 0}};  // 2 pixels wide: left out
  const lab::Legend legend{{}, {{Span::Kind::kScores, "scores"}, {Span::Kind::kOutput, "output"}}};
  lab::NamedTimeline one{"a", timeline};
  const std::string modelled = lab::draw_timelines({one}, legend);
  CHECK(contains(modelled, ">output</text>"));
  CHECK(contains(modelled, ">next block</text>"));
  one.measured = true;
  const std::string svg = lab::draw_timelines({one}, legend);
  CHECK(contains(svg, "the first of 2 blocks</text>"));
  CHECK_FALSE(contains(svg, ">next block</text>"));
  CHECK(contains(svg, ">scores</text>"));
  CHECK_FALSE(contains(svg, ">output</text>"));
  CHECK(contains(svg, "width=\"200\" height=\"20\" fill=\"#8fbce6\""));  // twice the scale
  const std::string work = "height=\"10\" fill=\"#f6b98a\"";
  const std::size_t joined = svg.find("width=\"40\" " + work);
  REQUIRE(joined != std::string::npos);
  CHECK(svg.find(work, joined + 30) == std::string::npos);
}

TEST_CASE("a warp that issues bulk additions for others has a lane of its own") {
  Step addition = step(Kind::kStore, 0, 0, 3200);
  addition.adds = true;
  Step run = step(Kind::kLoad, 0, 0, 320);
  run.tensor = -1;
  const Timeline timeline =
      play({{0, {matmul(64), step(Kind::kCommit)}},
            {4,
             {step(Kind::kInit, 1, 0), step(Kind::kArrive, 1, 0, 3520),
              step(Kind::kLoad, 0, 0, 3200), run}},
            {6, {addition, step(Kind::kCommitStores), step(Kind::kWaitStores)}}});
  const auto lanes = lab::lanes_of(timeline);
  REQUIRE(lanes.size() == 3);
  CHECK(lanes[0].name == "producer");
  CHECK(lanes[1].name == "consumer 0");
  CHECK(lanes[2].name == "adder 0");
  CHECK(lanes[2].warp == 6);
  CHECK(timeline.copies.back().kind == Span::Kind::kBulkAdd);
  CHECK(timeline.copies.back().end == doctest::Approx(100));
  // The run of bytes belongs to the tile before it: one box of 210 cycles, the whole width of 658.
  const std::string svg = lab::draw_timelines({{"a", timeline}}, {{"K"}, {}});
  const std::string box = "height=\"13\" fill=\"#d9c2ea\"";
  const std::size_t tile = svg.find("width=\"658\" " + box);
  REQUIRE(tile != std::string::npos);
  CHECK(svg.find(box, tile + 30) == std::string::npos);
  // In the adder's lane, and nowhere else.
  const std::size_t added = svg.find("#e0a3bd");
  REQUIRE(added != std::string::npos);
  CHECK(svg.find("#e0a3bd", added + 1) == std::string::npos);
}

TEST_CASE("a warp that copies and multiplies is a consumer") {
  const Timeline timeline =
      play({{0,
             {step(Kind::kInit, 1, 0), step(Kind::kArrive, 1, 0, 320), step(Kind::kLoad, 0, 0, 320),
              step(Kind::kWait, 1, 0), matmul(64), step(Kind::kCommit), step(Kind::kWaitWgmma)}}});
  const auto lanes = lab::lanes_of(timeline);
  REQUIRE(lanes.size() == 1);
  CHECK(lanes[0].name == "consumer 0");
}

}  // namespace
}  // namespace fa::on_lab
