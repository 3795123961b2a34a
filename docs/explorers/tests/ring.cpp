// explorer_ring: a ring of two stages with a producer and two consumer warps, right and with one
// mistake: what its warps do in the lab, in their order, and what the lab says, as JSON.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/data/files.hpp"
#include "common/gpu/hopper.cuh"
#include "common/gpu/launch.cuh"
#include "common/lab/record.hpp"
#include "common/lab/watch.hpp"

namespace fa::FA_TARGET {
namespace {

constexpr int kRingStages = 2, kRingTiles = 6, kRingFloats = 128;
constexpr int kRingBytes = kRingFloats * static_cast<int>(sizeof(float));

// What a mistake changes.
struct BrokenRing {
  const char* name;
  int producer = 1;        // added to the round: the parity for which it waits
  int consumer = 0;        // the same
  int arrivals = 2;        // of a phase of empty
  int releasing = 2;       // consumer warps that arrive there
  int bytes = kRingBytes;  // that the producer expects of a copy
};

// The barriers and stages.
struct RingStorage {
  alignas(128) float stage[kRingStages][kRingFloats];
  Mbarrier full[kRingStages], empty[kRingStages];
};

// Each consumer warp adds up all tiles.
__global__ void broken_ring(const float* x, float* out, BrokenRing ring) {
  auto& shared = *dynamic_shared<RingStorage>();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kRingStages; ++s) {
      shared.full[s].init(1);
      shared.empty[s].init(ring.arrivals);
    }
    fence_barrier_init();
  }
  __syncthreads();
  float sum = 0;
  for (int tile = 0; tile < kRingTiles; ++tile) {
    const int s = tile % kRingStages, round = tile / kRingStages;
    if (threadIdx.x == 0) {
      shared.empty[s].wait((round + ring.producer) % 2);
      shared.full[s].arrive_and_expect(ring.bytes);
      bulk_load(shared.stage[s], x, kRingBytes, shared.full[s]);
      x += kRingFloats;
    }
    if (warp == 0) continue;
    shared.full[s].wait((round + ring.consumer) % 2);
    for (int i = lane; i < kRingFloats; i += kWarp) {
      sum += shared.stage[s][i];
    }
    __syncwarp();
    if (lane == 0 && warp <= ring.releasing) {
      shared.empty[s].arrive();
    }
  }
  if (warp > 0) out[threadIdx.x - kWarp] = sum;
}

// Launches it. Returns the lab's error, or "" where the kernel ends.
std::string launch_ring(const BrokenRing& ring) {
  DeviceBuffer<float> x(kRingTiles * kRingFloats), out(2 * kWarp);
  const std::vector<float> ones(kRingTiles * kRingFloats, 1.0f);
  x.upload(ones.data());
  try {
    launch(broken_ring, {Size(1), Size(3 * kWarp), sizeof(RingStorage)}, x.data(), out.data(),
           ring);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

// {..., "warps": of each [kind, barrier, count, bytes] in their order, "error", "report": of the
// watched lab}
std::string run_broken_ring(const BrokenRing& ring) {
  lab::Recorder recorder;
  lab::recorder = &recorder;
  launch_ring(ring);
  lab::recorder = nullptr;
  const lab::Watch watch;
  const std::string error = launch_ring(ring);
  std::vector<std::string> warps;
  const std::vector<lab::BlockRecord> blocks = recorder.take();
  for (const auto& warp : blocks.at(0).warps) {
    std::vector<std::string> steps;
    for (const lab::Step& step : warp) {
      steps.push_back(fmt::format("[{},{},{},{}]", static_cast<int>(step.kind), step.barrier,
                                  step.count, step.bytes));
    }
    warps.push_back(fmt::format("[{}]", fmt::join(steps, ",")));
  }
  const std::string report = watch.report().json();
  return fmt::format(
      "{{\"name\": \"{}\", \"producer\": {}, \"consumer\": {}, \"arrivals\": {}, \"releasing\": "
      "{}, "
      "\"bytes\": {}, \"warps\": [{}], \"error\": {}, \"report\": {}}}",
      ring.name, ring.producer, ring.consumer, ring.arrivals, ring.releasing, ring.bytes,
      fmt::join(warps, ","), json_text(error), report.substr(0, report.find('\n')));
}

// All of them, the right one first.
std::string broken_rings() {
  const BrokenRing all[] = {
      {"none"},
      {"producer parity", 0},
      {"consumer parity", 1, 1},
      {"dropped arrival", 1, 0, 2, 1},
      {"one arrival", 1, 0, 1},
      {"more bytes", 1, 0, 2, 2, 2 * kRingBytes},
      {"fewer bytes", 1, 0, 2, 2, kRingBytes / 2},
  };
  std::vector<std::string> results;
  for (const BrokenRing& ring : all) results.push_back(run_broken_ring(ring));
  return fmt::format("[{}]", fmt::join(results, ",\n"));
}

}  // namespace
}  // namespace fa::FA_TARGET

int main() {
  try {
    fmt::print("{}\n", fa::FA_TARGET::broken_rings());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "explorer_ring: {}\n", error.what());
    return 2;
  }
}
