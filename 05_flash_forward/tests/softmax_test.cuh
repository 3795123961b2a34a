// The softmax of the Hopper steps on tiles of scores, without the matmuls: online_softmax(),
// lazy_online_softmax() and rescale_o() against the plain formula. And the states of parts, merged by
// a warp as lesson 03 merges them. Compiled for the lab and for the GPU.
#include <algorithm>
#include <cmath>
#include <functional>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "03_online_softmax/state.hpp"
#include "05_flash_forward/kernels/14_lazy_rescaling.cuh"
#include "05_flash_forward/kernels/decode/split_state.cuh"
#include "common/gpu/launch.cuh"
#include "common/tensor/matrix.hpp"
#include "common/tensor/random.hpp"
#include "common/tensor/tensor.hpp"

namespace fa::FA_TARGET {
namespace {

constexpr int kRows = 16;  // of a warp
constexpr int kTiles = 5;

// Stands for a column of V.
__host__ __device__ float value_of(int key) {
  return static_cast<float>(key % 7 - 3);
}

// What one warp finds.
struct Found {
  float* probs;   // kRows x keys
  float* m;       // after each tile, of each row, as each of its four lanes has it
  int* rescaled;  // after each tile, as each lane has been told
  float* l;       // kRows
  float* o;       // kRows, unnormalised
};

// One warp processes kTiles tiles of 2 r keys, as the main loops of steps 11 and 14 do.
// lazy:  lazy_online_softmax() from the second tile on
// edges: from this tile on no score is masked
template <bool lazy, int r>
__global__ void softmax_of_tiles(const float* scores, int edges, float scale, Found found) {
  const int lane = static_cast<int>(threadIdx.x);
  const auto row_of = [&](int i) { return lane / 4 + 8 * (i / 2 % 2); };
  const auto key_of = [&](int tile, int i) {
    return 2 * r * tile + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
  };
  RowState rows = empty_row_state();
  float o[4] = {};
  for (int tile = 0; tile < kTiles; ++tile) {
    float s[r], rescale[2];
    for (int i = 0; i < r; ++i) {
      s[i] = scores[row_of(i) * 2 * r * kTiles + key_of(tile, i)];
    }
    const auto step = [&](auto edge) {
      constexpr bool masked = decltype(edge)::value;
      if constexpr (lazy) {
        return lazy_online_softmax<masked>(s, rows, rescale, scale);
      } else {
        return online_softmax<masked>(s, rows, rescale, scale);
      }
    };
    const bool rescaled = tile == 0      ? online_softmax<true>(s, rows, rescale, scale)
                          : tile < edges ? step(std::true_type{})
                                         : step(std::false_type{});
    if (rescaled) rescale_o(o, rescale);
    for (int i = 0; i < r; ++i) {
      o[i % 4] += s[i] * value_of(key_of(tile, i));
      found.probs[row_of(i) * 2 * r * kTiles + key_of(tile, i)] = s[i];
    }
    for (int h = 0; h < 2; ++h) {
      found.m[(tile * kRows + row_of(2 * h)) * 4 + lane % 4] = rows.m[h];
    }
    found.rescaled[tile * kWarp + lane] = rescaled;
  }
  for (int h = 0; h < 2; ++h) {
    found.l[row_of(2 * h)] = warp_sum<4>(rows.l[h]);
    found.o[row_of(2 * h)] = warp_sum<4>(o[2 * h] + o[2 * h + 1]);
  }
}

// Scores by row and key.
using Scores = std::function<float(int row, int key)>;

// Whether two values agree, relative to the largest that is summed.
bool near(double a, double b, double largest) {
  return std::abs(a - b) <= 3e-5 * largest;
}

// Checks l and o by the plain formula over all keys.
// most:  the maxima of the rows
// taken: the maxima that were taken last
void check_sums(const Tensor<float, 2>& s, float scale, const std::vector<float>& most,
                const std::vector<float>& taken, const Tensor<float, 1>& l,
                const Tensor<float, 1>& o) {
  for (int row = 0; row < kRows; ++row) {
    CAPTURE(row);
    if (most[row] == -INFINITY) {
      CHECK(l(row) == 0);
      CHECK(o(row) == 0);
      continue;
    }
    double sum = 0, output = 0;
    for (int key = 0; key < s.size(1); ++key) {
      const double weight = std::exp2((static_cast<double>(s(row, key)) - most[row]) * scale);
      sum += weight;
      output += weight * value_of(key);
    }
    const double lse = most[row] * static_cast<double>(scale) + std::log2(sum);
    const double out = taken[row] * static_cast<double>(scale) + std::log2(l(row));
    CHECK(near(out, lse, 1));
    CHECK(near(o(row) / l(row), output / sum, 3));
  }
}

// What Found has, on the host.
struct Results {
  Tensor<float, 2> probs;
  Tensor<float, 3> m;
  Tensor<int, 2> rescaled;
  Tensor<float, 1> l, o;
};

template <bool lazy, int r>
Results results_of(const Tensor<float, 2>& s, int edges, float scale) {
  const DeviceBuffer<float> scores(s);
  DeviceBuffer<float> probs(s.count()), m(kTiles * kRows * 4), l(kRows), o(kRows);
  DeviceBuffer<int> rescaled(kTiles * kWarp);
  launch(softmax_of_tiles<lazy, r>, {{1}, {kWarp}}, scores.data(), edges, scale,
         Found{probs.data(), m.data(), rescaled.data(), l.data(), o.data()});
  return {probs.template tensor<float, 2>(s.shape()),
          m.template tensor<float, 3>({kTiles, kRows, 4}),
          rescaled.template tensor<int, 2>({kTiles, kWarp}), l.template tensor<float, 1>({kRows}),
          o.template tensor<float, 1>({kRows})};
}

// Checks every step.
// Returns after which tiles maxima were raised.
template <bool lazy, int r>
std::vector<bool> check(const Scores& score, int edges, float scale) {
  CAPTURE(lazy);
  CAPTURE(r);
  CAPTURE(edges);
  CAPTURE(scale);
  constexpr int keys = 2 * r, all = keys * kTiles;
  Tensor<float, 2> s({kRows, all});
  for (int row = 0; row < kRows; ++row) {
    for (int key = 0; key < all; ++key) s(row, key) = score(row, key);
  }
  const Results found = results_of<lazy, r>(s, edges, scale);

  // Maxima, tile by tile: those of all rows are raised, or none.
  std::vector<bool> result;
  std::vector<float> taken(kRows, -INFINITY), most(kRows, -INFINITY);
  int wrong_maxima = 0, wrong_votes = 0, wrong_probs = 0, too_large = 0;
  for (int tile = 0; tile < kTiles; ++tile) {
    std::vector<float> in_tile(kRows, -INFINITY);
    bool expected = false;
    for (int row = 0; row < kRows; ++row) {
      for (int key = keys * tile; key < keys * (tile + 1); ++key) {
        in_tile[row] = std::max(in_tile[row], s(row, key));
      }
      most[row] = std::max(most[row], in_tile[row]);
      const float grows = (in_tile[row] - taken[row]) * scale;
      expected = expected || grows > static_cast<float>(tile && lazy ? kRescaleThreshold : 0);
    }
    for (int row = 0; expected && row < kRows; ++row) {
      taken[row] = std::max(taken[row], in_tile[row]);
    }
    for (int lane = 0; lane < kWarp; ++lane) {
      wrong_votes += found.rescaled(tile, lane) != static_cast<int>(expected);
    }
    for (int row = 0; row < kRows; ++row) {
      for (int t = 0; t < 4; ++t) {
        wrong_maxima += found.m(tile, row, t) != taken[row];
      }
      for (int key = keys * tile; key < keys * (tile + 1); ++key) {
        const double weight =
            s(row, key) == -INFINITY
                ? 0
                : std::exp2((static_cast<double>(s(row, key)) - taken[row]) * scale);
        const double out = found.probs(row, key);
        wrong_probs += !near(out, weight, std::max(weight, 1e-9));
        too_large += !(out <= std::exp2(lazy ? kRescaleThreshold : 0) * 1.0001);
      }
    }
    result.push_back(expected);
  }
  CHECK(wrong_votes == 0);
  CHECK(wrong_maxima == 0);
  CHECK(wrong_probs == 0);
  CHECK(too_large == 0);
  check_sums(s, scale, most, taken, found.l, found.o);
  return result;
}

// Both functions, tiles of 64 and 128 keys, edges everywhere and only where needed.
void check_all(const Scores& score, int edges, float scale) {
  for (const int from : {edges, kTiles}) {
    check<false, 32>(score, from, scale);
    check<false, 64>(score, from, scale);
    check<true, 32>(score, from, scale);
    check<true, 64>(score, from, scale);
  }
}

// Normal values that depend on row and key.
float normal(int row, int key) {
  return static_cast<float>(random_normal(1, static_cast<std::uint64_t>(row * 10000 + key)));
}

TEST_CASE("tile by tile, lazy or not, it is the plain softmax") {
  for (const float scale : {0.18f, 1.0f, 7.0f}) {
    check_all(normal, 1, scale);
  }
}

TEST_CASE("rows whose maxima rise or fall with every key are right") {
  for (const float slope : {0.001f, 0.02f, 0.05f, -0.02f}) {
    CAPTURE(slope);
    check_all(
        [=](int row, int key) { return normal(row, key) + slope * static_cast<float>(key * row); },
        1, 0.25f);
  }
}

TEST_CASE("fully masked rows and fully masked tiles") {
  const auto hide = [](const std::function<bool(int row, int key)>& masked) {
    return [=](int row, int key) { return masked(row, key) ? -INFINITY : normal(row, key); };
  };
  // A row, and all rows.
  check_all(hide([](int row, int) { return row == 11; }), kTiles, 1);
  check_all(hide([](int, int) { return true; }), kTiles, 1);
  // The first tiles of some rows or of all.
  check_all(hide([](int row, int key) { return key < 30 * row; }), kTiles, 1);
  check_all(hide([](int, int key) { return key < 256; }), 4, 1);
  // Tiles between and behind others, and all but one key.
  check_all(hide([](int, int key) { return key > 100 && key < 500; }), kTiles, 1);
  check_all(hide([](int row, int key) { return key != 37 * row; }), kTiles, 1);
}

// Row 5 grows by so much in its third tile, row 12 by 1, and all others fall.
template <bool lazy>
std::vector<bool> grown_by(float growth) {
  const auto score = [=](int row, int key) {
    if (key == 128 * 2 + 77 && row == 5) return growth;
    if (key == 128 * 2 + 5 && row == 12) return 1.0f;
    return key == 3 ? 0.0f : -1 - std::abs(normal(row, key));
  };
  return check<lazy, 64>(score, 1, 1);
}

TEST_CASE("a warp rescales when one row maximum has grown past the threshold") {
  using Tiles = std::vector<bool>;
  const Tiles never{true, false, false, false, false}, third{true, false, true, false, false};
  const auto limit = static_cast<float>(kRescaleThreshold);
  CHECK(grown_by<true>(std::nextafter(limit, 0.0f)) == never);
  CHECK(grown_by<true>(limit) == never);
  CHECK(grown_by<true>(std::nextafter(limit, 100.0f)) == third);
  CHECK(grown_by<true>(100) == third);
  CHECK(grown_by<false>(limit) == third);
}

TEST_CASE("without a threshold the smallest growth raises the maximum") {
  const auto rescaled = [](float growth) {
    return check<false, 64>(
        [=](int row, int key) {
          return key == 300 && row == 15 ? 1 + growth
                 : key == 3              ? 1.0f
                                         : -std::abs(normal(row, key));
        },
        1, 1);
  };
  CHECK(rescaled(0) == std::vector<bool>{true, false, false, false, false});
  CHECK(rescaled(2e-7f) == std::vector<bool>{true, false, true, false, false});
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

#if !defined(__CUDACC__)
TEST_CASE("the factor of a part is 0 for no keys, and 1 for the largest maximum") {
  CHECK(part_factor(-INFINITY, -INFINITY, 1) == 0);
  CHECK(part_factor(-INFINITY, 3, 1) == 0);
  CHECK(part_factor(12345.678f, 12345.678f, 0.18033688f) == 1);
  CHECK(part_factor(2, 5, 1) == 0.125f);
}
#endif

}  // namespace
}  // namespace fa::FA_TARGET
