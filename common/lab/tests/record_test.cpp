// Records of the lab, what is said of them in words, and how timelines are drawn.
#include "common/lab/record.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/gpu/hopper.cuh"
#include "common/gpu/launch.cuh"
#include "common/lab/timeline.hpp"
#include "common/testing/process.hpp"

namespace fa::on_lab {
namespace {

using lab::BlockRecord;
using lab::Span;
using lab::Step;
using lab::Timeline;
using testing::contains;
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
Step load(int barrier, int tensor, std::int64_t bytes) {
  Step result = step(Kind::kLoad, 0, barrier, bytes);
  result.tensor = tensor;
  return result;
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
      for (const Step& of_warp : one.warps[warp]) kinds.push_back(of_warp.kind);
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
}

// A warp stores, adds by atomics, looks whether it is its turn, and has a copy add.
__global__ void adding_kernel(float* out, unsigned* turn) {
  Shared& shared = *dynamic_shared<Shared>();
  shared.numbers[threadIdx.x] = exp2_approx(1);
  for (int i = 0; i < 3; ++i) store2(out + 2 * threadIdx.x, 0, 1);
  atomicAdd(out + threadIdx.x, 1.0f);
  atomicAdd(out + threadIdx.x, 1.0f);
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x > 0) return;
  while (atomicAdd(turn, 0u) != 0) continue;
  bulk_add(out, shared.numbers, 128);
  bulk_commit();
  bulk_wait_read<0>();
  bulk_wait<0>();
  atomicAdd(turn, 1u);
}

void add_and_store() {
  DeviceBuffer<float> out(64);
  DeviceBuffer<unsigned> turn(1);
  turn.zero();
  launch(adding_kernel, {{1}, {32}, sizeof(Shared)}, out.data(), turn.data());
}

TEST_CASE("a record has stores and additions in their order, apart") {
  const std::vector<BlockRecord> blocks = lab::record(add_and_store);
  REQUIRE(blocks.size() == 1);
  const Steps& steps = blocks[0].warps.at(0);
  const std::pair<Kind, std::int64_t> expected[] = {
      {Kind::kWork, 0},         {Kind::kWrite, 3 * 256}, {Kind::kAdd, 2 * 128},
      {Kind::kMeet, 0},         {Kind::kLook, 0},        {Kind::kStore, 128},
      {Kind::kCommitStores, 0}, {Kind::kWaitStores, 0},  {Kind::kWaitArrivals, 0}};
  REQUIRE(steps.size() == std::size(expected));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    CHECK((steps[i].kind == expected[i].first));
    CHECK(steps[i].bytes == expected[i].second);
  }
  CHECK(steps[5].adds);
  CHECK(steps[5].tensor == -1);
}

TEST_CASE("kernels that do not multiply are left out of a record of matmuls") {
  CHECK(lab::record_matmuls(add_and_store).empty());
}

TEST_CASE("matmuls take 4096 FLOPs a cycle at the peak, whichever warps they are of") {
  BlockRecord warpgroup;
  warpgroup.warps.assign(4, {work(3), matmul(128), matmul(64, true), step(Kind::kCommit)});
  // 64 x 192 x 16, twice for two blocks.
  const double cycles = 2. * 64 * 192 * 16 / 4096;
  CHECK(lab::peak_cycles({warpgroup}) == doctest::Approx(cycles));
  CHECK(lab::peak_cycles({warpgroup, warpgroup}) == doctest::Approx(2 * cycles));
  CHECK(lab::peak_cycles({}) == 0);
}

TEST_CASE("only one record is made at a time, and none after an error") {
  CHECK_THROWS_AS(lab::record([] { lab::record([] {}); }), std::logic_error);
  CHECK(lab::recorder == nullptr);
  CHECK(record_of_small(1).size() == 1);
}

// ---------------------------------------------------------------- in words

TEST_CASE("what repeats stands there once, loops in loops too, and equal blocks stand together") {
  Steps steps{work(1)};
  for (int outer = 0; outer < 3; ++outer) {
    steps.push_back(step(Kind::kMeet));
    for (int inner = 0; inner < 4; ++inner) {
      steps.push_back(step(Kind::kWait, 1, 7));
      steps.push_back(work(8));
    }
  }
  BlockRecord block, other;
  block.warps = {steps};
  other.warps = {{work(2)}};
  const std::string text = lab::operations_text({block, block, other}, {});
  CHECK(text.find("blocks 1, 2 of 3\nwarp 0\n") == 0);
  CHECK(contains(text,
                 "\n  3 times\n"
                 "    wait     __syncthreads()\n"
                 "    4 times\n"
                 "      wait     mbarrier 7\n"
                 "      compute  8 exponentials\n\n"
                 "block 3 of 3\n"));
  CHECK(lab::operations_text({}, {}).empty());
}

TEST_CASE("stages of a ring have one name, and a warp is said to differ from another by a line") {
  Steps producer{step(Kind::kInit, 1, 0)};
  for (int stage = 0; stage < 2; ++stage) {
    producer.push_back(step(Kind::kWait, 1, 10 + stage));
    producer.push_back(load(stage, 1, 24));
  }
  const Steps part(producer.begin() + 1, producer.end());
  BlockRecord block;
  block.warps = {producer, part};
  const std::string text = lab::operations_text({block}, {"K", "V"});
  CHECK(contains(text,
                 "  2 times\n"
                 "    wait     room for V\n"
                 "    load     24 bytes of V\n"
                 "warp 1 (producer)\n"
                 "  as warp 0, without\n"
                 "    init     1 mbarrier\n"));
}

// ---------------------------------------------------------------- timelines

// The names of its lanes, and their first warps.
std::string lanes(const std::vector<Span>& copies, int multiplies) {
  Timeline timeline;
  timeline.matmuls = {{Span::Kind::kScores, 200, 264, multiplies, 0}};
  timeline.copies = copies;
  std::string text;
  for (const lab::Lane& lane : lab::lanes_of(timeline)) {
    text += fmt::format("{}: {}; ", lane.name, lane.warp);
  }
  return text;
}

TEST_CASE("a timeline has a lane for the producer, for each consumer, and for warps that add") {
  const Span load{Span::Kind::kLoad, 0, 200, 0, 0}, add{Span::Kind::kBulkAdd, 0, 100, 10, -1};
  CHECK(lanes({load, load}, 4) == "producer: 0; consumer 0: 4; ");
  CHECK(lanes({load, add}, 4) == "producer: 0; consumer 0: 4; adder 0: 10; ");
  CHECK(lanes({load}, 0) == "consumer 0: 0; ");
}

TEST_CASE("a trace file has each span with its times") {
  Timeline timeline;
  timeline.cycles = 264;
  timeline.copies = {{Span::Kind::kLoad, 0, 150, 0, 0}};
  const std::string json = lab::trace_events({{"a & b", timeline, 66, {"K"}}});
  CHECK(contains(json, "\"cycles\": 264.0, \"peak_cycles\": 66.0"));
  CHECK(contains(json, "\"ts\": 0.0, \"dur\": 150.0, \"name\": \"load\""));
}

}  // namespace
}  // namespace fa::on_lab
