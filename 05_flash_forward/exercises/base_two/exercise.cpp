#if defined(FA_STUDENT)
#include "05_flash_forward/kernels/07_pipeline.cuh"

namespace fa::FA_TARGET {

/// One step of the online softmax for products that are not scaled yet.
/// @tparam masked whether products may be -infinity: rows of nothing else need
///                care. Here it is always true
/// @tparam wide   a difference first; here it is always false
/// @param s     products of queries and keys; probabilities before the division by l on return
/// @param o     O of the keys so far, before the division by l
/// @param state of the rows: m is the largest product, l this lane's part of the sum
/// @param exponent_scale yours
// listing: 05_flash_forward/library/mma_loop.cuh#base_2

/// Step 07's kernel with this softmax, from the last tile of keys to the first.
template <class Tile, class T, bool has_dropout>
__global__ void __launch_bounds__(Tile::threads) flash_edge_masks(Attention<T> a) {
  constexpr int d = Tile::d;
  T* const q_smem = dynamic_shared<T>();
  T* const k_smem = q_smem + Tile::q_size;
  T* const v_smem = k_smem + 2 * Tile::kv_size;
  const int thread = threadIdx.x, lane = thread % kWarp;
  const int warp_row = thread / kWarp * Tile::warp_rows;
  const int block = longest_first_m_block(a);
  const int query0 = block * Tile::block_m;
  const auto head = head_of(a, blockIdx.z, blockIdx.y);
  const int tiles = ceil_div(visible_keys(a, query0 + Tile::block_m - 1), Tile::block_n);
#ifdef FA_SOLUTION
  const float exponent_scale = a.scale * kLog2E;
#else
  const float exponent_scale = a.scale;  // TODO
#endif
  const auto load = [&](int tile) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    copy_rows_async<Tile::block_n, d, Tile::threads>(k_smem + at, head.k, a.k_strides.row, key0,
                                                     a.length_k, a.head_dim, thread);
    copy_rows_async<Tile::block_n, d, Tile::threads>(v_smem + at, head.v, a.v_strides.row, key0,
                                                     a.length_k, a.head_dim, thread);
  };
  if (tiles > 0) {
    copy_rows_async<Tile::block_m, d, Tile::threads>(q_smem, head.q, a.q_strides.row, query0,
                                                     a.length_q, a.head_dim, thread);
    load(tiles - 1);
    cp_async_commit();
  }
  Accumulators<Tile, d> o = {};
  WarpRowState<Tile> state;
  init_row_state(state);
  for (int tile = tiles - 1; tile >= 0; --tile) {
    const int key0 = tile * Tile::block_n, at = tile % 2 * Tile::kv_size;
    cp_async_wait<0>();
    __syncthreads();  // arrived; no warp still reads the stage load() fills
    if (tile > 0) load(tile - 1);
    cp_async_commit();
    Accumulators<Tile, Tile::block_n> s = {};
    // S = Q K^T
    multiply_q_k<d>(s, q_smem, k_smem + at, warp_row, lane);
    apply_mask(s, a, query0 + warp_row, key0, lane);
    softmax_step_base_2<Tile, true>(s, o, state, exponent_scale);
    // O += P V
    multiply_p_v<d>(o, s, v_smem + at, lane);
  }
  // m of scaled scores
#pragma unroll
  for (int i = 0; i < Tile::row_tiles; ++i) {
#ifdef FA_SOLUTION
    state.m[i][0] *= a.scale;
    state.m[i][1] *= a.scale;
#else
    // TODO: store_rows() writes m + ln(l) as the LSE. What is m here?
    (void)i;
#endif
  }
  store_rows<Tile>(a, head, o, state, query0 + warp_row, lane);
}

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
#include "05_flash_forward/exercises/attention.hpp"
#include "student/base_two.cuh"
// After the student's kernel.
#include "05_flash_forward/exercises/edge_masks_entry.hpp"
#elif defined(FA_GRADER)
#include "05_flash_forward/exercises/grading/attention.hpp"

using namespace fa::classroom;

namespace {

// O when the exponent has another factor than scale / ln 2; the LSE is not compared.
void grade(const Sizes& sizes, float spread = 1, float scale = 0, bool large = false) {
  const Inputs in = random_inputs<fa::half>(sizes, spread, scale);
  const auto right = static_cast<double>(in.scale);
  // Probabilities and O are rounded to float16.
  check_rows(run_tiled(in, large), {}, in, attention(in), 3e-3,
             {with_scale(in, "all probabilities are the same: products must become powers of 2", 0),
              with_scale(in,
                         "this is 2^(scale (x - m)): a natural exponent taken for one of base 2; "
                         "the factor is scale / ln 2",
                         right * std::log(2.0))});
}

// A case of before, with scores far from 0.
void grade_levels(const Sizes& sizes) {
  for (const float level : {-2e4f, 2e4f}) {
    const Inputs in = inputs_around<fa::half>(level, sizes);
    check_level(run_tiled(in), in, attention(in), level);
  }
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 1, 32, 48, 32, false});
}

