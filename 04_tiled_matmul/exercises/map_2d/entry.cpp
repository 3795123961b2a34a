#include "04_tiled_matmul/exercises/puzzle_entry.hpp"
#include "student/map_2d.cuh"

using namespace fa::classroom;
using namespace fa::FA_TARGET;

FA_ENTRY(run, [](const Puzzle& p) {
  return play(p, [&](const auto& in, float* out, const auto& launched) {
    (void)p;
    launch(lower_triangle, launched, in[0], out, p.sizes[0], p.sizes[1]);
  });
});
