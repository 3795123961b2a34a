// The turns of rung 11, in the lab: the test is the other block, since no result would show who came first.
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "05_flash_forward/device_rows.cuh"
#include "05_flash_forward/tests/problems.hpp"
#include "06_flash_backward/mapped.cuh"
#include "common/tensor/random.hpp"

using namespace fa;
using namespace fa::on_lab;
using flash::Layout;
using flash::Problem;
using Half = fa::on_lab::half;

namespace {

// Two blocks of keys, the first of which is the second to add to the only tile of queries.
constexpr int kQueriesInAll = 100, kKeysInAll = 200, kDim = 64;

DeviceRows<Half> random_rows(int rows, std::uint64_t seed) {
  Tensor<float, 4> tensor({1, 1, rows, kDim});
  fill_normal(tensor.view(), seed);
  return {tensor, tensor.shape(), Layout::kHeadsFirst};
}

}  // namespace

TEST_CASE(
    "a block of rung 11 adds to dQ when its turn has come, not before") {
  using Tile = MappedBackwardTile<Half, kDim>;
  const Problem problem = flash::problem_of(
      flash::Type::kFloat16, {1, 1, 1, kQueriesInAll, kKeysInAll, kDim});
  auto q = random_rows(kQueriesInAll, 1), o = random_rows(kQueriesInAll, 2),
       d_o = random_rows(kQueriesInAll, 3),
       d_q = random_rows(kQueriesInAll, 4), k = random_rows(kKeysInAll, 5),
       v = random_rows(kKeysInAll, 6), d_k = random_rows(kKeysInAll, 7),
       d_v = random_rows(kKeysInAll, 8);
  DeviceBuffer<float> lse(kQueriesInAll);
  device_zero(lse.data(), kQueriesInAll * sizeof(float));
  AttentionGradient<Half> a{};
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
  DeviceBuffer<float> workspace(workspace_floats(a, what));
  set_workspace(a, workspace.data(), what);
  const Stream stream;
  launch_preprocess<kDim>(a, stream);
  const std::int64_t sums = Tile::block_m * kDim;
  const auto untouched = [&] {
    for (std::int64_t i = 0; i < sums; ++i) {
      float sum = 0;
      __atomic_load(a.d_q_sum + i, &sum, __ATOMIC_RELAXED);
      if (sum != 0) return false;
    }
    return true;
  };
  REQUIRE(untouched());
  // An order with one block of keys: the first one alone is launched.
  std::thread first([&] {
    launch(stream, flash_backward_in_turn<Tile, Half>,
           {{1},
            {kWarpgroup * (kKeyWarpgroups + 1)},
            sizeof(BackwardShared<Tile>)},
           map_gradient<Tile>(a), WorkOrder{1, 1, 1, 1});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK(untouched());
  for (int part = 0; part < kKeyWarpgroups; ++part) {
    unsigned before = 0;  // blocks that have added
    CHECK(__atomic_compare_exchange_n(a.turns + part, &before, 1u, false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  }
  first.join();
  CHECK(!untouched());
  for (int part = 0; part < kKeyWarpgroups; ++part) {
    CHECK(__atomic_load_n(a.turns + part, __ATOMIC_RELAXED) == 2);
  }
}
