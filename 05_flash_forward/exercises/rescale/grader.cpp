#ifdef FA_ENTRIES  // the student's process
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
#else  // the grader
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
