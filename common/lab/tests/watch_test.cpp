// The watched lab: each broken kernel is found at its line, and its right twin shows nothing. A
// line is named by the comment at its end.
#include "common/lab/watch.hpp"

#include <algorithm>
#include <stdexcept>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/gpu/tests/broken.cuh"
#include "common/lab/sites.hpp"
#include "common/lab/tests/reports.hpp"
#include "common/lab/trace.hpp"

namespace fa::on_watched_lab {
namespace {

using lab::Report;
using namespace testing;

const std::string kThisFile = "common/lab/tests/watch_test.cpp";
const std::string kBroken = "common/gpu/tests/broken.cuh";

// The only finding of a report, which has a kind.
lab::Finding only(const Report& report, const std::string& kind) {
  CAPTURE(report.text());
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].kind == kind);
  return report.findings[0];
}

// A line of this file, as the observer names it.
std::string marked(const std::string& mark) {
  return place_of(kThisFile, mark);
}

// ---------------------------------------------------------------- what is found

TEST_CASE("each broken kernel is found once at its line, its right twin is not") {
  for (const BrokenKernel& kernel : broken_kernels()) {
    CAPTURE(kernel.name);
    check_clean(watched([&] { kernel.run(false); }));
    const Report report = watched([&] { kernel.run(true); });
    CAPTURE(report.text());
    const std::string line = place_of(kBroken, kernel.line),
                      other = place_of(kBroken, kernel.other);
    // Which of two threads came first is chance.
    const auto stands_there = [&](const lab::Finding& finding) {
      return (finding.where == line && finding.other == other) ||
             (finding.where == other && finding.other == line);
    };
    CHECK(1 == std::count_if(report.findings.begin(), report.findings.end(),
                             [&](const lab::Finding& finding) {
                               return finding.kind == kernel.kind && stands_there(finding);
                             }));
  }
}

TEST_CASE("lines of packages are not a kernel's, and only those of lessons and tests count") {
  const std::string folders = "/opt/eigen/include/eigen3||/home/me/my boost";
  CHECK(lab::lies_in("/opt/eigen/include/eigen3/Eigen/src/Core/BFloat16.h:286", folders));
  CHECK(lab::lies_in("opt/eigen/include/eigen3/Eigen/Core:3", folders));  // seen from a cache
  CHECK(lab::lies_in("/home/me/my boost/context/fiber.hpp:9", folders));
  CHECK_FALSE(lab::lies_in("/opt/eigen/include/eigen3_kernels/mine.cu:2", folders));
  CHECK_FALSE(lab::lies_in("mine.cu:2", ""));
  CHECK(lab::is_of_course("06_flash_backward/kernels/04_atomics.cuh:87"));
  CHECK(lab::is_of_course("common/gpu/tests/broken.cuh:12"));
  for (const char* const line :
       {"opt/eigen/include/eigen3/Eigen/Core:3", "/home/me/06_flash_backward/mine.cuh:3",
        "common/gpu/hopper_lab.hpp:20", "??:0", "06"}) {
    CAPTURE(line);
    CHECK_FALSE(lab::is_of_course(line));
  }
}

// Lane 0 synchronises with lane 1, and lane 1 with lane 2.
__global__ void by_way_of_a_third_lane(float* out, bool both) {
  __shared__ float box;
  const unsigned lane = threadIdx.x;
  if (lane == 0) box = 1;
  if (lane < 2) __syncwarp(3);
  if (both && (lane == 1 || lane == 2)) __syncwarp(6);
  if (lane == 2) *out = box;
}

TEST_CASE("order passes through a third lane, but not by itself") {
  const auto run = [](bool both) {
    return watched([&] {
      DeviceBuffer<float> out(1);
      launch(by_way_of_a_third_lane, {{1}, {32}}, out.data(), both);
    });
  };
  check_clean(run(true));
  only(run(false), "race");
}

__global__ void follows(const float* const* pointers, float* out) {
  out[threadIdx.x] = *pointers[threadIdx.x];  // pointer is followed
}

TEST_CASE("a pointer to nowhere is found at its line, and ends the launch") {
  const lab::Watch watch;
  DeviceBuffer<const float*> pointers(32);
  pointers.zero();
  DeviceBuffer<float> out(32);
  const std::string place = marked("pointer is followed");
  CHECK(contains(message_of<std::runtime_error>([&] {
                   launch(follows, {{1}, {32}}, pointers.data(), out.data());
                 }),
                 place));
  CHECK(contains(only(watch.report(), "out of bounds").where, place));
}

// ---------------------------------------------------------------- counting

