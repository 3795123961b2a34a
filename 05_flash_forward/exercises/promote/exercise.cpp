#if defined(FA_STUDENT)
#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

namespace student {

constexpr int kKeys = 128, kColumns = 32;  // of a tile

/// V^T: a row has the keys of a column of V.
using TransposedV = SwizzledTile<e4m3, kColumns, kKeys>;

/// O += P V for a tile of keys, 32 of them in each part of P.
/// @param o    of this lane
/// @param tile its number, from 0 on; you may not need it
__device__ inline void add_tile(float (&o)[kColumns / 2], std::uint32_t (&p)[kKeys / 32][4],
                                const TransposedV& v, [[maybe_unused]] int tile) {
#ifdef FA_SOLUTION
  float sums[kColumns / 2];
  wgmma_fence(sums, p);
  for (int i = 0; i < kKeys / 32; ++i) {
    wgmma<e4m3>(sums, p[i], v.by_rows(0, 32 * i), i > 0);
  }
  wgmma_commit(sums, p);
  wgmma_wait<0>(sums, p);
  for (int i = 0; i < kColumns / 2; ++i) o[i] += sums[i];
#else
  // TODO: here the tensor cores add to the sums of all tiles.
  wgmma_fence(o, p);
  for (int i = 0; i < kKeys / 32; ++i) wgmma<e4m3>(o, p[i], v.by_rows(0, 32 * i), true);
  wgmma_commit(o, p);
  wgmma_wait<0>(o, p);
#endif
}

/// O = P V for 64 queries, with one warpgroup. You need not change it.
/// @param probs [64, tiles * kKeys]
/// @param v     [kColumns, tiles * kKeys]
/// @param out   [64, kColumns]
__global__ void __launch_bounds__(kWarpgroup)
    multiply(const e4m3* probs, const e4m3* v, int tiles, float* out) {
  auto& v_transposed = *dynamic_shared<TransposedV>();
  const int lane = threadIdx.x % kWarp, keys = tiles * kKeys;
  const int row = threadIdx.x / kWarp * 16 + lane / 4, column = lane % 4 * 2;
  float o[kColumns / 2] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    __syncthreads();  // the tile before has been used
    for (int i = threadIdx.x; i < kColumns * kKeys; i += kWarpgroup) {
      const int key = i % kKeys;
      v_transposed.at(i / kKeys, key / 16 * 16)[key % 16] =
          v[i / kKeys * keys + tile * kKeys + key];
    }
    fence_async_proxy();
    __syncthreads();  // V^T is complete
    std::uint32_t p[kKeys / 32][4];
    for (int i = 0; i < kKeys / 8; ++i) {
      const int key = tile * kKeys + i / 2 * 16 + lane % 4 * 4;
      p[i / 4][i % 4] =
          *reinterpret_cast<const std::uint32_t*>(probs + (row + i % 2 * 8) * keys + key);
    }
    add_tile(o, p, v_transposed, tile);
  }
  for (int i = 0; i < kColumns / 2; ++i) {
    out[(row + i / 2 % 2 * 8) * kColumns + column + i / 4 * 8 + i % 2] = o[i];
  }
}

}  // namespace student

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(multiply, [](const std::vector<float>& probs, const std::vector<float>& v, int tiles) {
  using namespace fa::FA_TARGET;
  return watched([&] {
    const auto on_p = on_device(std::vector<e4m3>(probs.begin(), probs.end()));
    const auto on_v = on_device(std::vector<e4m3>(v.begin(), v.end()));
    DeviceBuffer<float> out(64 * student::kColumns);
    launch(student::multiply, {{1}, {kWarpgroup}, sizeof(student::TransposedV)}, on_p.data(),
           on_v.data(), tiles, out.data());
    return from_device(out);
  });
});
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/matmul.hpp"

using namespace fa::classroom;

