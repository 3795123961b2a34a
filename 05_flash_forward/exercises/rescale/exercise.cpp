#if defined(FA_STUDENT)
#include "05_flash_forward/kernels/02_flash_1.cuh"

namespace fa::FA_TARGET {

/// Queries of a block: a thread for each.
constexpr int kFlash2Queries = 64;
/// Keys of a tile.
constexpr int kFlash2Keys = 32;

/// Launched with blocks of 64; grid of ceil(length_q / 64) x heads x batch.
/// @tparam d at least head_dim
// listing: 05_flash_forward/kernels/03_flash_2.cuh#flash_2

}  // namespace fa::FA_TARGET
#elif defined(FA_ENTRIES)
#include "05_flash_forward/exercises/attention.hpp"

FA_ENTRY(run, [](const Inputs& in) {
  return run<float>(in, [](const Attention<float>& a) {
    launch(flash_2<32>,
           {{static_cast<unsigned>(ceil_div(a.length_q, kFlash2Queries)),
             static_cast<unsigned>(a.heads)},
            {kFlash2Queries}},
           a);
  });
});
#elif defined(FA_GRADER)
#include "05_flash_forward/exercises/grading/attention.hpp"

using namespace fa::classroom;

namespace {

constexpr int kFlash2Queries = 64;  // of a block; a tile has 32 keys

void grade(const Sizes& sizes) {
  const Inputs in = random_inputs<float>(sizes, 2);
  check_rows(launched(in), {}, in, attention(in), 2e-5, {});
}

}  // namespace

FA_STAGE(easy) {
  grade({1, 1, 64, 32, 32, false});
  grade({1, 1, 64, 5, 32, false});
}

FA_STAGE(odd) {
  grade({1, 1, 70, 133, 32, false});
  grade({2, 1, 67, 99, 32, true});
  grade({1, 1, 90, 40, 32, true});
  check_variations(
      {1, 1, 70, 133, 32, false}, launched, [](const Inputs& in) { return attention(in); }, 2e-5,
      2);
}

FA_STAGE(races) {
  const Ran ran = launched(random_inputs<float>({2, 1, 70, 75, 24, true}));
  require_no_races(ran.seen);
}

FA_STAGE(traffic) {
  const int n = 128, d = 32, tiles = n / kFlash2Queries;
  const Ran ran = launched(random_inputs<float>({1, 1, n, n, d, false}));
  needs_watching(ran.seen);
  const std::int64_t least = 4 * ((2 * tiles + 2) * n * d + n);
  budget("bytes of global memory", ran.seen.bytes, least, "m, l and o stay in registers", least);
}
#endif
/* Other answers, as changes of the solution
# start: what the student begins with
@ start
- const float rescale = exp_diff(m, m_new);
- ...
- for (int e = 0; e < d; ++e) o[e] *= rescale;
+     // TODO: m, l and o belong to the tiles before. Rescale them for this one,
+     // whose maximum is in m_new already.
- if (!exists) return;
- ...
- h.lse[query] = log_sum(m, l);
+   if (!exists) return;
+   // TODO: o is not divided yet, and h.lse[query] is missing: a natural logarithm.
+   store_row(h.o + query * a.o_strides.row, o, a.head_dim);

# o_not_rescaled: the sums of weighted values keep the old maximum
@ odd: the LSE is right and O is not
- for (int e = 0; e < d; ++e) o[e] *= rescale;
+     for (int e = 0; e < d; ++e) o[e] *= 1;

# l_not_rescaled: the sum keeps the old maximum
@ odd: so only the sum l is
- l *= rescale;
+

# no_key: 0 / 0 where a query sees no key
@ odd: a row that sees no key gives NaN
- for (int e = 0; e < d; ++e) o[e] = l == 0 ? 0 : o[e] / l;
+   for (int e = 0; e < d; ++e) o[e] = o[e] / l;

# m_first: the old maximum is lost
@ odd: computed before m is set
- const float rescale = exp_diff(m, m_new);
- m = m_new;
+     m = m_new;
+     const float rescale = exp_diff(m, m_new);

# no_stride: rows are taken to follow one another
@ odd: a stride of their own
- store_row(h.o + query * a.o_strides.row, o, a.head_dim);
+   store_row(h.o + query * a.head_dim, o, a.head_dim);

# cuda_words: max(), __expf() and __fdividef()
@ right
- m_new = fmaxf(m_new, s[j]);
+      m_new = max(s[j], m_new);
- const float rescale = exp_diff(m, m_new);
- m = m_new;
- l *= rescale;
+    const float rescale = __expf(m - max(m_new, -3.0e38f));
+    l *= rescale; m = m_new;
- for (int e = 0; e < d; ++e) o[e] = l == 0 ? 0 : o[e] / l;
+  for (int e = 0; e < d; ++e) o[e] = l > 0 ? __fdividef(o[e], l) : 0;
*/
