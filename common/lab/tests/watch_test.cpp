// The watched lab: each broken kernel is found at its line, and its repaired twin shows nothing. A line is
// named by the comment at its end.
#include "common/lab/watch.hpp"

#include <algorithm>
#include <fstream>
#include <functional>

#include <doctest/doctest.h>

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/testing/process.hpp"

namespace fa::on_watched_lab {
namespace {

using lab::Report;
using testing::contains;

// The number of the line of this file that ends with a mark.
int line_of(const std::string& mark) {
  std::ifstream file(FA_WATCH_TEST);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string comment = "// " + mark;
    if (line.size() > comment.size() &&
        line.compare(line.size() - comment.size(), comment.size(), comment) ==
            0) {
      return number;
    }
  }
  return -1;
}

Report watched(const std::function<void()>& work) {
  const lab::Watch watch;
  work();
  return watch.report();
}

// Exactly one finding, of this kind, at the marked lines (the second may be empty).
void check_found(const Report& report, const std::string& kind,
                 const std::string& mark, const std::string& other = "") {
  CAPTURE(report.text());
  REQUIRE(report.findings.size() == 1);
  const lab::Finding& finding = report.findings[0];
  CHECK(finding.kind == kind);
  const auto at = [](const std::string& where, const std::string& of) {
    return of.empty() ? where.empty()
                      : contains(where, "watch_test.cpp:" +
                                            std::to_string(line_of(of)));
  };
  // Which of two threads came first is chance.
  CHECK(((at(finding.where, mark) && at(finding.other, other)) ||
         (at(finding.where, other) && at(finding.other, mark))));
}

void check_clean(const Report& report) {
  CAPTURE(report.text());
  CHECK(report.findings.empty());
}

DeviceBuffer<float> ones(std::int64_t count) {
  const std::vector<float> values(static_cast<std::size_t>(count), 1.0f);
  DeviceBuffer<float> buffer(count);
  buffer.upload(values.data());
  return buffer;
}

// ---------------------------------------------------------------- barriers

template <bool broken>
__global__ void reverse(const float* in, float* out) {
  __shared__ float tile[64];
  const unsigned i = threadIdx.x;
  tile[i] = in[i];  // reverse writes
  if (!broken) __syncthreads();
  out[i] = tile[63 - i];  // reverse reads
}

TEST_CASE("a missing barrier is a race between two lines") {
  // The first thread reads what the last has not written yet.
  const auto run = [](auto kernel) {
    return watched([&] {
      const auto in = ones(64);
      DeviceBuffer<float> out(64);
      launch(kernel, {{1}, {64}}, in.data(), out.data());
    });
  };
  check_clean(run(reverse<false>));
  const Report report = run(reverse<true>);
  CAPTURE(report.text());
  REQUIRE(report.findings.size() >= 2);
  const auto of_kind = [&](const std::string& kind) {
    return std::any_of(
        report.findings.begin(), report.findings.end(), [&](const auto& f) {
          return f.kind == kind &&
                 contains(f.where + f.other,
                          "watch_test.cpp:" +
                              std::to_string(line_of("reverse reads")));
        });
  };
  CHECK(of_kind("race"));
  CHECK(of_kind("unwritten"));
  CHECK(contains(report.text(), "__syncthreads() is probably missing"));
}

template <bool broken>
__global__ void sum_of_tiles(const float* in, float* out) {
  __shared__ float tile[64];
  const unsigned i = threadIdx.x;
  float sum = 0;
  for (int t = 0; t < 3; ++t) {
    tile[i] = in[i];  // tile is written again
    __syncthreads();
    for (int j = 0; j < 64; ++j) sum += tile[j];  // tile is read
    if (!broken) __syncthreads();
  }
  out[i] = sum;
}

TEST_CASE(
    "a missing barrier at the end of a loop is a race with the next turn") {
  const auto run = [](auto kernel) {
    return watched([&] {
      const auto in = ones(64);
      DeviceBuffer<float> out(64);
      launch(kernel, {{1}, {64}}, in.data(), out.data());
    });
  };
  check_clean(run(sum_of_tiles<false>));
  const Report report = run(sum_of_tiles<true>);
  check_found(report, "race", "tile is written again", "tile is read");
  CHECK(contains(report.text(), "__syncthreads() is probably missing"));
}

template <bool broken>
__global__ void tree_sum(const float* in, float* out) {
  __shared__ float part[128];
  const unsigned i = threadIdx.x;
  part[i] = in[i];
  __syncthreads();
  for (unsigned half = 64; half > 0; half /= 2) {
    float other = 0;
    if (i < half) other = part[i + half];
    if (i < half) part[i] += other;  // tree adds
    if (!broken) __syncthreads();
  }
  if (i == 0) out[0] = part[0];
}

TEST_CASE("a tree of sums needs a barrier at every level") {
  const auto run = [](auto kernel) {
    return watched([&] {
      const auto in = ones(128);
      DeviceBuffer<float> out(1);
      launch(kernel, {{1}, {128}}, in.data(), out.data());
    });
  };
  check_clean(run(tree_sum<false>));
  const Report report = run(tree_sum<true>);
  CHECK_FALSE(report.findings.empty());
  for (const auto& finding : report.findings) CHECK(finding.kind == "race");
}

__global__ void barrier_in_two_branches() {
  if (threadIdx.x < 32) {
    __syncthreads();  // first branch
  } else {
    __syncthreads();  // second branch
  }
}

__global__ void leaves_before_the_barrier(float* out, unsigned n) {
  if (threadIdx.x >= n) return;
  __syncthreads();  // not for all
  out[threadIdx.x] = 1;
}

TEST_CASE("barriers that not all threads reach together are found") {
  check_found(watched([] {
                launch(barrier_in_two_branches, {{1}, {64}});
              }),
              "barrier", "first branch", "second branch");
  const Report report = watched([] {
    DeviceBuffer<float> out(64);
    launch(leaves_before_the_barrier, {{1}, {64}}, out.data(), 50);
  });
  check_found(report, "barrier", "not for all");
  CHECK(contains(report.text(), "14 threads of the block have ended"));
}

// ---------------------------------------------------------------- warps

template <bool broken>
__global__ void through_a_neighbour(const float* in, float* out) {
  __shared__ float box[32];
  const unsigned lane = threadIdx.x;
  box[lane] = in[lane];  // box is filled
  const float shuffled = __shfl_xor_sync(kAllLanes, in[lane], 1);
  if (!broken) __syncwarp();
  out[lane] = shuffled + box[lane ^ 3];  // box is emptied
}

TEST_CASE("a shuffle does not order memory, __syncwarp does") {
  const auto run = [](auto kernel) {
    return watched([&] {
      const auto in = ones(32);
      DeviceBuffer<float> out(32);
      launch(kernel, {{1}, {32}}, in.data(), out.data());
    });
  };
  check_clean(run(through_a_neighbour<false>));
  const Report report = run(through_a_neighbour<true>);
  check_found(report, "race", "box is emptied", "box is filled");
  CHECK(contains(report.text(), "only __syncwarp() orders memory"));
}

// ---------------------------------------------------------------- bounds and contents

template <bool broken>
__global__ void guarded(const float* in, float* out, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (broken ? i <= n : i < n) {
    out[i] = in[i];  // at the edge
  }
}

TEST_CASE("a guard that is off by one reads and writes out of bounds") {
  const auto run = [](auto kernel) {
    return watched([&] {
      const auto in = ones(100);
      DeviceBuffer<float> out(100);
      launch(kernel, {{4}, {32}}, in.data(), out.data(), 100);
    });
  };
  check_clean(run(guarded<false>));
  const Report report = run(guarded<true>);
  REQUIRE_FALSE(report.findings.empty());
  for (const auto& finding : report.findings) {
    CHECK(finding.kind == "out of bounds");
    CHECK(contains(finding.where, "watch_test.cpp:" + std::to_string(line_of(
                                                          "at the edge"))));
    CHECK(contains(finding.message, "of block (3, 0, 0)"));
    CHECK(contains(finding.message, "byte 400 of a buffer of 400 bytes"));
  }
}

__global__ void reads_an_output(const float* never, float* out) {
  out[threadIdx.x] = never[threadIdx.x];  // nothing there
}

TEST_CASE("global memory that nobody wrote is not to be read") {
  const Report report = watched([] {
    DeviceBuffer<float> never(32), out(32);
    launch(reads_an_output, {{1}, {32}}, never.data(), out.data());
  });
  check_found(report, "unwritten", "nothing there");
  CHECK(report.findings[0].count == 32);
}

template <bool broken>
__global__ void partly_filled(const float* in, float* out) {
  float* tile = dynamic_shared<float>();
  const unsigned i = threadIdx.x;
  if (i < (broken ? 63u : 64u)) tile[i] = in[i];
  __syncthreads();
  out[i] = tile[63 - i];  // one is missing
}

TEST_CASE("an element of a shared tile that nobody wrote is not to be read") {
  const auto run = [](auto kernel) {
    return watched([&] {
      const auto in = ones(64);
      DeviceBuffer<float> out(64);
      // The second block must not see what the first one wrote.
      launch(kernel, {{2}, {64}, 64 * sizeof(float)}, in.data(), out.data());
    });
  };
  const Report broken = run(partly_filled<true>);
  CAPTURE(broken.text());
  CHECK(broken.findings[0].kind == "unwritten");
  CHECK(contains(broken.findings[0].where,
                 std::to_string(line_of("one is missing"))));
  for (const auto& finding : run(partly_filled<false>).findings) {
    CHECK(finding.kind == "race");  // both blocks write the same output
  }
}

// ---------------------------------------------------------------- blocks

__global__ void adds_plainly(float* sum) {
  if (threadIdx.x == 0) *sum += 1;  // plain sum
}
__global__ void adds_atomically(float* sum) {
  atomicAdd(sum, 1.0f);
}
__global__ void mixes(float* sum) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *sum = 0;  // plain store
  atomicAdd(sum, 1.0f);                               // atomic sum
}