namespace {

constexpr int kQueries = 64, kKeys = 128, kColumns = 32;

const std::vector<Reason> kReasons = {
    {"wgmma",
     "the sums belong to wgmma from wgmma_fence(), before the first one, to wgmma_commit() and "
     "wgmma_wait<0>(): only then may they be added to O"}};

Launched multiply(const std::vector<float>& probs, const std::vector<float>& v, int tiles) {
  return call<Launched>("multiply", probs, v, tiles);
}

// P V^T^T
std::vector<double> reference(const std::vector<float>& probs, const std::vector<float>& v,
                              int tiles) {
  const int keys = tiles * kKeys;
  std::vector<float> of_keys(v.size());
  for (int i = 0; i < kColumns * keys; ++i) of_keys[i % keys * kColumns + i / keys] = v[i];
  return matmul(probs, of_keys, {kQueries, kColumns, keys});
}

// Whole numbers, whose sums no accumulator rounds.
void grade_whole(int tiles) {
  const auto probs = whole_numbers(std::int64_t{kQueries} * tiles * kKeys, 1),
             v = whole_numbers(std::int64_t{kColumns} * tiles * kKeys, 2);
  const Launched o = multiply(probs, v, tiles);
  const auto right = reference(probs, v, tiles);
  // Without the first keys.
  const auto from = [&](int first) {
    std::vector<float> part = probs;
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (static_cast<int>(i) % (tiles * kKeys) < first) part[i] = 0;
    }
    return reference(part, v, tiles);
  };
  check_result(o.seen, kReasons, {"o", o.out, kColumns}, right, 0,
               {{"O has the last tile only: add the sums to O instead of overwriting it",
                 from((tiles - 1) * kKeys)},
                {"O has the last 32 keys only: with `adds` false a wgmma overwrites the sums",
                 from(tiles * kKeys - 32)}},
               fmt::format("{} keys, whole numbers", tiles * kKeys));
}

}  // namespace

FA_STAGE(easy) {
  grade_whole(1);
  grade_whole(3);
}

FA_STAGE(odd) {
  // No value is negative: each tile adds to what the sum has, and its low digits are lost.
  constexpr int kTiles = 64, kAllKeys = kTiles * kKeys;
  const std::vector<float> probs(kQueries * kAllKeys, 64);
  std::vector<float> v;
  for (std::uint64_t i = 0; i < kColumns * kAllKeys; ++i) {
    v.push_back(1 + static_cast<float>(fa::random_bits(3, i) % 8) / 8);
  }
  const Launched o = multiply(probs, v, kTiles);
  const auto right = reference(probs, v, kTiles);
  double largest = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    largest = std::max(largest, std::abs(o.out[i] / right[i] - 1));
  }
  require(
      largest <= 0x1p-10,
      fmt::format("after {} keys O is off by {:.2g} of itself; allowed is 2^-10. A sum keeps 13 "
                  "bits after its leading one, and what tensor cores add to it loses the others: "
                  "over how many tiles do they sum?",
                  kAllKeys, largest));
}

FA_STAGE(races) {
  const auto probs = whole_numbers(2 * kQueries * kKeys, 1),
             v = whole_numbers(2 * kColumns * kKeys, 2);
  require_no_races(multiply(probs, v, 2).seen, kReasons);
}
#endif
/* Other answers, as changes of the solution
# last_tile: O is overwritten
@ easy: O has the last tile only
- for (int i = 0; i < kColumns / 2; ++i) o[i] += sums[i];
+   for (int i = 0; i < kColumns / 2; ++i) o[i] = sums[i];

# sums_of_all: the tensor cores begin with O
@ odd: over how many tiles do they sum
- float sums[kColumns / 2];
+   float sums[kColumns / 2];
+   for (int i = 0; i < kColumns / 2; ++i) sums[i] = o[i];
- wgmma<e4m3>(sums, p[i], v.by_rows(0, 32 * i), i > 0);
+     wgmma<e4m3>(sums, p[i], v.by_rows(0, 32 * i), true);
- for (int i = 0; i < kColumns / 2; ++i) o[i] += sums[i];
+   for (int i = 0; i < kColumns / 2; ++i) o[i] = sums[i];

# not_waited_for: the sums are read at once
@ easy: only then may they be added
- wgmma_wait<0>(sums, p);

# overwritten: each matmul starts from zero
@ easy: O has the last 32 keys only
- wgmma<e4m3>(sums, p[i], v.by_rows(0, 32 * i), i > 0);
+     wgmma<e4m3>(sums, p[i], v.by_rows(0, 32 * i), false);

# every_32_keys: promoted more often
@ right
- wgmma_fence(sums, p);
- ...
- for (int i = 0; i < kColumns / 2; ++i) o[i] += sums[i];
+   for (int part = 0; part < kKeys / 32; ++part) {
+     wgmma_fence(sums, p);
+     wgmma<e4m3>(sums, p[part], v.by_rows(0, 32 * part), false);
+     wgmma_commit(sums, p);
+     wgmma_wait<0>(sums, p);
+     for (int i = 0; i < kColumns / 2; ++i) o[i] += sums[i];
+   }

# from_zero: the first matmul adds to 0
@ right
- float sums[kColumns / 2];
+   float sums[kColumns / 2] = {};
- wgmma<e4m3>(sums, p[i], v.by_rows(0, 32 * i), i > 0);
+     wgmma<e4m3>(sums, p[i], v.by_rows(0, 32 * i), true);
*/
