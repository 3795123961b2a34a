#ifdef FA_ENTRIES  // the student's process
#include "05_flash_forward/exercises/attention.hpp"
#include "student/base_two.cuh"
// After the student's kernel.
#include "05_flash_forward/exercises/edge_masks_entry.hpp"
#else  // the grader
#include "05_flash_forward/exercises/grading/attention.hpp"

using namespace fa::classroom;

namespace {

// O when the exponent has another factor than scale / ln 2; the LSE is not compared.
Wrong with_scale(const Inputs& in, const std::string& says, double scale) {
  const Rows rows = attention(in, [&](int, int query, int key, double product) {
    return sees(in.sizes, query, key) ? scale * product : kMinusInfinity;
  });
  return {says, {rows.o, {}}};
}

void grade(const Sizes& sizes, float spread = 1, float scale = 0, bool large = false) {
  const Inputs in = random_inputs<fa::half>(sizes, spread, scale);
  const auto right = static_cast<double>(in.scale);
  // Probabilities and O are rounded to float16.
  check_rows(run_tiled(in, large), {}, in, attention(in), 3e-3,
             {with_scale(in, "all probabilities are the same: products must become powers of 2", 0),
              with_scale(in,
                         "this is 2^(scale (x - m)): a natural exponent taken for one of base 2; "
                         "the factor is scale / ln 2",
                         right * std::log(2.0)),
              with_scale(in, "the exponent is not scaled", 1),
              with_scale(in, "the exponent is scaled twice", right * right)});
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