TEST_CASE("blocks that add to one number need atomics") {
  const auto run = [](auto kernel) {
    return watched([&] {
      DeviceBuffer<float> sum(1);
      sum.zero();
      launch(kernel, {{4}, {32}}, sum.data());
    });
  };
  check_clean(run(adds_atomically));
  const Report report = run(adds_plainly);
  REQUIRE_FALSE(report.findings.empty());
  for (const auto& finding : report.findings) {
    CHECK(finding.kind == "race");
    CHECK(contains(finding.where, std::to_string(line_of("plain sum"))));
    CHECK(contains(finding.message, "different blocks"));
  }
  check_found(run(mixes), "race", "atomic sum", "plain store");
}

TEST_CASE("two launches are ordered") {
  check_clean(watched([] {
    DeviceBuffer<float> sum(1);
    sum.zero();
    launch(adds_plainly, {{1}, {32}}, sum.data());
    launch(adds_plainly, {{1}, {32}}, sum.data());
  }));
}

// ---------------------------------------------------------------- asynchronous copies

enum class Copies { kRight, kNoWait, kNoBarrier, kOneTooFew };

template <Copies kind>
__global__ void two_stages(const float* in, float* out) {
  __shared__ __align__(16) float stage[2][128];
  const unsigned i = 4 * threadIdx.x;
  cp_async16(&stage[0][i], in + i);  // first copy
  cp_async_commit();
  cp_async16(&stage[1][i], in + 128 + i);  // second copy
  cp_async_commit();
  if (kind != Copies::kNoWait) {
    cp_async_wait<kind == Copies::kOneTooFew ? 1 : 0>();
  }
  if (kind != Copies::kNoBarrier) __syncthreads();
  store4(out + i, load4(&stage[1][124 - i]));  // uses the second copy
}

