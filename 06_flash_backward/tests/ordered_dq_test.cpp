// Which block adds to dQ, and when, in steps 11 and 12, in the lab. The test plays the other block,
// since no result would show which one came first.
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "06_flash_backward/src/dispatch.cuh"
#include "06_flash_backward/src/gradient_rows.cuh"
#include "common/tensor/random.hpp"

using namespace fa;
using namespace fa::on_lab;
using Half = fa::on_lab::half;

namespace {

// Two blocks of keys and one tile of queries.
constexpr int kQueriesInAll = 100, kKeysInAll = 200, kDim = 64;
using Tile = HopperBackwardTileFor<Half, kDim>;

Tensor<float, 4> random_rows(int rows, std::uint64_t seed) {
  Tensor<float, 4> tensor({1, 1, rows, kDim});
  fill_normal(tensor.view(), seed);
  return tensor;
}

// A problem with a workspace after preprocess_semaphores().
struct TwoBlocks : DeviceGradient<Half> {
  TwoBlocks()
      : DeviceGradient<Half>(attention::problem_of(attention::Type::kFloat16,
                                                   {1, 1, 1, kQueriesInAll, kKeysInAll, kDim}),
                             {{random_rows(kQueriesInAll, 1), random_rows(kKeysInAll, 5),
                               random_rows(kKeysInAll, 6)},
                              random_rows(kQueriesInAll, 2),
                              Tensor<float, 3>({1, 1, kQueriesInAll}),
                              random_rows(kQueriesInAll, 3)}) {
    const Workspace what{kDim, true};
    workspace.emplace(workspace_floats(a, what));
    set_workspace(a, workspace->data(), what);
    launch(stream, preprocess_semaphores<kDim, Half>, preprocess_launch<kDim>(a), a);
    device_zero(a.d_q_accum, kSums * sizeof(float));
  }
  // Launches a kernel in an order with one block of keys: the first one alone runs.
  void launch_first_block(void (*kernel)(TmaGradient<Half>, TileScheduler)) {
    launch(stream, kernel,
           {{1}, {kWarpgroup * (kKeyWarpgroups + 1)}, sizeof(DelayedBackwardShared<Tile>)},
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
      if (__atomic_load_n(a.d_q_semaphores + part, __ATOMIC_RELAXED) != value) {
        return false;
      }
    }
    return true;
  }

  static constexpr std::int64_t kSums = std::int64_t{Tile::block_m} * kDim;
  std::optional<DeviceBuffer<float>> workspace;
  const Stream stream;
};

constexpr auto kLong = std::chrono::milliseconds(500);

// What the thread that stores needs of a block's shared memory.
struct Parts {
  float d_q[kKeyWarpgroups][Tile::d_q_part];
  Mbarrier d_q_full[kKeyWarpgroups], d_q_empty[kKeyWarpgroups];
};
// Thread 0 stores a part of step 12, which another warp completes when it has looked at the
// semaphore for a while.
__global__ void complete_late(AttentionGradient<Half> a, NBlock block, bool one_order,
                              unsigned* seen) {
  auto& shared = *dynamic_shared<Parts>();
  if (threadIdx.x == 0) {
    shared.d_q_full[0].init(1);
    shared.d_q_empty[0].init(1);
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) store_or_reduce_d_q<Tile>(shared, a, block, 0, one_order);
  if (threadIdx.x == kWarp) {
    for (int i = 0; i < 100; ++i) *seen = load_acquire(a.d_q_semaphores);
    shared.d_q_full[0].arrive();
  }
}

}  // namespace

TEST_CASE("a block of step 11 adds to dQ when its rank is reached, not before") {
  TwoBlocks x;
  REQUIRE(x.untouched());
  // Of two blocks the first one is the second to add.
  std::thread first([&] { x.launch_first_block(flash_backward_ordered_dq<Tile, Half>); });
  std::this_thread::sleep_for(kLong);
  CHECK(x.untouched());
  CHECK(x.counted(0));
  x.count_on(1);
  first.join();
  CHECK(!x.untouched());
  CHECK(x.counted(2));
}

TEST_CASE("a block of step 12 adds to dQ after the first part is stored") {
  TwoBlocks x;
  x.count_on(1);  // another block has come, and stores
  std::thread second([&] { x.launch_first_block(flash_backward_store_then_reduce<Tile, Half>); });
  std::this_thread::sleep_for(kLong);
  CHECK(x.untouched());
  x.count_on(kStored);
  second.join();
  CHECK(!x.untouched());
  CHECK(x.counted(2 + kStored));
}

// Otherwise two blocks that begin at different tiles could wait for each other.
TEST_CASE("in several orders a block of step 12 is first only when its part of dQ is complete") {
  for (const bool one_order : {false, true}) {
    CAPTURE(one_order);
    TwoBlocks x;
    unsigned seen = ~0u;
    launch(x.stream, complete_late, {{1}, {2 * kWarp}, sizeof(Parts)}, x.a,
           NBlock{0, 0, 0, {0, 1, 0}}, one_order, &seen);
    CHECK(seen == (one_order ? 1 : 0));
    CHECK(__atomic_load_n(x.a.d_q_semaphores, __ATOMIC_RELAXED) == 1 + kStored);
  }
}

TEST_CASE("the first block of steps 11 and 12 stores its part of dQ") {
  for (const bool in_order : {false, true}) {
    CAPTURE(in_order);
    TwoBlocks x;
    // Of one block of keys, whose rank is 0.
    x.a.length_k = Tile::block_n;
    device_poison(x.a.d_q_accum, TwoBlocks::kSums * sizeof(float));
    x.launch_first_block(in_order ? flash_backward_ordered_dq<Tile, Half>
                                  : flash_backward_store_then_reduce<Tile, Half>);
    bool numbers = true;
    for (std::int64_t i = 0; i < TwoBlocks::kSums; ++i) {
      numbers = numbers && std::isfinite(x.sum(i));
    }
    CHECK(numbers);
    CHECK(x.counted(in_order ? 1 : 1 + kStored));
  }
}

TEST_CASE("with semaphores in the workspace, the kernels for sm_80 add to zeros") {
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
