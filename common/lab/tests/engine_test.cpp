// The lab itself: what happens when a kernel is wrong, and that it is a fair machine when it is right.
#include "common/lab/engine.hpp"

#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include <doctest/doctest.h>

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/testing/process.hpp"

using fa::testing::contains;
using fa::testing::message_of;

namespace fa::on_lab {
namespace {

__global__ void barrier_for_some(bool also_shuffle) {
  if (threadIdx.x < 40) {
    __syncthreads();
  } else if (also_shuffle) {
    __shfl_xor_sync(kAllLanes, 1, 1);
  }
}

TEST_CASE("threads that end release a barrier") {
  launch(barrier_for_some, {{3}, {64}}, false);
}

TEST_CASE("a deadlock names the threads and the lines that wait") {
  const std::string message = message_of<std::runtime_error>([] {
    launch(barrier_for_some, {{3}, {64}}, true);
  });
  CHECK(contains(message, "deadlock in block ("));
  CHECK(contains(message, "40 threads (first: 0) at __syncthreads, "));
  CHECK(contains(message, "engine_test.cpp:"));
  CHECK(contains(message, "24 threads (first: 40) in a warp operation"));
}

__global__ void lane_without_its_mask() {
  if (threadIdx.x == 3) __shfl_sync(0x7u, 1, 0);
}

TEST_CASE("a lane outside its own mask is reported") {
  CHECK(contains(message_of<std::runtime_error>([] {
                   launch(lane_without_its_mask, {{1}, {32}});
                 }),
                 "lane 3 is not in its own mask 0x7"));
}

__global__ void throws_in_one_thread() {
  if (blockIdx.x == 5 && threadIdx.x == 17) throw std::out_of_range("17");
  __syncthreads();
}

TEST_CASE("what a kernel throws ends the launch and comes out of it") {
  CHECK_THROWS_AS(launch(throws_in_one_thread, {{64}, {32}}),
                  std::out_of_range);
}

__global__ void forgotten_wait(const float* in, float* out) {
  __shared__ __align__(16) float stage[4];
  if (threadIdx.x == 0) {
    cp_async16(stage, in);
    cp_async_commit();
  }
  out[threadIdx.x] = stage[threadIdx.x];
}

TEST_CASE("an asynchronous copy that nobody waits for is NaN") {
  DeviceBuffer<float> in(4), out(4);
  in.zero();
  out.zero();
  launch(forgotten_wait, {{1}, {4}}, in.data(), out.data());
  float result[4];
  out.download(result);
  CHECK(std::isnan(result[0]));
}

__global__ void read_unwritten(float* out) {
  out[blockIdx.x * 32 + threadIdx.x] = dynamic_shared<float>()[threadIdx.x];
  dynamic_shared<float>()[threadIdx.x] = 1;
}

TEST_CASE("dynamic shared memory is poisoned before every block") {
  DeviceBuffer<float> out(32 * 20);
  launch(read_unwritten, {{20}, {32}, 128}, out.data());
  float result[32 * 20];
  out.download(result);
  for (const float value : result) CHECK(std::isnan(value));
}

__global__ void odd_block(int* sums) {
  // 37 threads: the second warp has 5 lanes.
  int sum = 1;
  for (int distance = 16; distance > 0; distance /= 2) {
    const int other = __shfl_down_sync(kAllLanes, sum, distance);
    const unsigned lane = threadIdx.x % 32;
    if (threadIdx.x + static_cast<unsigned>(distance) < blockDim.x &&
        lane + static_cast<unsigned>(distance) < 32) {
      sum += other;
    }
  }
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
}

TEST_CASE("the last warp of an odd block works with the lanes it has") {
  DeviceBuffer<int> sums(2);
  launch(odd_block, {{1}, {37}}, sums.data());
  int result[2];
  sums.download(result);
  CHECK(result[0] == 32);
  CHECK(result[1] == 5);
}

TEST_CASE("the number of threads of the machine does not change a result") {
  const auto checksum = [](const char* threads) {
    setenv("FA_THREADS", threads, 1);
    DeviceBuffer<float> out(32 * 20);
    launch(read_unwritten, {{20}, {32}, 128}, out.data());
    std::vector<std::uint32_t> bits(32 * 20);
    out.download(bits.data());
    unsetenv("FA_THREADS");
    return bits;
  };
  CHECK(checksum("1") == checksum("7"));
}

}  // namespace
}  // namespace fa::on_lab
