/// @file
/// What the tests of C interfaces share: calls at the same time from threads, on streams, on
/// several GPUs and in CUDA graphs, each of which must give the bits of a call that runs alone;
/// errors; what a library exports.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "common/gpu/kernel.cuh"
#include "common/gpu/launch.cuh"
#include "common/testing/process.hpp"

namespace fa::FA_TARGET {
namespace {  // one source file for each test program includes this

// Whether kernels run on a Hopper GPU that this build has code for; never in the lab.
inline bool on_hopper() {
  const DeviceProperties device = device_properties();
  return device.compute_capability != 0 && can_run(device, kNeedsHopper);
}

using Bits = std::vector<unsigned char>;

// Memory of the current GPU for elements of 16 bits.
using Words = std::shared_ptr<DeviceBuffer<std::uint16_t>>;

// Memory of a call. The same seed gives the same values, in the order in which they are asked for.
struct OwnMemory {
  explicit OwnMemory(std::uint32_t seed) : state(16 * seed) {}
  // New memory with bfloat16 values between -1 and 1.
  void* random(std::int64_t count) {
    Tensor<fa::bfloat16, 1> host({count});
    for (std::int64_t i = 0; i < count; ++i) {
      state = state * 1664525 + 1013904223;
      host(i) = fa::bfloat16(static_cast<float>(state >> 8) / 8388608.0f - 1);
    }
    inputs.push_back(std::make_shared<DeviceBuffer<std::uint16_t>>(host));
    return inputs.back()->data();
  }
  // New poisoned memory, of a result or, with is_output false, of a workspace.
  void* poisoned(std::int64_t count, bool is_output = true) {
    auto& all = is_output ? outputs : inputs;
    all.push_back(std::make_shared<DeviceBuffer<std::uint16_t>>(count));
    return all.back()->data();
  }
  std::uint32_t state;
  std::vector<Words> inputs, outputs;
};

// A call of a C interface with memory of its own, on the GPU that was current when it was made.
struct OwnCall {
  // Begins the call on a stream; throws what the library refuses.
  std::function<void(void* stream)> begin;
  OwnMemory memory;

  void poison() const {
    for (const Words& output : memory.outputs) output->poison();
  }
  // All outputs. The call must have ended.
  Bits bits() const {
    Bits all;
    for (const Words& output : memory.outputs) {
      Tensor<std::uint16_t, 1> host({output->count()});
      output->download(host.data());
      const auto* first = reinterpret_cast<const unsigned char*>(host.data());
      all.insert(all.end(), first, first + 2 * host.count());
    }
    return all;
  }
  // The bits of a call that runs alone.
  Bits alone() const {
    poison();
    begin(nullptr);
    device_synchronize();
    return bits();
  }
};

// Makes a call on the current GPU. The same seed gives the same inputs.
using MakeCall = std::function<OwnCall(std::uint32_t seed)>;

#if defined(__CUDACC__)
inline int gpu_count() {
  int count = 0;
  FA_CUDA(cudaGetDeviceCount(&count));
  return count;
}
inline void use_gpu(int gpu) {
  FA_CUDA(cudaSetDevice(gpu));
}
#else
inline int gpu_count() {
  return 1;  // the lab
}
inline void use_gpu(int) {}
#endif

// One thread of check_threads(): the same call again and again on a stream of its own. Returns how
// many times the bits were others.
inline int differing_calls(const MakeCall& make, int gpu, std::uint32_t seed, const Bits& expected,
                           int rounds, int calls) {
  use_gpu(gpu);
  const OwnCall call = make(seed);
  const Stream stream;
  int differing = 0;
  for (int round = 0; round < rounds; ++round) {
    call.poison();
    device_synchronize();
    for (int i = 0; i < calls; ++i) call.begin(stream.native());
    stream.synchronize();
    differing += call.bits() != expected ? 1 : 0;
  }
  return differing;
}

// Calls on each GPU one after the other, whichever is current, then on all of them at once, from
// several threads each.
inline void check_threads(const MakeCall& make, int rounds, int calls) {
  const int gpus = gpu_count();
  MESSAGE("on ", gpus, " GPUs");
  use_gpu(0);
  std::vector<Bits> expected;
  for (std::uint32_t seed = 0; seed < 3; ++seed) expected.push_back(make(seed).alone());
  CHECK(expected[0] != expected[1]);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    use_gpu(gpu);
    const OwnCall call = make(0);
    use_gpu(gpus - 1 - gpu);  // often another one than the tensors'
    call.begin(nullptr);      // its default stream
    for (int other = 0; other < gpus; ++other) {
      use_gpu(other);
      device_synchronize();
    }
    CHECK(call.bits() == expected[0]);
  }
  std::vector<std::future<int>> threads;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    for (std::uint32_t seed = 0; seed < 3; ++seed) {
      threads.push_back(std::async(std::launch::async, [&, gpu, seed] {
        return differing_calls(make, gpu, seed, expected[seed], rounds, calls);
      }));
    }
  }
  for (auto& thread : threads) CHECK(thread.get() == 0);
  use_gpu(0);
}

