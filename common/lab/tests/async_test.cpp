// What runs beside the threads in the plain lab: without an observer, so a mistake must show in the
// numbers, or end the launch with a message.
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "common/gpu/hopper.cuh"
#include "common/gpu/tensor_map.cuh"
#include "common/gpu/tests/broken_hopper.cuh"
#include "common/lab/tests/marked_lines.hpp"
#include "common/testing/process.hpp"

namespace fa::on_lab {
namespace {

using testing::contains;
using testing::message_of;

template <class T>
std::vector<T> values(const DeviceBuffer<T>& buffer) {
  std::vector<T> result(static_cast<std::size_t>(buffer.count()));
  buffer.download(result.data());
  return result;
}

// The sum of what the threads of a broken kernel, or of its right twin, leave.
float sum_of(const DeviceBuffer<float>& out, unsigned threads) {
  const auto numbers = values(out);
  return std::accumulate(numbers.begin(), numbers.begin() + threads, 0.0f);
}
float sum_of(void (*kernel)(float*)) {
  DeviceBuffer<float> out(128);
  launch(kernel, {{1}, {128}, sizeof(HopperShared)}, out.data());
  return sum_of(out, 128);
}
float sum_of(void (*kernel)(TensorMap, float*)) {
  const HopperInput in;
  DeviceBuffer<float> out(128);
  launch(kernel, {{1}, {128}, sizeof(HopperShared)}, in.map(), out.data());
  return sum_of(out, 128);
}

// What a warp leaves of ones.
std::vector<float> plain_run(void (*kernel)(const float*, float*)) {
  const auto in = ones(kWarp);
  DeviceBuffer<float> out(kWarp);
  launch(kernel, {{1}, {kWarp}}, in.data(), out.data());
  return values(out);
}

TEST_CASE("what is not waited for is NaN, without an observer") {
  CHECK(sum_of(no_wgmma_wait<false>) == 128 * 16);
  CHECK(std::isnan(sum_of(no_wgmma_wait<true>)));
  // The scaled sum is overwritten when the product ends.
  CHECK(sum_of(touched_sums<false>) == 128 * 256);
  CHECK(sum_of(touched_sums<true>) == 128 * 16);
  CHECK(sum_of(operand_not_there<false>) == 0);
  CHECK(std::isnan(sum_of(operand_not_there<true>)));
  CHECK(sum_of(overwritten_tile<false>) == 0);
  CHECK(std::isnan(sum_of(overwritten_tile<true>)));
  HopperInput in;
  for (const bool broken : {false, true}) {
    launch(broken ? no_wait<true> : no_wait<false>, {{1}, {128}, sizeof(HopperShared)}, in.map(),
           in.out.data());
    CHECK(std::isnan(to_float(values(in.out)[0])) == broken);
    in.out.poison();
    launch(broken ? too_few_bytes<true> : too_few_bytes<false>, {{1}, {128}, sizeof(HopperShared)},
           in.map(), in.out.data());
    CHECK(std::isnan(to_float(values(in.out)[0])) == broken);
  }
}

TEST_CASE("a store that no thread waits for does not come") {
  DeviceBuffer<float> in(32), out(32);
  in.zero();
  for (const bool broken : {false, true}) {
    out.zero();
    const float one = 1;
    std::vector<float> ones(32, one);
    in.upload(ones.data());
    launch(broken ? store_at_the_end<true> : store_at_the_end<false>, {{1}, {32}}, in.data(),
           out.data());
    CHECK(values(out)[5] == (broken ? 0 : 1));
  }
}

TEST_CASE("a thread that waits for ever is named, with what is missing") {
  for (const BrokenHopperKernel& kernel : broken_hopper_kernels()) {
    if (kernel.kind != "deadlock") continue;
    CAPTURE(kernel.name);
    kernel.run(false);
    const std::string message = message_of<std::runtime_error>([&] { kernel.run(true); });
    CAPTURE(message);
    CHECK(contains(message, "deadlock in block (0, 0, 0)"));
    CHECK(contains(message, kernel.says));
    CHECK(contains(message,
                   fmt::format("{}:{}", kernel.file,
                               testing::line_of(FA_BROKEN_HOPPER + kernel.file, kernel.line))));
  }
}

TEST_CASE("without an observer a parity other than 0 and 1 ends the launch") {
  DeviceBuffer<float> out(kWarp);
  launch(parity_below_zero<false>, {{1}, {kWarp}}, out.data());
  const std::string message = message_of<std::runtime_error>([&] {
    launch(parity_below_zero<true>, {{1}, {kWarp}}, out.data());
  });
  CHECK(contains(message, "for the parity -1; a phase has the parity 0 or 1"));
}

TEST_CASE("without an observer a misaligned access ends the launch") {
  for (const BrokenHopperKernel& kernel : broken_hopper_kernels()) {
    if (kernel.kind != "misaligned") continue;
    CAPTURE(kernel.name);
    kernel.run(false);
    if (kernel.name == "misaligned_vector") continue;  // if the CPU allows it
    const std::string message = message_of<std::runtime_error>([&] { kernel.run(true); });
    CAPTURE(message);
    CHECK(contains(message, kernel.says));
    CHECK(contains(message,
                   fmt::format("{}:{}", kernel.file,
                               testing::line_of(FA_BROKEN_HOPPER + kernel.file, kernel.line))));
  }
}

TEST_CASE("without an observer lanes at two shuffles end the launch") {
  plain_run(shuffles_in_two_branches<false>);
  const std::string message =
      message_of<std::runtime_error>([] { plain_run(shuffles_in_two_branches<true>); });
  for (const char* mark : {"branches: first half", "branches: second half"}) {
    CHECK(contains(message,
                   fmt::format("broken_warps.cuh:{}",
                               testing::line_of(FA_BROKEN_HOPPER "broken_warps.cuh", mark))));
  }
}

TEST_CASE("a value from outside of a shuffle's mask is NaN") {
  CHECK(plain_run(shuffle_from_outside<false>)[0] == 1);
  CHECK(std::isnan(plain_run(shuffle_from_outside<true>)[0]));
}

// ---------------------------------------------------------------- refusals

enum class Wrong {
  kNotInitialised,
  kNoArrivals,
  kTooManyArrivals,
  kNumberOfBarrier,
  kThreadsOfBarrier,
  kThreadsDiffer,
  kRegisters,
  kTooManyRegisters,
  kTileAlignment,
  kBeyondTheEnd,
  kColumn,
  kStoreOutside,
  kBytes,
  kOperand,
  kStatic,
};

__global__ void does_wrong(const __grid_constant__ TensorMap map, const float* global, Wrong what) {
  __shared__ Mbarrier barrier, other;
  __shared__ __align__(16) float row[32];
  char* const shared = dynamic_shared<char>();
  const bool first = threadIdx.x == 0;
  if (first && what != Wrong::kNotInitialised) {
    barrier.init(what == Wrong::kNoArrivals ? 0 : 1);
    fence_barrier_init();
  }
  __syncthreads();
  float sum[32] = {};
  switch (what) {
    case Wrong::kNotInitialised:
    case Wrong::kNoArrivals:
      other.wait(0);
      break;
    case Wrong::kTooManyArrivals:
      barrier.arrive_and_expect(16);
      barrier.arrive();
      break;
    case Wrong::kNumberOfBarrier:
      named_barrier_wait(16, 128);
      break;
    case Wrong::kThreadsOfBarrier:
      named_barrier_wait(1, 100);
      break;
    case Wrong::kThreadsDiffer:
      named_barrier_arrive(1, threadIdx.x < 32 ? 64 : 128);
      break;
    case Wrong::kRegisters:
      lab::set_registers(100, {});
      break;
    case Wrong::kTooManyRegisters:
      if (threadIdx.x < 128) {
        setmaxnreg_dec<48>();
      } else {
        setmaxnreg_inc<240>();
      }
      break;
    case Wrong::kTileAlignment:
      if (first) tma_load(shared + 16, map, barrier, 0, 0, 0, 0, CacheHint::kEvictLast);
      break;
    case Wrong::kBeyondTheEnd:
      if (first) {
        tma_load(shared + 1024, map, barrier, 0, 0, 0, 0, CacheHint::kEvictLast);
      }
      break;
    case Wrong::kColumn:
      if (first) tma_load(shared, map, barrier, 3, 0, 0, 0, CacheHint::kEvictLast);
      break;
    case Wrong::kStoreOutside:
      if (first) tma_store(map, shared, 0, -5, 0, 0);
      break;
    case Wrong::kBytes:
      if (first) bulk_load(row, global, 20, barrier);
      break;
    case Wrong::kOperand: {
      const auto operand = matrix_descriptor<Major::kK>(shared + 4096, 0);
      wgmma_fence(sum);
      wgmma<half>(sum, operand, operand, false);
      wgmma_commit(sum);
      wgmma_wait<0>(sum);
      break;
    }
    case Wrong::kStatic:
      (void)matrix_descriptor<Major::kK>(row, 0);
      break;
  }
}

TEST_CASE("what a GPU does not take ends the launch with one sentence") {
  const auto refusal = [](Wrong what) {
    const HopperInput in;
    const DeviceBuffer<float> global(64);
    return message_of<std::runtime_error>([&] {
      launch(does_wrong, {{1}, {384}, HopperTile::bytes}, in.map(), global.data(), what);
    });
  };
  const auto says = [&](Wrong what, const std::string& words) {
    const std::string message = refusal(what);
    CAPTURE(message);
    CHECK(contains(message, words));
  };
  says(Wrong::kNotInitialised, "an mbarrier that is not initialised yet");
  says(Wrong::kNoArrivals, "an mbarrier of 0 arrivals");
  says(Wrong::kTooManyArrivals, "more than the 1 arrivals of a phase");
  says(Wrong::kNumberOfBarrier, "the number 16; allowed are 0 to 15");
  says(Wrong::kThreadsOfBarrier, "for 100 threads; allowed are multiples");
  says(Wrong::kThreadsDiffer, "threads, where others said");
  says(Wrong::kRegisters, "100 registers for a thread; allowed are");
  says(Wrong::kTooManyRegisters, "take 67584 registers in all");
  says(Wrong::kTileAlignment, "not a multiple of 128");
  says(Wrong::kBeyondTheEnd, "a copy of 8192 bytes at byte 1024");
  says(Wrong::kColumn, "a box whose first column is 3; allowed are multiples");
  says(Wrong::kStoreOutside, "a box is stored from row -5 and column 0 of");
  says(Wrong::kBytes, "a copy of 20 bytes");
  says(Wrong::kOperand, "of the dynamic shared memory, which has 8192");
  says(Wrong::kStatic, "not in dynamic shared memory");
}

enum class WrongInCluster { kArrivesTwice, kWaitsOnly, kRank, kBlocks, kStatic, kOneWaits };

__global__ void does_wrong_in_cluster(const __grid_constant__ TensorMap map, WrongInCluster what) {
  __shared__ int fixed;
  auto& shared = *dynamic_shared<HopperShared>();
  switch (what) {
    case WrongInCluster::kArrivesTwice:
      cluster_arrive();
      cluster_arrive();
      break;
    case WrongInCluster::kWaitsOnly:
      cluster_wait();
      break;
    case WrongInCluster::kRank:
      (void)peer_shared(&shared, 2);
      break;
    case WrongInCluster::kBlocks:
      shared.empty.init(1);
      tma_load_multicast(shared.tiles[0].data, map, shared.empty, 0, 0, 0, 0, 5);
      break;
    case WrongInCluster::kStatic:
      (void)peer_shared(&fixed, 1);
      break;
    case WrongInCluster::kOneWaits:
      if (cluster_rank() == 1) {
        __syncthreads();
        if (threadIdx.x == 0) shared.empty.init(1);
        __syncthreads();
        shared.empty.wait(0);
      }
      cluster_arrive();
      cluster_wait();
      break;
  }
}

TEST_CASE("what a cluster does not take ends the launch with one sentence") {
  const auto says = [](WrongInCluster what, const std::string& words) {
    const HopperInput in;
    const std::string message = message_of<std::runtime_error>([&] {
      launch(does_wrong_in_cluster, {{2}, {32}, sizeof(HopperShared), 0, false, 2}, in.map(), what);
    });
    CAPTURE(message);
    CHECK(contains(message, words));
  };
  says(WrongInCluster::kArrivesTwice, "do not take turns in this thread");
  says(WrongInCluster::kWaitsOnly, "do not take turns in this thread");
  says(WrongInCluster::kRank, "block 2 of a cluster of 2");
  says(WrongInCluster::kBlocks, "a copy to the blocks 0b101 of a cluster of 2");
  says(WrongInCluster::kStatic, "shared memory of another block that is not dynamic");
  says(WrongInCluster::kOneWaits, "32 threads (first: 0) of block 1 of the cluster at an mbarrier");
  says(WrongInCluster::kOneWaits, "at cluster_wait");
  says(WrongInCluster::kOneWaits, "with 32 of 64 threads of the cluster there");
}

}  // namespace
}  // namespace fa::on_lab
