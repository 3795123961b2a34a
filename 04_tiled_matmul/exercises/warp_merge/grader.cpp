#ifdef FA_ENTRIES  // the student's process
FA_ENTRY(softmax, [](const std::vector<float>& matrix, int rows, int cols) {
  return watched([&] {
    const auto x = on_device(matrix);
    DeviceBuffer<float> y(std::int64_t{rows} * cols);
    launch(softmax_half_warps,
           {{static_cast<unsigned>(ceil_div(rows, 2 * kSoftmaxWarps))}, {32, kSoftmaxWarps}},
           x.data(), y.data(), rows, cols);
    return from_device(y);
  });
});
#else  // the grader
#include "04_tiled_matmul/exercises/grading/softmax.hpp"

using namespace fa::classroom;

namespace {

SoftmaxCase run(SoftmaxCase c) {
  static_cast<Launched&>(c) = call<Launched>("softmax", c.x, c.rows, c.cols);
  return c;
}

void grade(int rows, int cols, int masked_row = -1, float level = 0, bool ties = false) {
  const SoftmaxCase c = run(softmax_case(rows, cols, masked_row, level, ties));
  check_softmax(
      c, c.out, {},
      {{"each lane divides by its own sum: the lanes were not merged", RowSoftmax(c, 16).y}});
}

}  // namespace

FA_STAGE(easy) {
  grade(4, 32);
  grade(8, 64);
}

FA_STAGE(odd) {
  grade(5, 7);
  grade(3, 113);
  grade(1, 1);
  grade(4, 40, 2);
  grade(3, 50, -1, -2e4f);
  grade(3, 50, -1, 2e4f);
  grade(3, 50, -1, 0, true);
}

FA_STAGE(races) {
  for (const int cols : {7, 96}) {
    require_no_races(run(softmax_case(6, cols)).seen);
  }
}

FA_STAGE(traffic) {
  const SoftmaxCase c = run(softmax_case(16, 128));
  needs_watching(c.seen);
  const std::int64_t least = 3 * 16 * 128 * 4;
  note("wavefronts of shared memory", c.seen.wavefronts);
  require(c.seen.atomics == 0,
          fmt::format("{} atomic requests, where lanes of one warp can exchange by shuffles",
                      c.seen.atomics));
  budget("bytes of global memory", c.seen.bytes, least, "", least);
  require(c.seen.wavefronts == 0, "lanes of one warp need no shared memory to agree");
}
#endif
