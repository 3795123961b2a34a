// Every kernel on every backend of this build that can run here: ragged sizes, poisoned outputs; how
// they are timed; and that the order of operations shows the improvement that each step for Hopper is
// written for.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include <doctest/doctest.h>

#include "04_tiled_matmul/src/backend.hpp"
#include "04_tiled_matmul/src/sections.hpp"
#include "common/check/acceptance.hpp"

using namespace fa;
using lab::BlockRecord;
using lab::Step;
using tiled::Backend;
using tiled::Group;
using tiled::kDrawn;
using Kind = Step::Kind;

namespace {

void check_group(const Group& group, const Backend& backend, std::int64_t m, std::int64_t n,
                 std::int64_t k) {
  const tiled::Inputs in = group.inputs(m, n, k);
  const auto ref = group.reference(in);
  const auto plain = group.plain(in);
  const double magnitude = tiled::magnitude_of(group, in);
  for (const tiled::Kernel& kernel : group.kernels) {
    const tiled::Prepared prepared = kernel.prepare(in);
    prepared.launch();
    const Verdict verdict =
        accept(kernel.name, prepared.result(), ref, plain, kForwardFactor, magnitude);
    CAPTURE(backend.properties.name);
    CAPTURE(group.title);
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    CAPTURE(verdict.report());
    CHECK(verdict.accepted);
  }
}

const std::vector<Shape<3>> kSizes{{1, 1, 1},      {17, 19, 23},  {33, 65, 31}, {128, 128, 32},
                                   {130, 257, 75}, {5, 300, 129}, {200, 3, 7}};

// Checks a group on each backend. @param kernels how many it has in the lab, where all can run
void check_on_all_backends(const std::string& name, std::size_t kernels,
                           const std::vector<Shape<3>>& sizes = kSizes) {
  CAPTURE(name);
  for (const Backend& backend : tiled::backends()) {
    if (!backend.available || backend.kind == "watched") continue;
    const Group& group = tiled::group_of(backend, name);
    CHECK(group.kernels.size() + group.left_out.size() == kernels);
    if (backend.kind == "lab") CHECK(group.left_out.empty());
    for (const Shape<3>& size : sizes) check_group(group, backend, size[0], size[1], size[2]);
  }
}

}  // namespace

TEST_CASE("vector addition, transposes, softmax of rows, and two matmuls back to back") {
  check_on_all_backends("add", 1);
  check_on_all_backends("transpose", 4);
  check_on_all_backends("softmax", 2);
  check_on_all_backends("block", 1);
}
TEST_CASE("matmuls in float32") {
  for (const char* group : {"matmul", "matmul_bt"}) check_on_all_backends(group, 8);
}
TEST_CASE("matmuls on tensor cores") {
  for (const char* group : {"mma", "mma_bt"}) check_on_all_backends(group, 8);
}
TEST_CASE("matmuls on tensor cores that reuse their stages") {
  for (const char* group : {"mma", "mma_bt"}) {
    check_on_all_backends(group, 8, {{130, 260, 257}, {140, 20, 700}});
  }
}

TEST_CASE("cuBLAS, where there is one, computes the same") {
  for (const Backend& backend : tiled::backends()) {
    if (!backend.available || backend.kind != "gpu") continue;
    for (Group group : backend.groups) {
      const auto peer = tiled::cublas(group.name);
      if (!peer) continue;
      group.kernels = {*peer};
      check_group(group, backend, 136, 264, 72);
    }
  }
}

TEST_CASE("wavefronts are those that ncu counts on an H200") {
  for (const Backend& backend : tiled::backends()) {
    if (backend.kind != "watched") continue;
    const Group& group = tiled::group_of(backend, "matmul");
    const auto kernel =
        std::find_if(group.kernels.begin(), group.kernels.end(),
                     [](const auto& step) { return step.name == "12_matmul_vector_loads"; });
    REQUIRE(kernel != group.kernels.end());
    const auto trace = tiled::trace(group, *kernel, {{128, 128, 128}});
    REQUIRE(trace.has_value());
    CHECK(trace->wavefronts == 12288 + 1024);  // loads and stores
  }
}

TEST_CASE("the watched lab finds nothing wrong in any kernel") {
  lab::Coverage coverage;
  for (const Backend& backend : tiled::backends()) {
    if (backend.kind != "watched") continue;
    for (const Group& group : backend.groups) {
      for (const tiled::Kernel& kernel : group.kernels) {
        const auto trace = tiled::trace(group, kernel, tiled::watched_sizes(kernel.tiles));
        REQUIRE(trace.has_value());
        CAPTURE(group.title);
        CAPTURE(trace->text);
        CHECK(trace->findings == 0);
        coverage.add(trace->coverage);
      }
    }
    CHECK(lab::unreached_text(coverage) == lab::kAllReached);
  }
}

