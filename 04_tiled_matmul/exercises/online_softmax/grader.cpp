#ifdef FA_ENTRIES  // the student's process
// The rows of y, and then lse.
FA_ENTRY(softmax, [](const std::vector<float>& matrix, int rows, int cols) {
  std::string error;
  Launched result = watched([&] {
    const auto x = on_device(matrix);
    DeviceBuffer<float> y(std::int64_t{rows} * cols), lse(rows);
    error = thrown([&] {
      launch(softmax_block, {{static_cast<unsigned>(rows)}, {kThreads}}, x.data(), y.data(),
             lse.data(), cols);
    });
    std::vector<double> all = from_device(y);
    for (const double value : from_device(lse)) all.push_back(value);
    return all;
  });
  return std::pair(result, error);
});
#else  // the grader
#include "04_tiled_matmul/exercises/grading/softmax.hpp"

using namespace fa::classroom;

namespace {

const std::vector<Reason> kReasons = {
    {"barrier", "only some threads come to the barrier: no thread may return early"},
    {"unwritten",
     "shared memory is read where no warp has stored: is there a barrier after the store, and has "
     "every warp stored its state?"},
    {"race", "a barrier is missing between storing and reading the states of the warps"}};

SoftmaxCase run(SoftmaxCase c) {
  static_cast<Launched&>(c) = call_waiting(
      kReasons, "shuffles need all lanes and barriers all threads, so no thread may return early.",
      "softmax", c.x, c.rows, c.cols);
  return c;
}

void grade(int rows, int cols, int masked_row = -1, float level = 0, bool ties = false) {
  const SoftmaxCase c = run(softmax_case(rows, cols, masked_row, level, ties));
  require(static_cast<std::int64_t>(c.out.size()) == std::int64_t{rows} * (cols + 1),
          "y and lse have another size");
  const auto end_of_y = c.out.begin() + std::int64_t{rows} * cols;
  const std::vector<double> y(c.out.begin(), end_of_y), lse(end_of_y, c.out.end());
  check_softmax(c, y, kReasons,
                {{"the four warps were not merged: each of them divides by its own sum",
                  RowSoftmax(c, 4, 32).y}});
  const RowSoftmax right(c);
  check_result(c.seen, kReasons, {"lse", lse}, right.lse, level == 0 ? 1e-5 : 1e-2,
               {{"lse lacks the maximum: it is m + ln l", right.log_l}}, c.where);
}

}  // namespace

FA_STAGE(easy) {
  grade(2, 256);
  grade(3, 128);
}

FA_STAGE(odd) {
  grade(2, 300);
  grade(1, 1);
  grade(3, 37);
  grade(3, 131, 1);
  grade(2, 20, 0);
  grade(2, 200, -1, -2e4f);
  grade(2, 200, -1, 2e4f);
  grade(2, 200, -1, 0, true);
}

FA_STAGE(races) {
  for (const int cols : {20, 300}) {
    require_no_races(run(softmax_case(2, cols)).seen);
  }
}

FA_STAGE(traffic) {
  constexpr int rows = 4, cols = 512;
  const SoftmaxCase c = run(softmax_case(rows, cols));
  needs_watching(c.seen);
  const std::int64_t least = (3 * cols + 1) * rows * 4;
  note("wavefronts of shared memory", c.seen.wavefronts);
  require(c.seen.atomics == 0, "atomics follow one another; lanes and warps can merge in a tree");
  budget("bytes of global memory", c.seen.bytes, least,
         "x is read twice, y written once, lse written by one thread", (2 * cols + 1) * rows * 4);
  require(c.seen.wavefronts <= rows * 128,
          fmt::format("{} wavefronts of shared memory: merge the lanes of a warp by shuffles, so "
                      "that only four states go through it",
                      c.seen.wavefronts));
}
#endif
