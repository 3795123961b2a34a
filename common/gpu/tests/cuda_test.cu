// What only a GPU can do wrong, and what is said then.
#include <filesystem>
#include <stdexcept>

#include <doctest/doctest.h>

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/testing/process.hpp"

namespace fa::on_gpu {
namespace {

using testing::contains;
using testing::message_of;
using E = std::runtime_error;

__global__ void nothing() {}

template <class T>
__global__ void write_one(T* to) {
  *to = T{1};
}

__global__ void much_shared(int* to) {
  __shared__ int numbers[10000];
  numbers[threadIdx.x] = *to;
  __syncthreads();
  *to = numbers[blockDim.x - 1 - threadIdx.x];
}

__global__ void __launch_bounds__(64) small_blocks(int* to) {
  *to = 1;
}

TEST_CASE("messages name kernels without what surrounds them") {
  CHECK(kernel_name(reinterpret_cast<const void*>(nothing)) == "nothing");
  CHECK(kernel_name(reinterpret_cast<const void*>(write_one<float>)) == "write_one<float>");
}

TEST_CASE("a launch that fails names the kernel and what it takes") {
  DeviceBuffer<int> to(1);
  to.zero();
  const std::size_t most = device_properties().shared_bytes;
  const std::string shared = message_of<E>([&] {
    launch(much_shared, {{3}, {32}, most}, to.data());
  });
  CAPTURE(shared);
  CHECK(contains(shared, "launch of much_shared, which takes "));
  CHECK(contains(shared, "40000 bytes of static shared memory"));
  CHECK(contains(shared, "in 3 blocks of 32 threads"));
  CHECK(contains(shared, "cudaErrorInvalidValue"));
  const std::string block = message_of<E>([&] { launch(small_blocks, {{1}, {128}}, to.data()); });
  CAPTURE(block);
  CHECK(contains(block, "launch of small_blocks, which takes "));
  CHECK(contains(block, "at most 64 threads a block"));
  launch(small_blocks, {{1}, {64}}, to.data());  // and then all is well
  device_synchronize();
}

TEST_CASE("a call that fails is named with its place") {
  const std::string message = message_of<E>([] { FA_CUDA(cudaSetDevice(1000)); });
  CAPTURE(message);
  CHECK(contains(message, "cuda_test.cu:"));
  CHECK(contains(message, ": cudaSetDevice(1000): "));
  CHECK(contains(message, "cudaErrorInvalidDevice"));
}

TEST_CASE("too little memory: the GPU says how much is free") {
  const std::string message =
      message_of<E>([] { DeviceBuffer<float> buffer(std::int64_t{1} << 48); });
  CAPTURE(message);
  CHECK(contains(message, device_properties().name + " has "));
  CHECK(contains(message, " free, of "));
}

// After such an error a process can use the GPU no more: the next test runs this one in a process
// of its own.
TEST_CASE("a kernel that writes nowhere" * doctest::skip()) {
  launch(nothing, {{1}, {1}});
  device_synchronize();
  launch(write_one<float>, {{1}, {1}}, nullptr);
  const std::string waiting = message_of<E>(device_synchronize);
  CAPTURE(waiting);
  CHECK(contains(waiting, "cudaDeviceSynchronize()"));
  CHECK(contains(waiting, "cudaErrorIllegalAddress"));
  CHECK(contains(waiting, "; launched before: write_one<float>"));
  CHECK_FALSE(contains(waiting, "nothing"));  // it had ended
  const std::string next = message_of<E>([] { launch(nothing, {{1}, {1}}); });
  CAPTURE(next);
  CHECK(contains(next, "write_one<float>"));
}

TEST_CASE("an error of a kernel is told by the call that waits") {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  const auto outcome = testing::run(testing::quoted(program) +
                                    " --no-skip --test-case='a kernel that writes nowhere'");
  CAPTURE(outcome.output);
  CHECK(outcome.status == 0);
  CHECK(contains(outcome.output, "1 passed"));
}

TEST_CASE("an exception while kernels are timed is passed on") {
  CHECK(median_milliseconds([] { launch(nothing, {{1}, {1}}); }, 1) > 0);
  CHECK(message_of<std::logic_error>([] {
          median_milliseconds([] { throw std::logic_error("no kernel"); });
        }) == "no kernel");
  CHECK(contains(message_of<std::invalid_argument>([] { median_milliseconds([] {}, 0); }),
                 "0 repeats"));
}

TEST_CASE("a stream is CUDA's own") {
  const Stream stream;
  CHECK(stream.native() != nullptr);
  launch(stream, nothing, {{1}, {1}});
  stream.synchronize();
  CHECK(cudaStreamQuery(stream.native()) == cudaSuccess);
}

}  // namespace
}  // namespace fa::on_gpu