template <Copies kind>
Report two_stages_watched() {
  return watched([] {
    const auto in = ones(256);
    DeviceBuffer<float> out(128);
    launch(two_stages<kind>, {{1}, {32}}, in.data(), out.data());
  });
}

TEST_CASE("an asynchronous copy must be waited for, and then met") {
  check_clean(two_stages_watched<Copies::kRight>());
  check_found(two_stages_watched<Copies::kNoWait>(), "copy",
              "uses the second copy", "second copy");
  check_found(two_stages_watched<Copies::kOneTooFew>(), "copy",
              "uses the second copy", "second copy");
  const Report report = two_stages_watched<Copies::kNoBarrier>();
  REQUIRE_FALSE(report.findings.empty());
  CHECK(contains(report.text(),
                 std::to_string(line_of("uses the second copy"))));
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

const lab::LineTraffic& traffic_at(const Report& report,
                                   const std::string& mark, bool shared,
                                   bool write) {
  for (const lab::LineTraffic& line : report.traffic) {
    if (line.shared == shared && line.write == write &&
        contains(line.where,
                 "watch_test.cpp:" + std::to_string(line_of(mark)))) {
      return line;
    }
  }
  FAIL("no such line in\n" << report.text());
  return report.traffic[0];
}

TEST_CASE("bank conflicts are counted, and a pad removes them") {
  const auto run = [](auto kernel) {
    return watched([&] {
      const auto in = ones(1024);
      DeviceBuffer<float> out(1024);
      launch(kernel, {{1}, {32, 32}}, in.data(), out.data());
    });
  };
  const Report bad = run(transposes<0>), good = run(transposes<1>);
  check_clean(bad);
  check_clean(good);
  const auto& column = traffic_at(bad, "column of the tile", true, false);
  CHECK(column.requests == 32);  // one for each warp
  CHECK(column.bytes == 4096);
  CHECK(column.wavefronts == 32 * 32);
  CHECK(column.ideal == 32);
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

__global__ void half_a_warp(float* out) {
  if (threadIdx.x % 2 == 0) out[threadIdx.x] = 1;  // even lanes
}

TEST_CASE("requests with lanes missing are counted as diverged") {
  const Report report = watched([] {
    DeviceBuffer<float> out(64);
    launch(half_a_warp, {{1}, {64}}, out.data());
  });
  const auto& line = traffic_at(report, "even lanes", false, true);
  CHECK(line.requests == 2);
  CHECK(line.diverged == 2);
  CHECK(line.bytes == 128);
}

__global__ void whole_warps(float* out) {
  out[threadIdx.x] = 1;  // all lanes there are
}

TEST_CASE("the short last warp of an odd block is not diverged") {
  const Report report = watched([] {
    DeviceBuffer<float> out(37);
    launch(whole_warps, {{1}, {37}}, out.data());
  });
  const auto& line = traffic_at(report, "all lanes there are", false, true);
  CHECK(line.requests == 2);
  CHECK(line.diverged == 0);
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
    launch(counts_atomically, {{1}, {64}}, out.data(), sum.data(),
           count.data());
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

TEST_CASE("the worst line of shared memory comes with its worst request") {
  const auto run = [](auto kernel) {
    return watched([&] {
      const auto in = ones(1024);
      DeviceBuffer<float> out(1024);
      launch(kernel, {{1}, {32, 32}}, in.data(), out.data());
    });
  };
  const Report report = run(transposes<0>);
  const lab::LineTraffic* const worst = report.worst_shared();
  REQUIRE(worst != nullptr);
  CHECK(worst == &traffic_at(report, "column of the tile", true, false));
  CHECK(worst->worst.lanes == 0xffffffffu);
  CHECK(worst->worst.size == 4);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    CHECK(worst->worst.address[lane] == 128 * lane);  // column 0
  }
  const Report padded = run(transposes<1>);
  REQUIRE(padded.worst_shared() != nullptr);
  CHECK(padded.worst_shared()->wavefronts == 32);
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
  CHECK(contains(worst->where,
                 std::to_string(line_of("column of dynamic memory"))));
  CHECK(worst->write);
  CHECK(worst->worst.address[0] == 32);
  CHECK(worst->worst.address[31] == 32 + 128 * 31);
}

TEST_CASE("a kernel without shared memory has no worst line of it") {
  const Report report = watched([] {
    DeviceBuffer<float> out(64);
    launch(half_a_warp, {{1}, {64}}, out.data());
  });
  CHECK(report.worst_shared() == nullptr);
}

TEST_CASE("a report is also written as JSON") {
  const Report report = watched([] {
    DeviceBuffer<float> never(32), out(32);
    launch(reads_an_output, {{1}, {32}}, never.data(), out.data());
  });
  const std::string json = report.json();
  CHECK(contains(json, "{\"findings\": [{\"kind\": \"unwritten\""));
  CHECK(contains(json, "\"count\": 32}]"));
  CHECK(contains(json, "\"memory\": \"global\", \"access\": \"write\""));
}

}  // namespace
}  // namespace fa::on_watched_lab
