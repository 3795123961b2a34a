// The lab itself: what happens when a kernel is wrong, and what holds when it is right.
#include "common/lab/engine.hpp"

#include <cmath>
#include <stdexcept>

#include <doctest/doctest.h>

#include "common/gpu/tests/surface.cuh"
#include "common/lab/tests/reports.hpp"

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

// What a launch says that must fail.
template <class... Parameters, class... Arguments>
std::string error_of(void (*kernel)(Parameters...), const Launch& sizes, Arguments... arguments) {
  return message_of<std::runtime_error>([&] { launch(kernel, sizes, arguments...); });
}

TEST_CASE("a deadlock names the threads and the lines that wait") {
  const std::string message = error_of(barrier_for_some, {{3}, {64}}, true);
  for (const char* part : {"deadlock in block (", "40 threads (first: 0) at __syncthreads, ",
                           "engine_test.cpp:", "24 threads (first: 40) in a warp operation"}) {
    CHECK_MESSAGE(contains(message, part), part);
  }
}

__global__ void lane_without_its_mask() {
  if (threadIdx.x == 3) __shfl_sync(0x7u, 1, 0);
}

TEST_CASE("a lane outside its own mask is reported") {
  const std::string message = error_of(lane_without_its_mask, {{1}, {32}});
  CHECK(contains(message, "lane 3 is not in its own mask 0x7"));
}

__global__ void throws_in_one_thread() {
  if (blockIdx.x == 5 && threadIdx.x == 17) throw std::out_of_range("17");
  __syncthreads();
}

TEST_CASE("an exception in a kernel ends the launch and leaves it") {
  CHECK_THROWS_AS(launch(throws_in_one_thread, {{64}, {32}}), std::out_of_range);
}

__global__ void read_unwritten(float* out) {
  out[blockIdx.x * 32 + threadIdx.x] = dynamic_shared<float>()[threadIdx.x];
  dynamic_shared<float>()[threadIdx.x] = 1;
}

TEST_CASE("dynamic shared memory is poisoned before every block") {
  DeviceBuffer<float> out(32 * 20);
  launch(read_unwritten, {{20}, {32}, 128}, out.data());
  for (const float value : values(out)) CHECK(std::isnan(value));
}

// A warp waits for a flag that a later warp of its block sets.
__global__ void waits_for_a_later_warp(unsigned* flag, unsigned* seen) {
  if (threadIdx.x == 0) {
    while (load_acquire(flag) == 0) continue;
    *seen = 1;
  }
  if (threadIdx.x == 32) atomicAdd(flag, 1u);
}
// A block waits for one that comes later.
__global__ void waits_for_a_later_block(unsigned* flag, unsigned* seen) {
  if (blockIdx.x == 0) {
    while (atomicAdd(flag, 0u) == 0) continue;
    *seen = 1;
  } else {
    atomicAdd(flag, 1u);
  }
}

unsigned seen_by(void (*kernel)(unsigned*, unsigned*), const Launch& sizes) {
  DeviceBuffer<unsigned> flag(1), seen(1);
  flag.zero();
  seen.zero();
  launch(kernel, sizes, flag.data(), seen.data());
  return values(seen)[0];
}

TEST_CASE("a thread that polls a flag lets other warps run") {
  CHECK(seen_by(waits_for_a_later_warp, {{1}, {64}}) == 1);
}

TEST_CASE("a block can wait for another one that runs beside it") {
  {
    const testing::Threads two(2);
    CHECK(seen_by(waits_for_a_later_block, {{2}, {1}}) == 1);
  }
  const testing::Threads one(1);
  const std::string message = message_of<std::runtime_error>([] {
    seen_by(waits_for_a_later_block, {{2}, {1}});
  });
  CHECK(contains(message, "1 thread (first: 0) reading a flag again and"));
  CHECK(contains(message, "engine_test.cpp:"));
}

// Accesses of 4 bytes that begin at the second number of 16 bits.
__global__ void odd_pairs(const half* in, half* out, bool by_copy) {
  __shared__ __align__(16) half pair[2];
  if (by_copy) {
    cp_async4(pair, in + 1);
  } else {
    store_pair(out, load_pair(in + 1));
  }
}

TEST_CASE("4 bytes at once need a multiple of 4") {
  DeviceBuffer<half> in(4), out(4);
  for (const bool by_copy : {false, true}) {
    const std::string message = error_of(odd_pairs, {{1}, {1}}, in.data(), out.data(), by_copy);
    CHECK(contains(message, "engine_test.cpp:"));
    CHECK(contains(message, "uses 4 bytes at once, at an address 2 bytes"));
  }
}

// AddressSanitizer handles crashes itself.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)
__global__ void reads_nothing(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x];
}

TEST_CASE("a bad access ends the launch, and not the program") {
  for (const int threads : {1, 2}) {
    const testing::Threads setting(threads);
    DeviceBuffer<float> out(64);
    const float* const nowhere = nullptr;
    const std::string message = error_of(reads_nothing, {{2}, {32}}, nowhere, out.data());
    CHECK(contains(message, "thread 0 of block ("));
  }
}

__global__ void waits_for_a_plain_flag(const unsigned* flag) {
  while (*static_cast<const volatile unsigned*>(flag) == 0) continue;
}

TEST_CASE("a thread that polls a plain flag in an endless loop ends the launch") {
  const testing::ImpatientLab impatient;
  DeviceBuffer<unsigned> flag(1);
  flag.zero();
  const std::string message = error_of(waits_for_a_plain_flag, {{1}, {64}}, flag.data());
  CHECK(contains(message, "thread 0 of block (0, 0, 0) has run for"));
}

#endif

TEST_CASE("the lab has as many SMs as threads") {
  const testing::Threads five(5);
  CHECK(device_properties().sm_count == 5);
}

}  // namespace
}  // namespace fa::on_lab