template <int pad>
__global__ void transposes(const float* in, float* out) {
  __shared__ float tile[32][32 + pad];
  const unsigned x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = in[32 * y + x];
  __syncthreads();
  out[32 * y + x] = tile[x][y];  // column of the tile
}

__global__ void strided_copy(const float* in, float* out, unsigned stride) {
  out[threadIdx.x] = in[stride * threadIdx.x];  // strided
}

const lab::LineTraffic& traffic_at(const Report& report, const std::string& mark, bool shared,
                                   bool write) {
  for (const lab::LineTraffic& line : report.traffic) {
    if (line.shared == shared && line.write == write && contains(line.where, marked(mark))) {
      return line;
    }
  }
  FAIL("no such line in\n" << report.text());
  return report.traffic[0];
}

template <int pad>
Report transpose_report() {
  return watched([&] {
    const auto in = ones(1024);
    DeviceBuffer<float> out(1024);
    launch(transposes<pad>, {{1}, {32, 32}}, in.data(), out.data());
  });
}

TEST_CASE("bank conflicts are counted with the worst request, and a pad removes them") {
  const Report bad = transpose_report<0>(), good = transpose_report<1>();
  check_clean(bad);
  check_clean(good);
  const lab::LineTraffic* const column = bad.worst_shared();
  REQUIRE(column != nullptr);
  CHECK(column == &traffic_at(bad, "column of the tile", true, false));
  CHECK(column->requests == 32);  // one for each warp
  CHECK(column->bytes == 4096);
  CHECK(column->wavefronts == 32 * 32);
  CHECK(column->ideal == 32);
  CHECK(column->worst.lanes == 0xffffffffu);
  CHECK(column->worst.size == 4);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    CHECK(column->worst.address[lane] == 128 * lane);  // column 0
  }
  CHECK(traffic_at(good, "column of the tile", true, false).wavefronts == 32);
}

TEST_CASE("sectors of global memory are counted") {
  const auto run = [](unsigned stride) {
    return watched([&] {
      const auto in = ones(32 * 9);
      DeviceBuffer<float> out(32);
      launch(strided_copy, {{1}, {32}}, in.data(), out.data(), stride);
    });
  };
  for (const unsigned stride : {1u, 2u, 4u, 8u, 9u}) {
    const Report report = run(stride);
    const auto& reads = traffic_at(report, "strided", false, false);
    CHECK(reads.requests == 1);
    CHECK(reads.bytes == 128);
    CHECK(reads.sectors == std::min(4 * stride, 32u));
    CHECK(reads.ideal == 4);
    CHECK(traffic_at(report, "strided", false, true).sectors == 4);
  }
}

__global__ void stores(float* out, unsigned step) {
  if (threadIdx.x % step == 0) out[threadIdx.x] = 1;  // some lanes
}

TEST_CASE("requests with lanes missing are diverged, that of a short last warp is not") {
  for (const unsigned threads : {64u, 37u}) {
    const unsigned step = threads == 64 ? 2 : 1;
    const Report report = watched([&] {
      DeviceBuffer<float> out(64);
      launch(stores, {{1}, {threads}}, out.data(), step);
    });
    const auto& line = traffic_at(report, "some lanes", false, true);
    CHECK(line.requests == 2);
    CHECK(line.diverged == (step == 2 ? 2 : 0));
    CHECK(line.bytes == 4 * threads / step);
    CHECK(report.worst_shared() == nullptr);
  }
}

__global__ void counts_atomically(int* shared_out, float* sum, int* count) {
  __shared__ int votes;
  if (threadIdx.x == 0) votes = 0;
  __syncthreads();
  atomicAdd(&votes, 1);  // votes
  atomicAdd(sum, 1.0f);  // a sum
  atomicAdd(count, 1);   // a count
  __syncthreads();
  shared_out[threadIdx.x] = votes;
}

TEST_CASE("atomic operations are counted, each as one request of a warp") {
  const Report report = watched([] {
    DeviceBuffer<int> out(64), count(1);
    DeviceBuffer<float> sum(1);
    sum.zero();
    count.zero();
    launch(counts_atomically, {{1}, {64}}, out.data(), sum.data(), count.data());
  });
  check_clean(report);
  CHECK(traffic_at(report, "votes", true, true).atomics == 2);
  CHECK(traffic_at(report, "a count", false, true).atomics == 2);
  const auto& sums = traffic_at(report, "a sum", false, true);
  CHECK(sums.atomics == 2);
  CHECK(sums.requests == 2);
  for (const auto& line : report.traffic) {
    // The lab loads before it compares and swaps; a GPU does not.
    CHECK((line.where != sums.where || line.write));
    if (!line.write) CHECK(line.atomics == 0);
  }
  CHECK(contains(report.json(), "\"atomics\": 2"));
  CHECK(contains(report.text(), "atomics"));
}

