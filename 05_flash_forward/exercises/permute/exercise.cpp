#if defined(FA_STUDENT)
#include "common/gpu/hopper.cuh"

namespace fa::FA_TARGET {

namespace student {

constexpr int kKeys = 128, kColumns = 32;

/// V^T: a row has the keys of a column of V.
using TransposedV = SwizzledTile<e4m3, kColumns, kKeys>;

/// Which key of each 16 stands at a place of V^T.
#ifdef FA_SOLUTION
// listing: 05_flash_forward/kernels/fp8/transpose_v.cuh#key_at
#else
__device__ constexpr int key_at(int place) {
  return place;  // TODO
}
#endif

/// P as left operands of 32 keys each.
/// @param s a lane's part of P, as wgmma leaves S
__device__ inline void round_probs(std::uint32_t (&p)[kKeys / 32][4], const float (&s)[kKeys / 2]) {
#ifdef FA_SOLUTION
  for (int i = 0; i < kKeys / 32; ++i) {
    for (int j = 0; j < 4; ++j) {
      // Of row j % 2 of the lane: two pairs of columns, 8 columns apart.
      const int at = 16 * i + j / 2 * 8 + j % 2 * 2;
      p[i][j] = pack4<e4m3>(s[at], s[at + 1], s[at + 4], s[at + 5]);
    }
  }
#else
  // TODO: each word has four values of one row.
  for (int i = 0; i < kKeys / 32; ++i) {
    for (int j = 0; j < 4; ++j) p[i][j] = 0;
  }
  (void)s;
#endif
}

/// O = P V for 64 queries, with one warpgroup. You need not change it.
/// @param probs [64, kKeys]
/// @param v     [kKeys, kColumns]
/// @param out   [64, kColumns]
__global__ void __launch_bounds__(kWarpgroup)
    multiply(const float* probs, const e4m3* v, float* out) {
  auto& v_transposed = *dynamic_shared<TransposedV>();
  for (int i = threadIdx.x; i < kColumns * kKeys; i += kWarpgroup) {
    const int column = i / kKeys, place = i % kKeys, first = place / 16 * 16;
    v_transposed.at(column, first)[place % 16] =
        v[(first + key_at(place % 16)) * kColumns + column];
  }
  fence_async_proxy();
  __syncthreads();  // V^T is complete
  const int lane = threadIdx.x % kWarp;
  const int row = threadIdx.x / kWarp * 16 + lane / 4, column = lane % 4 * 2;
  float s[kKeys / 2], o[kColumns / 2];
  for (int i = 0; i < kKeys / 2; ++i) {
    s[i] = probs[(row + i / 2 % 2 * 8) * kKeys + column + i / 4 * 8 + i % 2];
  }
  std::uint32_t p[kKeys / 32][4];
  round_probs(p, s);
  wgmma_fence(o, p);
  for (int i = 0; i < kKeys / 32; ++i) {
    wgmma<e4m3>(o, p[i], v_transposed.by_rows(0, 32 * i), i > 0);
  }
  wgmma_commit(o, p);
  wgmma_wait<0>(o, p);
  for (int i = 0; i < kColumns / 2; ++i) {
    out[(row + i / 2 % 2 * 8) * kColumns + column + i / 4 * 8 + i % 2] = o[i];
  }
}

}  // namespace student

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
FA_ENTRY(multiply, [](const std::vector<float>& probs, const std::vector<float>& v) {
  using namespace fa::FA_TARGET;
  return watched([&] {
    const auto on_p = on_device(probs);
    const auto on_v = on_device(std::vector<e4m3>(v.begin(), v.end()));
    DeviceBuffer<float> out(64 * student::kColumns);
    launch(student::multiply, {{1}, {kWarpgroup}, sizeof(student::TransposedV)}, on_p.data(),
           on_v.data(), out.data());
    return from_device(out);
  });
});

FA_ENTRY(key_at, [](int place) { return fa::FA_TARGET::student::key_at(place); });
#elif defined(FA_GRADER)
#include "04_tiled_matmul/exercises/grading/matmul.hpp"

using namespace fa::classroom;

namespace {

constexpr int kQueries = 64, kKeys = 128, kColumns = 32;
constexpr MatmulSizes kSizes{kQueries, kColumns, kKeys};

// Which keys' V a query gets whose probability of one key is 1.
void grade_keys(int first) {
  bool used[16] = {};
  for (int place = 0; place < 16; ++place) {
    const int key = call<int>("key_at", place);
    require(
        key >= 0 && key < 16 && !used[key],
        fmt::format("key_at({}) is {}: each of the keys 0 to 15 stands at one place", place, key));
    used[key] = true;
  }
  std::vector<float> probs(kQueries * kKeys), v(kKeys * kColumns);
  const auto key_of = [&](int query) { return first + (3 * query + query / 8) % 16; };
  for (int query = 0; query < kQueries; ++query) probs[query * kKeys + key_of(query)] = 1;
  // Four keys share a column, so a sum of several keys' V tells which they are.
  for (int key = 0; key < kKeys; ++key) {
    v[key * kColumns + key / 4] = static_cast<float>(1 << key % 4);
  }
  const Launched o = call<Launched>("multiply", probs, v);
  for (int query = 0; query < kQueries; ++query) {
    const int key = key_of(query);
    std::string got;  // the keys
    for (int other = 0; other < kKeys; ++other) {
      const auto sum = static_cast<int>(o.out[query * kColumns + other / 4]);
      if ((sum >> other % 4) % 2 == 1) got += fmt::format("{}{}", got.empty() ? "" : ", ", other);
    }
    require(
        !got.empty(),
        fmt::format("the probability of key {} is 1 for query {}, and its O is 0: no word of this "
                    "query has its P; see round_probs()",
                    key, query));
    require(got == std::to_string(key),
            fmt::format(
                "O of query {} has V of key {}; it should have V of key {}. A lane has P of two "
                "queries, 8 apart: does each word have one of them? Then: in which byte is P "
                "of the key, and which key has V^T there?",
                query, got, key));
  }
}

}  // namespace

FA_STAGE(easy) {
  grade_keys(0);
}

FA_STAGE(odd) {
  for (int first = 16; first < kKeys; first += 16) grade_keys(first);
  const std::vector<float> probs = whole_numbers(kQueries * kKeys, 1),
                           v = whole_numbers(kKeys * kColumns, 2);
  const Launched o = call<Launched>("multiply", probs, v);
  check_result(o.seen, {}, {"o", o.out, kColumns}, matmul(probs, v, kSizes), 0, {},
               "whole numbers from -4 to 4");
}
#endif
/* Other answers, as changes of the solution
# own_order: keys of V^T in their own order
@ easy: it should have V of key
- return place / 4 * 2 + place / 2 % 2 * 8 + place % 2;
+   return place;

# neighbours: the operand is packed as in 16 bits
@ easy: it should have V of key
- const int at = 16 * i + j / 2 * 8 + j % 2 * 2;
- p[i][j] = pack4<e4m3>(s[at], s[at + 1], s[at + 4], s[at + 5]);
+       const int at = 16 * i + 4 * j;
+       p[i][j] = pack4<e4m3>(s[at], s[at + 1], s[at + 2], s[at + 3]);

# rows_changed: the second word has the second 16 keys
@ easy: it should have V of key
- const int at = 16 * i + j / 2 * 8 + j % 2 * 2;
+       const int at = 16 * i + j % 2 * 8 + j / 2 * 2;

# twice: a key stands at two places
@ easy: stands at one place
- return place / 4 * 2 + place / 2 % 2 * 8 + place % 2;
+   return place / 4 * 2 + place % 2;

# first_keys: the other operands are 0
@ odd: its O is 0
- p[i][j] = pack4<e4m3>(s[at], s[at + 1], s[at + 4], s[at + 5]);
+       p[i][j] = i > 0 ? 0 : pack4<e4m3>(s[at], s[at + 1], s[at + 4], s[at + 5]);

# pairs_changed: another order of a lane's four keys
@ right
- return place / 4 * 2 + place / 2 % 2 * 8 + place % 2;
+   return place / 4 * 2 + (1 - place / 2 % 2) * 8 + place % 2;
- p[i][j] = pack4<e4m3>(s[at], s[at + 1], s[at + 4], s[at + 5]);
+       p[i][j] = pack4<e4m3>(s[at + 4], s[at + 5], s[at], s[at + 1]);
*/