// With a backend that only notes that it ran them.
TEST_CASE("kernels are interleaved, and the median of their rounds counts") {
  std::vector<std::string> launched;
  tiled::Group group;
  group.name = "none that cuBLAS knows";
  group.inputs = [](std::int64_t, std::int64_t, std::int64_t) { return tiled::Inputs{}; };
  group.flops = [](double m, double n, double k) { return 2 * m * n * k; };
  group.bytes = [](double, double, double) { return 1.0; };
  for (const char* name : {"slow", "quick"}) {
    group.kernels.push_back(
        {name, "", [&launched, name](const tiled::Inputs&) {
           return tiled::Prepared{[&launched, name] { launched.push_back(name); }, {}};
         }});
  }
  tiled::Backend backend;
  std::map<std::string, int> rounds;
  backend.milliseconds = [&](const std::function<void()>& work, int repeats) {
    CHECK(repeats >= 1);
    work();
    const std::string& name = launched.back();
    // A first round that is slower than all others, and a quick one.
    const int round = rounds[name]++;
    const double own = name == "slow" ? 8 : 2;
    return std::optional<double>(round == 0 ? 100 * own : round == 1 ? own / 2 : own);
  };
  backend.resources = [](const std::function<void()>&) { return std::vector<KernelResources>{}; };
  const auto rows = tiled::time_kernels(backend, group, 1000);
  REQUIRE(launched.size() >= 6);
  // In each round each kernel once, and not always in the same order.
  std::set<std::string> first;
  for (std::size_t i = 0; i + 1 < launched.size(); i += 2) {
    CHECK(launched[i] != launched[i + 1]);
    first.insert(launched[i]);
  }
  CHECK(first.size() == 2);
  REQUIRE(rows.size() == 2);
  const auto value = [&](std::size_t row, const std::string& field) {
    const auto found = std::find_if(rows[row].begin(), rows[row].end(),
                                    [&](const auto& pair) { return pair.first == field; });
    REQUIRE(found != rows[row].end());
    return std::get<double>(found->second);
  };
  CHECK(value(0, "milliseconds") == 8);
  CHECK(value(1, "milliseconds") == 2);
  CHECK(value(1, "tflops") == doctest::Approx(1.0));
}

namespace {

// Steps along k of a tile of C, and copies of a step: A, and B in panels of 64 columns.
constexpr int kSteps = 8, kCopies = 1 + 4;

// What the lab records of the steps for Hopper without clusters.
const std::vector<BlockRecord>& blocks_of(std::size_t step) {
  static const std::vector<std::vector<BlockRecord>> all = [] {
    const std::vector<Backend> backends = tiled::backends();
    std::vector<std::vector<BlockRecord>> recorded;
    for (const tiled::Kernel& kernel : tiled::group_of(backends.front(), "mma").kernels) {
      if (kernel.needs.architecture != 90 || kernel.tiles.cluster != 1) continue;
      recorded.push_back(tiled::recorded(backends.front(), kernel).blocks);
    }
    return recorded;
  }();
  REQUIRE(all.size() == 3);
  return all[step];
}
constexpr std::size_t kOneStage = 0, kStages = 1, kPersistent = 2;

// Copies that a warp issues: all, those before its first matmul, and those while one of its matmuls
// is in flight.
struct Copies {
  int all = 0, before_matmuls = 0, during_matmuls = 0;
};
Copies copies_of(const std::vector<Step>& steps) {
  Copies copies;
  bool begun = false, in_flight = false;
  for (const Step& step : steps) {
    if (step.kind == Kind::kWgmma) begun = in_flight = true;
    if (step.kind == Kind::kWaitWgmma && step.count == 0) in_flight = false;
    if (step.kind != Kind::kLoad) continue;
    ++copies.all;
    copies.before_matmuls += !begun;
    copies.during_matmuls += in_flight;
  }
  return copies;
}

}  // namespace

TEST_CASE("one stage is copied while no matmul is in flight, several before the first one") {
  const Copies one = copies_of(blocks_of(kOneStage)[0].warps[0]);
  CHECK(one.before_matmuls == kCopies);
  CHECK(one.during_matmuls == 0);
  const Copies several = copies_of(blocks_of(kStages)[0].warps[0]);
  CHECK(several.before_matmuls >= 3 * kCopies);
  CHECK(several.all == kSteps * kCopies);
}

TEST_CASE("a consumer fetches until a producer does, which waits for free stages only") {
  for (const std::size_t step : {kOneStage, kStages}) {
    CAPTURE(step);
    CHECK(blocks_of(step)[0].warps_with(Kind::kLoad) == std::set<std::size_t>{0});
    CHECK(blocks_of(step)[0].warps_with(Kind::kWgmma).count(0) == 1);
  }
  const BlockRecord& persistent = blocks_of(kPersistent)[0];
  const std::set<std::size_t> producers = persistent.warps_with(Kind::kLoad);
  REQUIRE(producers.size() == 1);
  CHECK(persistent.warps_with(Kind::kWgmma).count(*producers.begin()) == 0);
  CHECK(persistent.warps_with(Kind::kWgmma).size() == 8);
  const std::vector<Step>& steps = persistent.warps[*producers.begin()];
  bool copied = false;
  for (const Step& step : steps) {
    copied = copied || step.kind == Kind::kLoad;
    if (!copied) continue;
    CHECK((step.kind == Kind::kLoad || step.kind == Kind::kWait || step.kind == Kind::kArrive));
  }
  CHECK(copies_of(steps).all == 2 * kSteps * kCopies);  // both tiles of C
}