FA_STAGE(odd) {
  grade({1, 1, 37, 71, 32, false});
  grade({1, 1, 45, 60, 32, true});
  grade({1, 1, 50, 33, 32, true});
  grade({1, 1, 20, 40, 32, false}, 16);
  grade({1, 1, 20, 40, 32, false}, 1, 0.3f);
  grade_levels({1, 1, 37, 71, 32, false});
  // Each warp has 32 queries here, so i is 0 and 1.
  grade({1, 1, 70, 101, 32, true}, 1, 0, true);
}

FA_STAGE(races) {
  const Ran ran = run_tiled(random_inputs<fa::half>({1, 1, 50, 33, 32, true}));
  require_no_races(ran.seen);
}

FA_STAGE(traffic) {
  const int n = 64, row = 2 * 32;
  const Ran ran = run_tiled(random_inputs<fa::half>({1, 1, n, n, 32, false}));
  needs_watching(ran.seen);
  const std::int64_t least = n / tile_rows * n * 2 * row + n * 2 * row + 4 * n;
  budget("bytes of global memory", ran.seen.bytes, least, "all that a step needs is in registers",
         least);
}
#endif
/* Other answers, as changes of the solution
# start: what the student begins with
@ start
- // Where all keys are masked m is -infinity, and -infinity - -infinity
- // would be NaN: subtract 0.
- const float offset =
- masked && m == -INFINITY ? 0.0f : __fmul_rn(m, exponent_scale);
- const auto difference = [&](float x) {  // scale (x - m)
- return (x - (m == -INFINITY ? 0.0f : m)) * exponent_scale;
- };
- // __fmul_rn() forbids an FMA: both products round alike, so the factor
- // is exactly 1 where m stays.
- rescale[h] = exp2_approx(
- wide ? difference(state.m[i][h])
- : __fmul_rn(state.m[i][h], exponent_scale) - offset);
- state.m[i][h] = m;
- float sum = 0;
- #pragma unroll
- for (int j = 0; j < Tile::block_n / 8; ++j) {
- #pragma unroll
- for (int e = 2 * h; e < 2 * h + 2; ++e) {
- s[i][j][e] =
- exp2_approx(wide ? difference(s[i][j][e])
- : s[i][j][e] * exponent_scale - offset);
- sum += s[i][j][e];
- }
- }
- state.l[i][h] = state.l[i][h] * rescale[h] + sum;
+       // TODO: m is the largest product now, state.m[i][h] what it was before.
+       // Make probabilities of the products by exp2_approx(x), which is 2^x. And by
+       // what, rescale[h], are o (below) and l multiplied?
+       rescale[h] = 1;
+       state.m[i][h] = m;
+       float sum = 0;
+       for (int j = 0; j < Tile::block_n / 8; ++j) {
+         for (int e = 2 * h; e < 2 * h + 2; ++e) {
+           s[i][j][e] = 1;
+           sum += s[i][j][e];
+         }
+       }
+       state.l[i][h] = state.l[i][h] * rescale[h] + sum;

# natural: a natural exponent for base 2
@ easy: a natural exponent taken for one of base 2
- const float exponent_scale = a.scale * kLog2E;
+   const float exponent_scale = a.scale;

# not_scaled: products as they are
@ easy: the scores are not scaled
- const float exponent_scale = a.scale * kLog2E;
+   const float exponent_scale = kLog2E;

# l_not_rescaled: the earlier sum is used as it is
@ easy: so only the sum l is
- state.l[i][h] = state.l[i][h] * rescale[h] + sum;
+       state.l[i][h] = state.l[i][h] + sum;

# unguarded: the maximum of nothing is subtracted
@ odd: -infinity - -infinity is not a number
- masked && m == -INFINITY ? 0.0f : __fmul_rn(m, exponent_scale);
+           __fmul_rn(m, exponent_scale);

# m_of_products: m is not scaled at the end
@ easy: m is the largest of the scaled scores
- state.m[i][0] *= a.scale;
- state.m[i][1] *= a.scale;
+

# difference_first: the difference is scaled
@ right
- rescale[h] = exp2_approx(
- wide ? difference(state.m[i][h])
- : __fmul_rn(state.m[i][h], exponent_scale) - offset);
+      rescale[h] = exp2_approx(difference(state.m[i][h])); (void)offset;
- s[i][j][e] =
- exp2_approx(wide ? difference(s[i][j][e])
- : s[i][j][e] * exponent_scale - offset);
+          s[i][j][e] = exp2_approx(difference(s[i][j][e]));
*/
