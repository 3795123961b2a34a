#ifdef FA_ENTRIES  // the student's process
#include "06_flash_backward/exercises/on_device.cuh"

namespace plain = fa::backward::plain;

FA_ENTRY(run, [](const plain::Problem& x) {
  std::pair<Seen, plain::Gradients> result;
  result.first = watch([&] {
    const plain::OnDevice device(x);
    launch(window_keys, plain::tile_launch(x.length_k, 1), WindowGradient{device.a, x.window});
    result.second = device.gradients();
  });
  return result;
});
#else  // the grader
#include "06_flash_backward/exercises/grading/mistakes.hpp"

using namespace fa::classroom;
namespace plain = fa::backward::plain;
using plain::MistakeKind;
using plain::Problem;

namespace {

constexpr int kSide = 32;

Problem problem(int length_q, int length_k, int head_dim, int window) {
  Problem x = plain::random_problem(1, length_q, length_k, head_dim, true);
  x.window = window;
  // Small scores: mistakes are then no larger than what float32 tells apart.
  for (double& number : x.q) number /= 4;
  return x;
}

std::string name_of(const Problem& x) {
  return fmt::format("{} queries, {} keys, a window of {}", x.length_q, x.length_k, x.window);
}

const std::vector<Reason> kReasons{
    {"barrier", "some threads never come to a barrier that others wait at"},
    {"out of bounds", "it writes beside the gradients or the tiles"},
    {"unwritten", "a tile is read where no thread has written"},
    {"race",
     "P and dS are masked by a thread that did not write them, or after the barrier that makes "
     "them visible to the others"}};

void grade(const Problem& x) {
  const plain::Ran c = plain::run(x);
  require(c.seen.atomics == 0,
          fmt::format("{} atomic requests, where each sum has one owner, who stores it",
                      c.seen.atomics));
  plain::check_gradients(
      c, kReasons, x, 2e-5,
      name_of(x) + "; query i stands at key i + length_k - length_q, and sees the last of them",
      {{MistakeKind::kNoWindow, "keys that the window has left still have a probability"}},
      {{MistakeKind::kNoWindow,
        "keys that the window has left still have a dS; P alone was set to 0"}});
}

// Early keys are so large that their scores, beside the LSE of later windows, are powers that
// float32 does not have.
void grade_huge() {
  Problem x = problem(20, 20, 32, 5);
  for (int e = 0; e < 8 * x.head_dim; ++e) x.k[e] *= 400;
  const plain::Ran c = plain::run(x);
  for (const std::vector<double>& numbers : {c.out.d_v, c.out.d_k}) {
    for (const double number : numbers) {
      require(!std::isnan(number),
              "NaN when scores outside of the window are huge: infinity times 0 is NaN, so what is "
              "masked is set to 0 and not multiplied");
    }
  }
  // Scores of some hundred are off by 1e-4, and so are probabilities.
  plain::check_gradients(c, kReasons, x, 2e-3, name_of(x) + ", huge scores outside of it");
}

void grade_traffic(int window) {
  const Problem x = problem(96, 96, 32, window);
  const plain::Ran c = plain::run(x);
  needs_watching(c.seen);
  std::int64_t least = 0;
  for (int query0 = 0; query0 < x.length_q; query0 += kSide) {
    for (int key0 = 0; key0 < x.length_k; key0 += kSide) {
      bool any = false;
      for (int i = query0; i < query0 + kSide; ++i) {
        for (int j = key0; j < key0 + kSide; ++j) any = any || x.sees(i, j);
      }
      least += any;
    }
  }
  // K, V and the gradients once; Q, dO and, for each 2 x 2 scores, LSE, delta and the row sum with
  // each tile.
  const std::int64_t tile = kSide * 32 * 4;
  const std::int64_t fixed = x.length_k / kSide * 4 * tile;
  const std::int64_t went_by = (c.seen.bytes - fixed) * 2 / (7 * tile);
  budget("tiles of queries visited", went_by, least, name_of(x), least);
}

}  // namespace

FA_STAGE(easy) {
  grade(problem(48, 48, 8, 10));
}

FA_STAGE(odd) {
  grade(problem(20, 40, 8, 9));
  grade(problem(90, 20, 8, 12));
  grade(problem(64, 64, 8, 2));  // the last query of a tile
  grade(problem(70, 66, 8, 34));
  grade(problem(5, 7, 24, 1));
  grade(problem(9, 4, 8, 1000));
  grade_huge();
}

FA_STAGE(races) {
  const plain::Ran c = plain::run(problem(40, 33, 8, 6));
  require_no_races(c.seen, kReasons);
}

FA_STAGE(traffic) {
  grade_traffic(10);
  grade_traffic(33);  // the last query that sees a tile of keys is the last of its own tile
}
#endif
