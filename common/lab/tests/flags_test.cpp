// The watched lab: what orders threads through flags; variables, streams, a barrier of the grid and
// endless loops. A line is named by the comment at its end.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/gpu/tests/broken.cuh"
#include "common/lab/tests/reports.hpp"

namespace fa::on_watched_lab {
namespace {

using lab::Finding;
using lab::Report;
using namespace testing;

std::string marked(const std::string& mark) {
  return place_of("common/lab/tests/flags_test.cpp", mark);
}

// ---------------------------------------------------------------- flags

enum class Fence { kNone, kBlock, kDevice, kInFlag };
void __device__ fences(Fence fence) {
  if (fence == Fence::kBlock) __threadfence_block();
  if (fence == Fence::kDevice) __threadfence();
}

// Thread 0 hands data to thread 0 of another warp or another block. With kInFlag the operation on
// the flag releases or acquires. Data that are changed after the fence are not ordered by it.
template <Fence first, Fence second, bool changes = false>
__global__ void by_atomic_flag(int* flag, float* data, float* out) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  auto* const counter = reinterpret_cast<unsigned*>(flag);
  if (thread == 0) {
    *data = 7;
    fences(first);
    if (changes) *data += 1;
    if (first == Fence::kInFlag) {
      atomic_add_release(counter, 1);
    } else {
      atomicAdd(flag, 1);
    }
  } else if (thread == 32) {
    while ((second == Fence::kInFlag ? load_acquire(counter) : atomicAdd(counter, 0)) == 0)
      continue;
    fences(second);
    *out = *data;  // handed over
  }
}
// A flag that is not looked at until it changes orders nothing.
__global__ void by_a_look(int* flag, float* data, float* out) {
  if (threadIdx.x == 0) *data = 7;
  load_acquire(reinterpret_cast<unsigned*>(flag));
  if (threadIdx.x == 32) *out = *data;
}
// The same with a flag in shared memory, which is atomic or `volatile`.
template <bool fenced, bool atomic>
__global__ void by_shared_flag(int*, float* data, float* out) {
  __shared__ int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  volatile int* const seen = &flag;
  if (threadIdx.x == 0) {
    *data = 7;
    if (fenced) __threadfence_block();
    if (atomic) {
      atomicAdd(&flag, 1);
    } else {
      *seen = 1;
    }
  } else if (threadIdx.x == 32) {
    while ((atomic ? atomicAdd(&flag, 0) : *seen) == 0) continue;
    if (fenced) __threadfence_block();
    *out = *data;  // handed over in shared memory
  }
}
// Warp 0 hands data to warp 1, and that one to warp 2.
template <bool fenced>
__global__ void by_two_flags(int* flags, float* data, float* out) {
  if (threadIdx.x == 0) {
    *data = 7;
    __threadfence();
    atomicAdd(flags, 1);
  } else if (threadIdx.x == 32) {
    while (atomicAdd(flags, 0) == 0) continue;
    if (fenced) __threadfence();
    atomicAdd(flags + 1, 1);
  } else if (threadIdx.x == 64) {
    while (atomicAdd(flags + 1, 0) == 0) continue;
    __threadfence();
    *out = *data;
  }
}

Report handed_over(void (*kernel)(int*, float*, float*), const Launch& sizes) {
  return watched([&] {
    DeviceBuffer<int> flags(2);
    flags.zero();
    DeviceBuffer<float> data(1), out(1);
    launch(kernel, sizes, flags.data(), data.data(), out.data());
  });
}
std::size_t races(const Report& report) {
  CAPTURE(report.text());
  const auto is_race = [](const Finding& finding) { return finding.kind == "race"; };
  CHECK(std::all_of(report.findings.begin(), report.findings.end(), is_race));
  return report.findings.size();
}

TEST_CASE("a flag behind a fence orders two warps of a block, or two blocks") {
  const Launch block{{1}, {96}}, blocks{{2}, {32}};
  for (const Launch& sizes : {block, blocks}) {
    check_clean(handed_over(by_atomic_flag<Fence::kDevice, Fence::kDevice>, sizes));
    check_clean(handed_over(by_atomic_flag<Fence::kDevice, Fence::kInFlag>, sizes));
    check_clean(handed_over(by_atomic_flag<Fence::kInFlag, Fence::kInFlag>, sizes));
    CHECK(races(handed_over(by_atomic_flag<Fence::kNone, Fence::kDevice>, sizes)) == 1);
    CHECK(races(handed_over(by_atomic_flag<Fence::kNone, Fence::kInFlag>, sizes)) == 1);
    CHECK(races(handed_over(by_atomic_flag<Fence::kDevice, Fence::kNone>, sizes)) == 1);
    CHECK(races(handed_over(by_atomic_flag<Fence::kDevice, Fence::kDevice, true>, sizes)) == 1);
  }
  CHECK(races(handed_over(by_a_look, block)) == 1);
  check_clean(handed_over(by_atomic_flag<Fence::kBlock, Fence::kBlock>, block));
  check_clean(handed_over(by_shared_flag<true, true>, block));
  check_clean(handed_over(by_shared_flag<true, false>, block));
  check_clean(handed_over(by_two_flags<true>, block));
  CHECK(races(handed_over(by_shared_flag<false, true>, block)) == 1);
  CHECK(races(handed_over(by_shared_flag<false, false>, block)) == 2);  // flag and data
  CHECK(races(handed_over(by_two_flags<false>, block)) == 1);
  // __threadfence_block() orders a block, and not two.
  CHECK(races(handed_over(by_atomic_flag<Fence::kBlock, Fence::kDevice>, blocks)) == 1);
  CHECK(races(handed_over(by_atomic_flag<Fence::kDevice, Fence::kBlock>, blocks)) == 1);
}

// The last steps of a sum, as they were written when the lanes of a warp ran in step.
__global__ void sum_in_step(int*, float* data, float* out) {
  __shared__ float part[64];
  volatile float* const own = part;
  part[threadIdx.x] = 1;
  __syncthreads();
  __threadfence();
  if (threadIdx.x < 32) {
    for (unsigned reach = 32; reach > 0; reach /= 2) own[threadIdx.x] += own[threadIdx.x + reach];
  }
  if (threadIdx.x == 0) *out = *data = part[0];
}

TEST_CASE("`volatile` does not order lanes that rely on running in step") {
  CHECK(races(handed_over(sum_in_step, {{1}, {64}})) == 1);
}

// ---------------------------------------------------------------- variables and streams

__device__ int counter = 0;
__device__ int histogram[4];

template <bool atomic>
__global__ void counts_in_a_variable(int* out) {
  if (atomic) {
    atomicAdd(&counter, 1);
  } else {
    counter += 1;  // counter
  }
  out[threadIdx.x] = histogram[threadIdx.x % 4];
}

TEST_CASE("a race on a __device__ variable is found, and its initialiser has written it") {
  const auto run = [](void (*kernel)(int*)) {
    return watched([&] {
      DeviceBuffer<int> out(32);
      launch(kernel, {{1}, {32}}, out.data());
    });
  };
  check_clean(run(counts_in_a_variable<true>));
  const Report report = run(counts_in_a_variable<false>);
  check_only(report, "race", marked("counter"), "byte 0 of the variable counter");
}

__global__ void doubles(const float* in, float* out) {
  out[threadIdx.x] = 2 * in[threadIdx.x];  // doubled
}

enum class Wait { kNot, kForStream, kForDevice, kSameStream, kDefaultBetween };
Report two_streams(Wait wait) {
  return watched([&] {
    const auto in = ones(32);
    DeviceBuffer<float> middle(32), out(32);
    const Stream first, second;
    launch(first, doubles, {{1}, {32}}, in.data(), middle.data());
    if (wait == Wait::kForStream) first.synchronize();
    if (wait == Wait::kForDevice) device_synchronize();
    if (wait == Wait::kDefaultBetween) launch(doubles, {{1}, {32}}, in.data(), out.data());
    launch(wait == Wait::kSameStream ? first : second, doubles, {{1}, {32}}, middle.data(),
           out.data());
  });
}

TEST_CASE("launches on two streams are ordered only if the host waits between them") {
  for (const Wait wait :
       {Wait::kForStream, Wait::kForDevice, Wait::kSameStream, Wait::kDefaultBetween}) {
    check_clean(two_streams(wait));
  }
  check_only(two_streams(Wait::kNot), "race", marked("doubled"), "which are on two streams");
}

// ---------------------------------------------------------------- endless loops

__global__ void meets_forever(const int* flag, int* out, bool in_a_warp) {
  while (*flag == 0) {
    if (in_a_warp) {
      __syncwarp();  // meets its warp
    } else {
      __syncthreads();  // meets its block
    }
  }
  out[threadIdx.x] = 1;
}

TEST_CASE("an endless loop with a barrier in it ends the launch with the line") {
  const ImpatientLab impatient;
  DeviceBuffer<int> flag(1), out(64);
  flag.zero();
  for (const bool in_a_warp : {false, true}) {
    std::string message;
    const Report report = failed(
        [&] {
          launch(meets_forever, {{1}, {64}}, flag.data(), out.data(), in_a_warp);
        },
        &message);
    const std::string place = marked(in_a_warp ? "meets its warp" : "meets its block");
    check_only(report, "spin", place, "endless loop");
    CHECK(contains(message, place));
  }
}

// Its threads change one local variable, which a register holds, for longer than the lab waits.
__global__ void meets_often(int times, int* out) {
  int met = 0;
  for (; met < times; ++met) __syncthreads();
  out[threadIdx.x] = met;
}

TEST_CASE("a long loop that counts to its end is not endless") {
  const ImpatientLab impatient;
  DeviceBuffer<int> out(64);
  const int times = 1 << 19;
  check_clean(watched([&] { launch(meets_often, {{1}, {64}}, times, out.data()); }));
  std::vector<int> met(64);
  out.download(met.data());
  CHECK(met == std::vector<int>(64, times));
}

// ---------------------------------------------------------------- a barrier of the grid

__global__ void grid_barrier(unsigned* arrived) {
  if (threadIdx.x != 0) return;
  atomicAdd(arrived, 1u);
  while (atomicAdd(arrived, 0u) < gridDim.x) continue;  // grid barrier
}

TEST_CASE("a barrier of the whole grid is passed where all blocks can run at once") {
  const auto on = [](unsigned blocks) {
    DeviceBuffer<unsigned> arrived(1);
    arrived.zero();
    launch(grid_barrier, {{blocks}, {64}}, arrived.data());
  };
  check_clean(watched([&] { on(16); }));
  std::string message;
  const Report report = failed([&] { on(600); }, &message);
  check_only(report, "spin", marked("grid barrier"), "reads a flag again and again");
  CHECK(contains(message, "The launch has 600 blocks, of which 512 of this size can run at once"));
}

}  // namespace
}  // namespace fa::on_watched_lab
