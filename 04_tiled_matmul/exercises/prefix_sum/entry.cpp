#include "04_tiled_matmul/exercises/puzzle_entry.hpp"
#include "student/prefix_sum.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(run, [](const Puzzle& p) {
  return play(p, [&](const auto& in, float* out, const auto& launched) {
    (void)p;
    launch(prefix_sums, launched, in[0], out, p.sizes[0]);
  });
});
