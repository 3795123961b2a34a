// Which block adds to dQ, and when, in rungs 11 and 12, in the lab. The test plays the other block,
// since no result would show which one came first.
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "05_flash_forward/src/device_tensor.cuh"
#include "05_flash_forward/tests/problems.hpp"
#include "06_flash_backward/src/dispatch.cuh"
#include "common/tensor/random.hpp"

using namespace fa;
using namespace fa::on_lab;
using flash::Layout;
using flash::Problem;
using Half = fa::on_lab::half;

namespace {

// Two blocks of keys and one tile of queries.
constexpr int kQueriesInAll = 100, kKeysInAll = 200, kDim = 64;
using Tile = HopperBackwardTileFor<Half, kDim>;

DeviceTensor<Half> random_rows(int rows, std::uint64_t seed) {
  Tensor<float, 4> tensor({1, 1, rows, kDim});
  fill_normal(tensor.view(), seed);
  return {tensor, tensor.shape(), Layout::kHeadsFirst};
}

// A problem with a workspace after preprocess_semaphores().
struct TwoBlocks {
  TwoBlocks() {
    const Problem problem = flash::problem_of(
        flash::Type::kFloat16, {1, 1, 1, kQueriesInAll, kKeysInAll, kDim});
    device_zero(lse.data(), kQueriesInAll * sizeof(float));
    static_cast<Attention<Half>&>(a) = attention_of<Half>(problem);
    a.q = q.data();
    a.k = k.data();
    a.v = v.data();
    a.o = o.data();
    a.lse = lse.data();
    a.d_o = d_o.data();
    a.d_q = d_q.data();
    a.d_k = d_k.data();
    a.d_v = d_v.data();
    a.d_o_strides = a.d_q_strides = a.q_strides;
    a.d_k_strides = a.d_v_strides = a.k_strides;
    const Workspace what{kDim, true};
    workspace.emplace(workspace_floats(a, what));
    set_workspace(a, workspace->data(), what);
    launch(stream, preprocess_semaphores<kDim, Half>,
           preprocess_launch<kDim>(a), a);
    device_zero(a.d_q_accum, kSums * sizeof(float));
  }
  // Launches a kernel in an order with one block of keys: the first one alone runs.
  void launch_first_block(void (*kernel)(TmaGradient<Half>, TileScheduler)) {
    launch(stream, kernel,
           {{1},
            {kWarpgroup * (kKeyWarpgroups + 1)},
            sizeof(DelayedBackwardShared<Tile>)},
           tma_gradient<Tile>(a), TileScheduler{1, 1, 1, 1});
  }
  float sum(std::int64_t i) const {
    float result = 0;
    __atomic_load(a.d_q_accum + i, &result, __ATOMIC_RELAXED);
    return result;
  }
  // Whether no block has written sums.
  bool untouched() const {
    for (std::int64_t i = 0; i < kSums; ++i) {
      if (sum(i) != 0) return false;
    }
    return true;
  }
  // Counts for another block.
  void count_on(unsigned by) const {
    for (int part = 0; part < kKeyWarpgroups; ++part) {
      __atomic_fetch_add(a.d_q_semaphores + part, by, __ATOMIC_RELAXED);
    }
  }
  // Whether the counters of both parts have a value.
  bool counted(unsigned value) const {
    for (int part = 0; part < kKeyWarpgroups; ++part) {
      if (__atomic_load_n(a.d_q_semaphores + part, __ATOMIC_RELAXED) !=
          value) {
        return false;
      }
    }
    return true;
  }

  static constexpr std::int64_t kSums = std::int64_t{Tile::block_m} * kDim;
  DeviceTensor<Half> q = random_rows(kQueriesInAll, 1),
                     o = random_rows(kQueriesInAll, 2),
                     d_o = random_rows(kQueriesInAll, 3),
                     d_q = random_rows(kQueriesInAll, 4),
                     k = random_rows(kKeysInAll, 5),
                     v = random_rows(kKeysInAll, 6),
                     d_k = random_rows(kKeysInAll, 7),
                     d_v = random_rows(kKeysInAll, 8);
  DeviceBuffer<float> lse{kQueriesInAll};
  std::optional<DeviceBuffer<float>> workspace;
  AttentionGradient<Half> a{};
  const Stream stream;
};

constexpr auto kLong = std::chrono::milliseconds(500);

}  // namespace

TEST_CASE(
    "a block of rung 11 adds to dQ when its rank is reached, not before") {
  TwoBlocks x;
  REQUIRE(x.untouched());
  // Of two blocks the first one is the second to add.
  std::thread first(
      [&] { x.launch_first_block(flash_backward_ordered_dq<Tile, Half>); });
  std::this_thread::sleep_for(kLong);
  CHECK(x.untouched());
  CHECK(x.counted(0));
  x.count_on(1);
  first.join();
  CHECK(!x.untouched());
  CHECK(x.counted(2));
}

TEST_CASE("a block of rung 12 adds to dQ after the first part is stored") {
  TwoBlocks x;
  x.count_on(1);  // another block has come, and stores
  std::thread second([&] {
    x.launch_first_block(flash_backward_store_then_reduce<Tile, Half>);
  });
  std::this_thread::sleep_for(kLong);
  CHECK(x.untouched());
  x.count_on(kStored);
  second.join();
  CHECK(!x.untouched());
  CHECK(x.counted(2 + kStored));
}

TEST_CASE("the first block of rungs 11 and 12 stores its part of dQ") {
  for (const bool in_order : {false, true}) {
    CAPTURE(in_order);
    TwoBlocks x;
    // Of one block of keys, whose rank is 0.
    x.a.length_k = Tile::block_n;
    device_poison(x.a.d_q_accum, TwoBlocks::kSums * sizeof(float));
    x.launch_first_block(in_order
                             ? flash_backward_ordered_dq<Tile, Half>
                             : flash_backward_store_then_reduce<Tile, Half>);
    bool numbers = true;
    for (std::int64_t i = 0; i < TwoBlocks::kSums; ++i) {
      numbers = numbers && std::isfinite(x.sum(i));
    }
    CHECK(numbers);
    CHECK(x.counted(in_order ? 1 : 1 + kStored));
  }
}

TEST_CASE(
    "with semaphores in the workspace, the kernels for sm_80 add to zeros") {
  TwoBlocks x;
  device_poison(x.a.d_q_accum, TwoBlocks::kSums * sizeof(float));
  launch_backward_swizzled_pipeline<kDim>(x.a, x.stream);
  const Tensor<float, 4> d_q = x.d_q.host();
  bool numbers = true;
  for (std::int64_t i = 0; i < d_q.count(); ++i) {
    numbers = numbers && std::isfinite(d_q.data()[i]);
  }
  CHECK(numbers);
}