__global__ void dynamic_column(float* out) {
  float* tile = dynamic_shared<float>();
  tile[8 + 32 * threadIdx.x] = 1;  // column of dynamic memory
  out[threadIdx.x] = 1;
}

TEST_CASE("dynamic shared memory counts from its own beginning") {
  const Report report = watched([] {
    DeviceBuffer<float> out(32);
    launch(dynamic_column, {{1}, {32}, 4096}, out.data());
  });
  const lab::LineTraffic* const worst = report.worst_shared();
  REQUIRE(worst != nullptr);
  CHECK(contains(worst->where, marked("column of dynamic memory")));
  CHECK(worst->write);
  CHECK(worst->worst.address[0] == 32);
  CHECK(worst->worst.address[31] == 32 + 128 * 31);
}

TEST_CASE("a report is also written as JSON, and of a mistake of many threads all are counted") {
  const Report report = watched([] {
    const auto x = ones(32);
    DeviceBuffer<float> y(32);
    launch(reads_its_output<true>, {{1}, {32}}, x.data(), y.data(), 2, 0);
  });
  CHECK(only(report, "unwritten").count == 32);
  const std::string json = report.json();
  for (const char* part : {"{\"findings\": [{\"kind\": \"unwritten\"", "\"count\": 32}]",
                           "\"memory\": \"global\", \"access\": \"write\""}) {
    CHECK_MESSAGE(contains(json, part), part);
  }
}

// Not inlined, as a larger function would not be.
template <int number>
__attribute__((noinline)) __device__ void adds(float* out) {
  out[0] += number;  // helper after the branch
}
template <int number>
__global__ void branches(float* out, unsigned n) {
  if (threadIdx.x < n) {
    out[threadIdx.x] = number;  // within the guard
  } else if (number > 1) {
    out[threadIdx.x] = 0;  // beyond the guard
  }
  if (n > 32) {
    __syncthreads();  // no access
    adds<number>(out);
  }
}

TEST_CASE("lines that no thread reached are reported, also in called functions") {
  if (!lab::kLinesAreKnown) return;
  const auto run = [](auto kernel, unsigned n) {
    return watched([&] {
      DeviceBuffer<float> out(32);
      launch(kernel, {{1}, {32}}, out.data(), n);
    });
  };
  lab::Coverage coverage = run(branches<1>, 32).coverage;
  const auto lines = coverage.lines;
  CHECK(coverage.reached.count(marked("within the guard")) == 1);
  for (const char* mark : {"no access", "helper after the branch"}) {
    CHECK(lines.count(marked(mark)) == 1);
    CHECK(coverage.reached.count(marked(mark)) == 0);
  }
  CHECK(lines.count(marked("beyond the guard")) == 0);  // of another instance
  const int helper = line_of(kThisFile, "helper after the branch");
  const int branch = line_of(kThisFile, "no access");
  // Compilers may also give some of it to the call behind the barrier.
  const std::string unreached = lab::unreached(coverage);
  const std::string both = fmt::format("watch_test.cpp:{}, {}", helper, branch);
  CHECK((unreached == both || unreached == fmt::format("{}, {}", both, branch + 1)));

  coverage.add(run(branches<1>, 33).coverage);
  CHECK(coverage.lines == lines);
  CHECK(lab::unreached(coverage) == "");
  coverage.add(run(branches<2>, 32).coverage);
  CHECK(lab::unreached(coverage) ==
        fmt::format("watch_test.cpp:{}", line_of(kThisFile, "beyond the guard")));
}

TEST_CASE("findings of several problems are merged, the first is counted") {
  const auto problem = [](const std::string& name, unsigned n) {
    return lab::TracedProblem{name, [n] {
                                DeviceBuffer<float> out(31);
                                launch(branches<1>, {{1}, {32}}, out.data(), n);
                              }};
  };
  const auto trace =
      lab::trace({"branches", "stores", {}}, {problem("31 lanes", 31), problem("32 lanes", 32),
                                              problem("no", 0), problem("again 32", 32)});
  REQUIRE(trace);
  CHECK(trace->findings == 1);
  CHECK(trace->written_bytes == 4 * 31);
  CHECK(contains(in_one_line(trace->text), "(2 times) seen with 32 lanes; again 32"));
  CHECK(contains(trace->json, "\"count\": 2, \"seen\": \"32 lanes; again"));
  CHECK(contains(trace->json, "\"problems\": [\"31 lanes\", \"32 lanes\""));
}

}  // namespace
}  // namespace fa::on_watched_lab