#if defined(__CUDACC__)
// A call that is captured in a CUDA graph: replayed alone, and while other calls run on other
// streams. Where ctest runs each test in a process of its own, the captured call is the first of
// the process.
inline void check_graph(const MakeCall& make) {
  constexpr int rounds = 20, replays = 50, others = 4, calls = 125;
  const OwnCall captured = make(0);
  device_synchronize();
  cudaStream_t stream = nullptr;
  FA_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  FA_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  captured.begin(stream);
  cudaGraph_t graph = nullptr;
  FA_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t replayed = nullptr;
  FA_CUDA(cudaGraphInstantiate(&replayed, graph, 0));

  // Capturing runs nothing.
  const Bits before = captured.bits();
  CHECK(before == Bits(before.size(), 0xff));
  FA_CUDA(cudaGraphLaunch(replayed, stream));
  FA_CUDA(cudaStreamSynchronize(stream));
  const Bits first = captured.bits();
  std::vector<Bits> expected;
  for (std::uint32_t seed = 0; seed < others; ++seed) expected.push_back(make(seed).alone());
  CHECK(first == expected[0]);

  std::vector<std::future<int>> threads;
  for (std::uint32_t seed = 0; seed < others; ++seed) {
    threads.push_back(std::async(std::launch::async, [&, seed] {
      return differing_calls(make, 0, seed, expected[seed], rounds, calls);
    }));
  }
  int differing = 0;
  for (int round = 0; round < rounds; ++round) {
    captured.poison();
    FA_CUDA(cudaStreamSynchronize(nullptr));
    for (int i = 0; i < replays; ++i) FA_CUDA(cudaGraphLaunch(replayed, stream));
    FA_CUDA(cudaStreamSynchronize(stream));
    differing += captured.bits() != expected[0] ? 1 : 0;
  }
  CHECK(differing == 0);
  for (auto& thread : threads) CHECK(thread.get() == 0);
  FA_CUDA(cudaGraphExecDestroy(replayed));
  FA_CUDA(cudaGraphDestroy(graph));
  FA_CUDA(cudaStreamDestroy(stream));
}
#endif

// Checks that each thread has an error of its own, which a call that succeeds clears.
// says(batch): what is said about a call with a batch that is refused
// last_error(): the interface's function
template <class Says, class LastError>
void check_errors(Says says, LastError last_error,
                  const std::vector<std::function<void()>>& succeeding) {
  CHECK(testing::contains(says(0), "batch is 0"));
  std::string before = "?", after;
  std::thread other([&] {
    before = last_error();
    after = says(-1);
  });
  other.join();
  CHECK(before.empty());
  CHECK(testing::contains(after, "batch is -1"));
  CHECK(testing::contains(last_error(), "batch is 0"));
  for (const auto& succeed : succeeding) {
    says(0);
    CHECK(std::string(last_error()) != "");
    succeed();
    CHECK(std::string(last_error()) == "");
  }
}

#if defined(__linux__)
// The names that the tested library exports, each with a space behind it.
inline std::string exported_names() {
  return testing::run("nm -D --defined-only " + testing::quoted(FA_INTERFACE_LIBRARY) +
                      " | sed 's/.* //; s/@.*//' | sort | tr '\\n' ' '")
      .output;
}
#endif

}  // namespace
}  // namespace fa::FA_TARGET
