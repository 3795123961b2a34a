// States of parts, merged by a warp: as lesson 03 merges them, for any number of parts.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "03_online_softmax/state.hpp"
#include "05_flash_forward/kernels/decode/split_state.cuh"
#include "common/tensor/matrix.hpp"
#include "common/tensor/random.hpp"

namespace fa::FA_TARGET {
namespace {

constexpr int kColumns = 64, kPitch = kColumns + 8;

// Merges the parts of row blockIdx.x, in reverse order, into slot 0 of `merged`.
__global__ void merge_kernel(SplitStates parts, int count, float exponent_scale,
                             SplitStates merged) {
  const int row = static_cast<int>(blockIdx.x);
  store_state(merged, 0, row, merge_row<kColumns>(parts, count, row, exponent_scale, [=](int part) {
                return count - 1 - part;
              }));
}

using State = online::State<online::BaseE<double>, Vector<double>>;

// Lesson 03's merge, of states whose maxima are scaled.
State merged_on_host(const SplitStates& parts, int count, int row, double scale) {
  State all{-INFINITY, 0, Vector<double>::Zero(kColumns)};
  for (int part = 0; part < count; ++part) {
    const int i = part * parts.rows + row;
    State own{scale * static_cast<double>(parts.m[i]), parts.l[i], Vector<double>(kColumns)};
    for (int e = 0; e < kColumns; ++e) own.o(e) = parts.o[i * parts.pitch + e];
    all = online::merge(all, own);
  }
  return all;
}

// Random states; every third is of no keys, and in row 1 all are.
std::vector<float> random_states(int count, int rows) {
  std::vector<float> memory(static_cast<std::size_t>(state_floats(count, rows, kPitch)));
  const SplitStates states = states_at(memory.data(), count, rows, kPitch);
  const auto random = [](int i) {
    return static_cast<float>(random_uniform(7, static_cast<std::uint64_t>(i)));
  };
  for (int part = 0; part < count; ++part) {
    for (int row = 0; row < rows; ++row) {
      const int i = part * rows + row;
      const bool empty = row == 1 || (part + row) % 3 == 1;
      states.m[i] = empty ? -INFINITY : 40 * random(i) - 20;
      states.l[i] = empty ? 0 : 1 + random(i + 1000);
      for (int e = 0; e < kColumns; ++e) {
        states.o[i * kPitch + e] = empty ? 0 : random(i * kColumns + e) - 0.5f;
      }
    }
  }
  return memory;
}

// The states of random_states() merged on the device: the state of each row.
std::vector<float> merged_on_device(const std::vector<float>& host, int count, int rows,
                                    float scale) {
  DeviceBuffer<float> memory(static_cast<std::int64_t>(host.size()));
  memory.upload(host.data());
  DeviceBuffer<float> result(state_floats(1, rows, kColumns));
  launch(merge_kernel, {{static_cast<unsigned>(rows)}, {kWarp}},
         states_at(memory.data(), count, rows, kPitch), count, scale * kLog2E,
         states_at(result.data(), 1, rows, kColumns));
  std::vector<float> merged(static_cast<std::size_t>(result.count()));
  result.download(merged.data());
  return merged;
}

}  // namespace

TEST_CASE("states of parts are merged as in lesson 03, however many they are") {
  if (!device_available()) return;
  constexpr int rows = 3;
  constexpr float scale = 0.25f;
  for (const int count : {1, 2, 3, 31, 32, 33, 70, 128, 200}) {
    std::vector<float> host = random_states(count, rows);
    std::vector<float> merged = merged_on_device(host, count, rows, scale);
    const SplitStates out = states_at(merged.data(), 1, rows, kColumns);
    for (int row = 0; row < rows; ++row) {
      CAPTURE(count);
      CAPTURE(row);
      const auto right = merged_on_host(states_at(host.data(), count, rows, kPitch), count, row,
                                        static_cast<double>(scale));
      CHECK(scale * out.m[row] == static_cast<float>(right.m));
      CHECK(out.l[row] == doctest::Approx(right.l).epsilon(1e-5));
      for (int e = 0; e < kColumns; ++e) {
        const double off = std::abs(static_cast<double>(out.o[row * kColumns + e]) - right.o(e));
        CHECK(off <= 1e-5 * (1 + right.l));
      }
    }
  }
}

TEST_CASE("an infinite O of a part makes the merged O infinite, not NaN") {
  if (!device_available()) return;
  for (const int count : {1, 3, 8, 33}) {
    std::vector<float> host = random_states(count, 1);
    const SplitStates states = states_at(host.data(), count, 1, kPitch);
    for (const int part : {0, count - 1}) {
      states.m[part] = 20;
      states.l[part] = 1;
      states.o[part * kPitch + 5] = INFINITY;
    }
    std::vector<float> merged = merged_on_device(host, count, 1, 0.25f);
    CAPTURE(count);
    CHECK(states_at(merged.data(), 1, 1, kColumns).o[5] == INFINITY);
    CHECK(std::isfinite(states_at(merged.data(), 1, 1, kColumns).o[6]));
  }
}

#if !defined(__CUDACC__)
TEST_CASE("the factor of a part is 0 for no keys, and 1 for the largest maximum") {
  CHECK(part_factor(-INFINITY, -INFINITY, 1) == 0);
  CHECK(part_factor(-INFINITY, 3, 1) == 0);
  CHECK(part_factor(12345.678f, 12345.678f, 0.18033688f) == 1);
  CHECK(part_factor(2, 5, 1) == 0.125f);
}
#endif

}  // namespace fa::FA_TARGET
