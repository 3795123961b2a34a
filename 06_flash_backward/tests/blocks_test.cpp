// What blocks do, in the lab. Steps 11 and 12: which one adds to dQ, and when; the test plays the other
// block, since no result would show which one came first. Steps 19 and 20: gradients with parts of
// unequal size.
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "06_flash_backward/src/dispatch.cuh"
#include "06_flash_backward/src/gradient_rows.cuh"
#include "common/attention/tests/step_tests.hpp"
#include "common/tensor/random.hpp"

using namespace fa;
using namespace fa::on_lab;
using attention::problem_of;
using attention::Type;
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
      : DeviceGradient<Half>(problem_of(Type::kFloat16, {1, 1, 1, kQueriesInAll, kKeysInAll, kDim}),
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
      if (__atomic_load_n(a.d_q_semaphores + part, __ATOMIC_RELAXED) != value) return false;
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
  for (std::int64_t i = 0; i < d_q.count(); ++i) numbers = numbers && std::isfinite(d_q.data()[i]);
  CHECK(numbers);
}

namespace {

// Checks gradients by a launch function, twice, and that the given ones have the same bits.
template <class Launch>
void check_gradients(const attention::Problem& problem, const Workspace& what, bool same_d_q,
                     bool same_d_kv, Launch launch_kernels) {
  CAPTURE(problem.text());
  const auto inputs = backward::make_inputs(problem, attention::Values::kNormal, 1);
  DeviceGradient<Half> x(problem, inputs);
  DeviceBuffer<float> workspace(workspace_floats(x.a, what));
  set_workspace(x.a, workspace.data(), what);
  const auto run = [&] {
    launch_kernels(x.a);
    device_synchronize();
    return x.result();
  };
  const auto first = run();
  attention::check_result(backward::Checker(problem, inputs), problem, "with parts", first);
  const auto again = run();
  if (same_d_kv) CHECK(same_bits(first.d_k, again.d_k));
  if (same_d_kv) CHECK(same_bits(first.d_v, again.d_v));
  if (same_d_q) CHECK(same_bits(first.d_q, again.d_q));
}

// Of step 19, with so many parts.
template <int d>
void check_parts(const attention::Problem& problem, int parts, bool deterministic) {
  CAPTURE(parts);
  CAPTURE(deterministic);
  const auto floats = d_kv_floats(attention_of<Half>(problem), 128, 2 * d, parts, deterministic);
  check_gradients(problem, {d, true, floats}, deterministic, deterministic, [&](const auto& a) {
    launch_backward_split_groups<d>(a, parts, deterministic, Stream());
  });
}
// Of step 20: of the blocks of step 13, and up to 192 columns of those of step 18.
template <int d, int d_v>
void check_wide_parts(const attention::Problem& problem, int parts) {
  CAPTURE(parts);
  const auto of = attention_of<Half>(problem);
  check_gradients(problem, {0, false, d_kv_floats(of, kKeys, d + d_v, parts)}, true, true,
                  [&](const auto& a) { launch_backward_split_wide<d, d_v>(a, parts, Stream()); });
  if constexpr (d == kTransposedColumns) {
    check_gradients(problem, {d, false, d_kv_floats(of, kPairKeys, d + d_v, parts)}, false, true,
                    [&](const auto& a) { launch_backward_split_pairs<d_v>(a, parts, Stream()); });
  }
}

}  // namespace

TEST_CASE("a slice of a head begins in proportion to where the whole begins") {
  CHECK(slice_of({5, 15, 5}, 1, 2).start == 10);
  CHECK(slice_of({5, 15, 14}, 1, 2).start == 14);
}

TEST_CASE("gradients with parts of equal and of unequal size, in both modes") {
  for (const bool deterministic : {false, true}) {
    for (const auto& [group, parts] :
         {std::pair{2, 2}, {3, 2}, {3, 3}, {5, 3}, {7, 2}, {7, 5}, {8, 4}, {16, 5}, {32, 32}}) {
      const bool causal = parts % 2 == 1;
      check_parts<64>(problem_of(Type::kFloat16, {1, group, 1, 70, 150, 64}, causal), parts,
                      deterministic);
    }
    check_parts<96>(problem_of(Type::kFloat16, {2, 6, 2, 150, 70, 72}, true), 2, deterministic);
    check_parts<128>(problem_of(Type::kFloat16, {2, 6, 2, 70, 300, 128}, true), 2, deterministic);
    check_parts<128>(problem_of(Type::kFloat16, {2, 10, 2, 150, 140, 104}), 3, deterministic);
  }
}

TEST_CASE("gradients with slices of heads, in both modes") {
  for (const bool deterministic : {false, true}) {
    for (const bool causal : {false, true}) {
      check_parts<64>(problem_of(Type::kFloat16, {1, 2, 1, 400, 300, 64}, causal), 4,
                      deterministic);
      check_parts<128>(problem_of(Type::kFloat16, {2, 2, 2, 300, 400, 128}, causal), 3,
                       deterministic);
    }
    // Blocks with fewer tiles of queries than slices, or none.
    check_parts<64>(problem_of(Type::kFloat16, {1, 2, 1, 300, 5, 64}, true), 6, deterministic);
    check_parts<64>(problem_of(Type::kFloat16, {1, 2, 1, 5, 300, 64}, true), 4, deterministic);
  }
}

TEST_CASE("wide heads: gradients with parts of equal and of unequal size") {
  // Lengths around the tiles of 64 and 96 keys, and a pair whose second block has no keys.
  check_wide_parts<192, 192>(problem_of(Type::kFloat16, {2, 6, 2, 130, 200, 192}), 2);
  check_wide_parts<192, 192>(problem_of(Type::kFloat16, {1, 5, 1, 70, 97, 136}, true), 5);
  check_wide_parts<192, 192>(problem_of(Type::kFloat16, {2, 4, 1, 5, 300, 192}, true), 3);
  check_wide_parts<192, 192>(problem_of(Type::kFloat16, {1, 2, 1, 300, 5, 160}, true), 2);
  check_wide_parts<256, 256>(problem_of(Type::kFloat16, {2, 6, 2, 140, 150, 256}, true), 2);
  check_wide_parts<256, 256>(problem_of(Type::kFloat16, {1, 7, 1, 70, 130, 200}), 3);
  attention::Problem mla = problem_of(Type::kFloat16, {2, 6, 2, 100, 200, kMlaHeadDim}, true);
  mla.head_dim_v = kMlaHeadDimV;
  check_wide_parts<kMlaHeadDim, kMlaHeadDimV>(mla, 3);
  check_wide_parts<kMlaHeadDim, kMlaHeadDimV>(mla, 2);
}
