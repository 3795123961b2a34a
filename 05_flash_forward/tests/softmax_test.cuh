// When the softmax of step 14 rescales; exponentials by FMAs; and the states of parts, merged by a warp as lesson 03 merges
// them. Compiled for the lab and for the GPU.
#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "03_online_softmax/state.hpp"
#include "05_flash_forward/kernels/18_tensor_memory.cuh"
#include "05_flash_forward/kernels/decode/split_state.cuh"
#include "common/gpu/launch.cuh"
#include "common/tensor/matrix.hpp"
#include "common/tensor/random.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::FA_TARGET {
namespace {

// Whether a warp rescales at its second tile, whose maxima are those of the first one but for row 5,
// where it has grown. Each lane stores what it is told.
__global__ void rescales(float growth, int* found) {
  const int lane = static_cast<int>(threadIdx.x);
  RowState rows = empty_row_state();
  float s[32] = {}, rescale[2];
  online_softmax<true>(s, rows, rescale, 1);
  for (float& score : s) score = 0;
  if (lane == 4 * 5 + 2) s[4] = growth;
  found[lane] = lazy_online_softmax<true>(s, rows, rescale, 1) ? 1 : 0;
}

TEST_CASE("a warp rescales when one row maximum has grown past the threshold") {
  if (!device_available()) return;
  const auto limit = static_cast<float>(kRescaleThreshold);
  for (const float growth : {0.0f, limit, std::nextafter(limit, 100.0f), 100.0f}) {
    CAPTURE(growth);
    DeviceBuffer<int> found(kWarp);
    launch(rescales, {{1}, {kWarp}}, growth, found.data());
    const auto told = found.tensor<int, 1>({kWarp});
    for (int lane = 0; lane < kWarp; ++lane) CHECK(told(lane) == (growth > limit ? 1 : 0));
  }
}

__global__ void powers(float first, float step, float* out) {
  const int i = static_cast<int>(blockIdx.x * kWarp + threadIdx.x);
  out[i] = exp2_fma(first + step * static_cast<float>(i));
}

TEST_CASE("exponentials by FMAs are within 1.02e-4, exact for 0, and 0 from -127 down") {
  if (!device_available()) return;
  constexpr int count = 138 * 1024;
  DeviceBuffer<float> out(count);
  launch(powers, {{count / kWarp}, {kWarp}}, -126.0f, 1.0f / 1024, out.data());  // up to 12
  const auto found = out.tensor<float, 1>({count});
  double worst = 0;
  for (int i = 0; i < count; ++i) {
    const double error = static_cast<double>(found(i)) / std::exp2(-126 + i / 1024.0) - 1;
    if (i >= 512) worst = std::max(worst, std::abs(error));  // normal from -125.5 on
  }
  CHECK(worst <= 1.02e-4);
  CHECK(worst > 1.01e-4);  // all of the interval is in use
  CHECK(found(126 * 1024) == 1);
  for (const float x : {-127.0f, -1000.0f, -INFINITY}) {
    launch(powers, {{1}, {kWarp}}, x, 0.0f, out.data());
    CHECK(out.tensor<float, 1>({count})(0) == 0);
  }
}

// ---- States of parts, merged by a warp.

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

}  // namespace
}  // namespace fa::FA_TARGET
